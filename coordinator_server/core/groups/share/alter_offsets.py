"""AlterShareGroupOffsets: set the start offsets of an empty share group.

The share-partition state is initialized again at the share coordinator; a missing group is created.
Source: GroupMetadataManager.alterShareGroupOffsets, persisterInitialize of GroupCoordinatorService,
KafkaApis.handleAlterShareGroupOffsetsRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.api import GroupApi, has_group_id
from coordinator_server.core.groups.effects import STEP_ITEMS, AssignedSharePartition, StateCall
from coordinator_server.core.groups.modern.members import RefusedError
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.groups.share.initialize import write_initialized
from coordinator_server.core.groups.share.partitions import (
    NO_STATES,
    SharedTopic,
    by_topic,
    with_initializing,
)
from coordinator_server.core.groups.share.records import states_record
from coordinator_server.core.groups.share.share_group import ShareGroup
from protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from protocol.coordinator_errors import client_error
from protocol.error_messages import MESSAGES
from protocol.errors import ErrorCode
from protocol.json_form import uuid_to_text
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects, Reply, StateErrors
    from coordinator_server.core.groups.settings import KnownTopic, TopicsView
    from coordinator_server.steps import Steps


def refuse(
    _: AlterShareGroupOffsetsRequest, __: Caller, error: ErrorCode
) -> AlterShareGroupOffsetsResponse:
    """Return a response that refuses the whole request."""
    return AlterShareGroupOffsetsResponse(error_code=error, error_message=MESSAGES[error])


def wrong_kind(request: AlterShareGroupOffsetsRequest, _: Caller) -> AlterShareGroupOffsetsResponse:
    """Return GROUP_ID_NOT_FOUND for a group of another kind, even if the group is empty."""
    return AlterShareGroupOffsetsResponse(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {request.group_id} is not a share group.",
    )


def creates_group(_: AlterShareGroupOffsetsRequest) -> bool:
    """Return True: the request always creates a missing group."""
    return True


class _Changes:
    """Collects the response and the new start offsets while the partitions are looked up."""

    def __init__(self, group_id: str, topics: TopicsView) -> None:
        self._group_id = group_id
        self._topics = topics
        self._answers: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
        self.offsets: dict[AssignedSharePartition, int] = {}
        self.initializing: dict[bytes, SharedTopic] = {}

    @property
    def response(self) -> AlterShareGroupOffsetsResponse:
        """The response, with the partitions processed so far."""
        return AlterShareGroupOffsetsResponse(responses=list(self._answers.values()))

    def take(self, request: AlterShareGroupOffsetsRequest) -> Steps:
        """Process all partitions; unknown topics come first in the response.

        Raises RefusedError for a negative partition index.
        """
        seen = 0
        for is_known in (False, True):
            for topic in request.topics:
                known = self._topics.topic(topic.topic_name)
                if (known is not None) is not is_known or not (is_known or topic.partitions):
                    continue
                answer = self._answer(topic.topic_name, known)
                for partition in topic.partitions:
                    answer.partitions.append(
                        self._partition(known, partition.partition_index, partition.start_offset)
                    )
                    seen += 1
                    if not seen % STEP_ITEMS:
                        yield
        for topic_id, partitions in by_topic(self.offsets).items():
            name = self.initializing[topic_id].name
            self.initializing[topic_id] = SharedTopic(name, partitions)

    def _answer(self, name: str, known: KnownTopic | None) -> AlterShareGroupOffsetsResponseTopic:
        topic_id = ZERO_UUID
        if known is not None:
            topic_id = known.topic_id
            self.initializing.setdefault(topic_id, SharedTopic(name, frozenset()))
        answer = self._answers.get(name)
        if answer is None:
            answer = AlterShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id)
            self._answers[name] = answer
        return answer

    def _partition(
        self, known: KnownTopic | None, index: int, start_offset: int
    ) -> AlterShareGroupOffsetsResponsePartition:
        if known is None or index >= len(known.partitions):
            return _failed(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if index < 0:
            message = (
                "Initialize share group parameters has invalid partitionId - "
                f"{self._group_id} {uuid_to_text(known.topic_id)} {index}"
            )
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.offsets[AssignedSharePartition(known.topic_id, index)] = start_offset
        return AlterShareGroupOffsetsResponsePartition(partition_index=index)


def _failed(index: int, error: ErrorCode) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=index, error_code=error, error_message=MESSAGES[error]
    )


def alter_first(
    group: GroupMetadata,
    request: AlterShareGroupOffsetsRequest,
    reply: Reply[AlterShareGroupOffsetsResponse],
    now_ms: int,
    effects: Effects,
) -> Steps | None:
    """Serve the request for a classic group; a newly created group becomes a share group."""
    if not group.is_new:
        effects.reply(reply, wrong_kind(request, reply.caller))
        return None
    blank: ShareGroup = group.environment.in_place_of(GroupKind.SHARE, group)
    return alter(blank, request, reply, now_ms, effects)


def alter(
    group: ShareGroup,
    request: AlterShareGroupOffsetsRequest,
    reply: Reply[AlterShareGroupOffsetsResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Record the partitions as initializing, then call the share coordinator."""
    if group.members:
        effects.reply(reply, refuse(request, reply.caller, ErrorCode.NON_EMPTY_GROUP))
        return
    topics = group.environment.topics
    changes = _Changes(group.group_id, topics)
    try:
        yield from changes.take(request)
    except RefusedError as refused:
        response = AlterShareGroupOffsetsResponse(
            error_code=refused.error, error_message=refused.message
        )
        effects.reply(reply, response)
        return
    response = changes.response
    if not changes.initializing:
        effects.reply(reply, response)
        return

    def written(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            effects.reply(reply, refuse(request, reply.caller, client_error(error)))
            return
        assert isinstance(effects.group, ShareGroup)
        effects.group.asked_at_ms = now_ms
        if changes.offsets:
            call = StateCall(changes.offsets, effects.group.epoch, answered, reply)
            effects.ask(call)
        else:
            effects.reply(reply, response)

    def answered(group: ShareGroup, errors: StateErrors, now_ms: int, effects: Effects) -> None:
        if errors:
            effects.reply(reply, _with_errors(response, errors))
        else:
            write_initialized(group, changes.offsets, effects)
            effects.reply(reply, response)

    states = with_initializing(group.states or NO_STATES, changes.initializing, topics)
    effects.write([states_record(group.group_id, states)], written)


def _with_errors(
    response: AlterShareGroupOffsetsResponse, errors: StateErrors
) -> AlterShareGroupOffsetsResponse:
    """Return the response with errors per partition; failed partitions stay initializing."""
    for topic in response.responses:
        topic.partitions = [
            _failed(partition.partition_index, errors[place])
            if (place := AssignedSharePartition(topic.topic_id, partition.partition_index))
            in errors
            else partition
            for partition in topic.partitions
        ]
    return response


ALTER_SHARE_GROUP_OFFSETS = GroupApi(
    request_type=AlterShareGroupOffsetsRequest,
    serve=alter_first,
    serve_kind={GroupKind.SHARE: alter},
    refuse=refuse,
    missing=wrong_kind,
    wrong_kind=wrong_kind,
    validate=has_group_id,
    creates_group=creates_group,
    exclusive=True,
    sees_deadlines=True,
)
