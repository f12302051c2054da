"""OffsetCommit: members and standalone consumers store how far they have read.

The handler has dropped partitions that do not exist, as Kafka's does, so all that arrive here can
be stored. Source: ClassicGroup.validateOffsetCommit, OffsetMetadataManager.commitOffset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.api import GroupApi
from coordinator_server.group.effects import STEP_ITEMS
from coordinator_server.group.storage_errors import client_error
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.errors import ErrorCode
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Collection

    from coordinator_server.group.effects import Caller, Effects, Reply, Steps
    from coordinator_server.group.group import Group
    from coordinator_server.group.records import CoordinatorRecord

GROUP_ID_NOT_FOUND_SINCE = 9
NO_RETENTION = -1

Place = tuple[int, int]
"""The index of a topic in the request, and that of a partition in the topic's list."""


def refuse(request: OffsetCommitRequest, _: Caller, error: ErrorCode) -> OffsetCommitResponse:
    """The same error on every partition of the request."""
    return _response(request, error, ())


def missing(request: OffsetCommitRequest, caller: Caller) -> OffsetCommitResponse:
    """A generation of a group that does not exist."""
    error = ErrorCode.ILLEGAL_GENERATION
    if caller.api_version >= GROUP_ID_NOT_FOUND_SINCE:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    return refuse(request, caller, error)


def creates_group(request: OffsetCommitRequest) -> bool:
    """A commit of a standalone consumer or an administrator makes the group."""
    return request.generation_id_or_member_epoch < 0


def commit(
    group: Group,
    request: OffsetCommitRequest,
    reply: Reply[OffsetCommitResponse],
    now_ms: int,
    effects: Effects,
) -> Steps:
    """Store the offsets; all in one batch, answered when written.

    Neither the offset nor the owner of the partition is checked: Kafka does not either. Metadata
    that is too long is refused for its partition alone.
    """
    error = group.check_commit(request)
    if error is not ErrorCode.NONE:
        effects.reply(reply, refuse(request, reply.caller, error))
        return
    group.committed_by(request.member_id, now_ms)
    limit = group.settings.offset_metadata_max_length
    retention_ms = request.retention_time_ms
    expire_ms = -1 if retention_ms == NO_RETENTION else now_ms + retention_ms
    group_id = group.group_id
    records: list[CoordinatorRecord] = []
    too_long: set[Place] = set()
    for topic_index, topic in enumerate(request.topics):
        name = topic.name
        for index, partition in enumerate(topic.partitions):
            metadata = partition.committed_metadata or ""
            if len(metadata) * 2 > limit and _java_length(metadata) > limit:
                too_long.add((topic_index, index))
                continue
            key = OffsetCommitKey(group=group_id, topic=name, partition=partition.partition_index)
            value = OffsetCommitValue(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=metadata,
                commit_timestamp=now_ms,
                expire_timestamp=expire_ms,
                # A value with an expiry is written as version 1, which has no topic id.
                topic_id=topic.topic_id if expire_ms < 0 else ZERO_UUID,
            )
            records.append((key, value))
            if not len(records) % STEP_ITEMS:
                yield
    if not records:
        effects.reply(reply, _response(request, ErrorCode.NONE, too_long))
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is ErrorCode.NONE and effects.debug:
            effects.event(
                "offsets.committed",
                group=group_id,
                member=request.member_id,
                partitions=len(records),
            )
        effects.reply(reply, _response(request, client_error(error), too_long))

    effects.write(records, done)


def _response(
    request: OffsetCommitRequest, error: ErrorCode, too_long: Collection[Place]
) -> OffsetCommitResponse:
    """`error` on every partition but those whose metadata is too long."""
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    for topic_index, index in too_long:
        refused = response.topics[topic_index].partitions[index]
        refused.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    return response


def _java_length(text: str) -> int:
    """Length as Java's String.length() counts: UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)


OFFSET_COMMIT = GroupApi(
    request_type=OffsetCommitRequest,
    serve=commit,
    refuse=refuse,
    missing=missing,
    creates_group=creates_group,
)
