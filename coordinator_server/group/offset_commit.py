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
    from collections.abc import Collection, Generator

    from coordinator_server.group.effects import (
        Caller,
        Effects,
        ProducerIdAndEpoch,
        Reply,
        Steps,
    )
    from coordinator_server.group.group import Group
    from coordinator_server.group.records import CoordinatorRecord

GROUP_ID_NOT_FOUND_SINCE = 9
NO_RETENTION = -1

Place = tuple[int, int]
"""The index of a topic in the request, and that of a partition in the topic's list."""


def refuse(request: OffsetCommitRequest, _: Caller, error: ErrorCode) -> OffsetCommitResponse:
    """The same error on every partition of the request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=error
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


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
    yield from store(group, request, reply, now_ms, effects)


def store(
    group: Group,
    request: OffsetCommitRequest,
    reply: Reply[OffsetCommitResponse],
    now_ms: int,
    effects: Effects,
    producer: ProducerIdAndEpoch | None = None,
) -> Steps:
    """Store offsets that may be committed; with a `producer` as part of its transaction."""
    limit = group.settings.offset_metadata_max_length
    retention_ms = request.retention_time_ms
    expire_ms = -1 if retention_ms == NO_RETENTION else _java_long(now_ms + retention_ms)
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
                # A value with an expiry is written as version 1, which has no topic id, and Kafka
                # knows none from TxnOffsetCommit.
                topic_id=topic.topic_id if expire_ms == -1 and producer is None else ZERO_UUID,
            )
            records.append((key, value))
            if not len(records) % STEP_ITEMS:
                yield
    response = yield from _response(request, too_long)
    if not records:
        effects.reply(reply, response)
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is ErrorCode.NONE and effects.debug:
            effects.event(
                "offsets.committed",
                group=group_id,
                member=request.member_id,
                partitions=len(records),
            )
        if error is not ErrorCode.NONE:
            refused = client_error(error)
            for topic in response.topics:
                for one in topic.partitions:
                    one.error_code = one.error_code or refused
        effects.reply(reply, response)

    effects.write(records, done, producer)


def _response(
    request: OffsetCommitRequest, too_long: Collection[Place]
) -> Generator[None, None, OffsetCommitResponse]:
    """No error but for partitions whose metadata is too long."""
    response = OffsetCommitResponse()
    built = 0
    for topic in request.topics:
        answered = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(answered)
        for partition in topic.partitions:
            answered.partitions.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index)
            )
            built += 1
            if not built % STEP_ITEMS:
                yield
    for topic_index, index in too_long:
        refused = response.topics[topic_index].partitions[index]
        refused.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    return response


def _java_long(number: int) -> int:
    """The sum of two longs in Java: a retention of 292 million years ends in the past."""
    return (number + 2**63) % 2**64 - 2**63


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
