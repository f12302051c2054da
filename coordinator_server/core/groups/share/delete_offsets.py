"""DeleteShareGroupOffsets: delete the offsets of topics of an empty share group.

Source: initiateDeleteShareGroupOffsets of GroupCoordinatorShard, deleteShareGroupOffsets of
GroupCoordinatorService, sharePartitionsEligibleForOffsetDeletion and
completeDeleteShareGroupOffsets of GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from coordinator_server.core.groups.api import GroupApi, has_group_id
from coordinator_server.core.groups.effects import AssignedSharePartition, StateCall
from coordinator_server.core.groups.settings import GroupKind
from coordinator_server.core.groups.share.partitions import (
    NO_STATES,
    PartitionStates,
    named,
    without_topics,
)
from coordinator_server.core.groups.share.records import states_record
from protocol.apis.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from protocol.coordinator_errors import client_error
from protocol.error_messages import MESSAGES
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.caller import Caller
    from coordinator_server.core.groups.effects import Effects, Reply, StateErrors
    from coordinator_server.core.groups.share.share_group import ShareGroup


def refuse(
    _: DeleteShareGroupOffsetsRequest, __: Caller, error: ErrorCode
) -> DeleteShareGroupOffsetsResponse:
    """Return a response that refuses the whole request."""
    return DeleteShareGroupOffsetsResponse(error_code=error, error_message=MESSAGES[error])


def missing(request: DeleteShareGroupOffsetsRequest, _: Caller) -> DeleteShareGroupOffsetsResponse:
    """Return GROUP_ID_NOT_FOUND for a missing group."""
    return _not_found(f"Group {request.group_id} not found.")


def wrong_kind(
    request: DeleteShareGroupOffsetsRequest, _: Caller
) -> DeleteShareGroupOffsetsResponse:
    """Return GROUP_ID_NOT_FOUND for a group of another kind."""
    return _not_found(f"Group {request.group_id} is not a share group.")


def _not_found(message: str) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message
    )


def delete(
    group: ShareGroup,
    request: DeleteShareGroupOffsetsRequest,
    reply: Reply[DeleteShareGroupOffsetsResponse],
    now_ms: int,
    effects: Effects,
) -> None:
    """Record the topics as deleting, then call the share coordinator."""
    if group.members:
        effects.reply(reply, refuse(request, reply.caller, ErrorCode.NON_EMPTY_GROUP))
        return
    states, topics = group.states, group.environment.topics
    if states is None:
        effects.reply(reply, DeleteShareGroupOffsetsResponse())
        return
    refused: list[DeleteShareGroupOffsetsResponseTopic] = []
    going: dict[bytes, tuple[str, frozenset[int]]] = {}
    for name in [topic.topic_name for topic in request.topics]:
        topic = topics.topic(name)
        if topic is None:
            refused.append(_failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif topic.topic_id in states.initialized:
            going[topic.topic_id] = name, states.initialized[topic.topic_id].partitions
        elif topic.topic_id in states.deleting:
            going[topic.topic_id] = name, frozenset(range(len(topic.partitions)))
        else:
            error = _failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            error.error_message = "There is no offset information to delete."
            refused.append(error)

    def written(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        partitions = [
            AssignedSharePartition(topic_id, partition)
            for topic_id, (_, of_topic) in going.items()
            for partition in sorted(of_topic)
        ]
        if error is not ErrorCode.NONE:
            effects.reply(reply, refuse(request, reply.caller, client_error(error)))
        elif partitions:
            effects.ask(StateCall(dict.fromkeys(partitions, 0), None, answered, reply))
        else:
            effects.reply(reply, DeleteShareGroupOffsetsResponse(responses=refused))

    def answered(group: ShareGroup, errors: StateErrors, now_ms: int, effects: Effects) -> None:
        failed = {topic_id: error for (topic_id, _), error in errors.items()}
        gone = {topic_id: name for topic_id, (name, _) in going.items() if topic_id not in failed}
        responses = list(refused)
        for topic_id, error in failed.items():
            responses.append(_failed(going[topic_id][0], error, topic_id))
        _complete(group, request, gone, responses, reply, effects)

    deleting = named(
        [*states.deleting, *(topic_id for topic_id in going if topic_id not in states.deleting)],
        topics,
    )
    left = PartitionStates(states.initializing, without_topics(states.initialized, going), deleting)
    effects.write([states_record(group.group_id, left)], written)


def _failed(
    name: str, error: ErrorCode, topic_id: bytes | None = None
) -> DeleteShareGroupOffsetsResponseTopic:
    failed = DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, error_code=error, error_message=MESSAGES[error]
    )
    if topic_id is not None:
        failed.topic_id = topic_id
    return failed


def _complete(
    group: ShareGroup,
    request: DeleteShareGroupOffsetsRequest,
    gone: Mapping[bytes, str],
    refused: list[DeleteShareGroupOffsetsResponseTopic],
    reply: Reply[DeleteShareGroupOffsetsResponse],
    effects: Effects,
) -> None:
    """Record that the state of the `gone` topics is deleted, then reply."""
    responses = [
        DeleteShareGroupOffsetsResponseTopic(topic_id=topic_id, topic_name=name)
        for topic_id, name in gone.items()
    ]
    response = DeleteShareGroupOffsetsResponse(responses=responses + refused)
    if not gone:
        effects.reply(reply, response)
        return

    def written(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is ErrorCode.NONE:
            effects.reply(reply, response)
        else:
            effects.reply(reply, refuse(request, reply.caller, client_error(error)))

    states = group.states or NO_STATES
    deleting = named(
        [topic_id for topic_id in states.deleting if topic_id not in gone], group.environment.topics
    )
    left = PartitionStates(states.initializing, states.initialized, deleting)
    effects.write([states_record(group.group_id, left)], written)


DELETE_SHARE_GROUP_OFFSETS = GroupApi(
    request_type=DeleteShareGroupOffsetsRequest,
    serve_kind={GroupKind.SHARE: delete},
    refuse=refuse,
    missing=missing,
    wrong_kind=wrong_kind,
    validate=has_group_id,
    exclusive=True,
    sees_deadlines=True,
)
