"""OffsetCommit: members and standalone consumers store how far they have read.

Source: ClassicGroup.validateOffsetCommit, OffsetMetadataManager.commitOffset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coordinator_server.group.classic.state import (
    COMMIT_ANSWER,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator_server.group.storage_errors import client_error
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.errors import ErrorCode
from protocol.offsets_log import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Caller, Effects, Reply
    from coordinator_server.group.records import Record

PartitionCount = Callable[[str], int]
"""How many partitions a topic has; 0 for a topic that does not exist."""

NO_RETENTION = -1


def commit(
    group: GroupMetadata,
    request: OffsetCommitRequest,
    caller: Caller,
    reply: Reply,
    partition_count: PartitionCount,
    now_ms: int,
    effects: Effects,
) -> None:
    """Store the offsets of the partitions that exist; all in one batch, answered when written.

    Neither the offset nor the owner of the partition is checked: Kafka does not either.
    """
    response, accepted = split_unknown(request, partition_count)
    if not accepted:
        effects.reply(reply, response)
        return
    error = check_commit(group, request)
    if error is not ErrorCode.NONE:
        for _, _, result in accepted:
            result.error_code = error
        effects.reply(reply, response)
        return
    _renew_session(group, request.member_id, now_ms)
    records = _records(group, request, accepted, now_ms)
    if not records:
        effects.reply(reply, response)
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        if error is not ErrorCode.NONE:
            for _, _, result in accepted:
                if result.error_code == ErrorCode.NONE:
                    result.error_code = client_error(error)
        elif effects.debug:
            effects.event(
                "offsets.committed",
                group=group.group_id,
                member=request.member_id,
                partitions=len(records),
            )
        effects.reply(reply, response)

    effects.write(records, done)


Accepted = list[tuple[str, OffsetCommitRequestPartition, OffsetCommitResponsePartition]]


def split_unknown(
    request: OffsetCommitRequest, partition_count: PartitionCount
) -> tuple[OffsetCommitResponse, Accepted]:
    """The answer with an error on each partition that does not exist, and those that do.

    In Kafka's order: what is unknown comes first, and only then is a topic that the request names
    twice answered once. A topic without partitions is answered if it is unknown.
    """
    topics: dict[str, OffsetCommitResponseTopic] = {}
    known: list[OffsetCommitResponseTopic] = []
    accepted: Accepted = []
    for topic in request.topics:
        name = topic.name
        count = partition_count(name)
        results, refused = [], []
        for one in topic.partitions:
            index = one.partition_index
            result = OffsetCommitResponsePartition(partition_index=index)
            if 0 <= index < count:
                accepted.append((name, one, result))
                results.append(result)
            else:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                refused.append(result)
        if refused or not count:
            _answer(topics, name).partitions += refused
        if results:
            known.append(OffsetCommitResponseTopic(name=name, partitions=results))
    if not topics:
        return OffsetCommitResponse(topics=known), accepted
    for one_known in known:
        _answer(topics, one_known.name).partitions += one_known.partitions
    return OffsetCommitResponse(topics=list(topics.values())), accepted


def _answer(topics: dict[str, OffsetCommitResponseTopic], name: str) -> OffsetCommitResponseTopic:
    answered = topics.get(name)
    if answered is None:
        answered = topics[name] = OffsetCommitResponseTopic(name=name)
    return answered


def check_commit(group: GroupMetadata, request: OffsetCommitRequest) -> ErrorCode:
    """Who may commit: members of this generation, and anybody while the group is Empty."""
    state = group.state
    generation_id = request.generation_id_or_member_epoch
    if state is DEAD:
        return COMMIT_ANSWER[DEAD]
    if state is EMPTY and generation_id < 0:
        return COMMIT_ANSWER[EMPTY]
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return COMMIT_ANSWER[state]


def _renew_session(group: GroupMetadata, member_id: str, now_ms: int) -> None:
    """A commit is a sign of life."""
    if group.state is STABLE or group.state is PREPARING_REBALANCE:
        group.renew_session(group.roster.members[member_id], now_ms)


def _records(
    group: GroupMetadata, request: OffsetCommitRequest, accepted: Accepted, now_ms: int
) -> list[Record]:
    """One record per partition; too long metadata is refused for its partition alone."""
    limit = group.settings.offset_metadata_max_length
    retention_ms = request.retention_time_ms
    expire_ms = -1 if retention_ms == NO_RETENTION else now_ms + retention_ms
    group_id = group.group_id
    records: list[Record] = []
    for topic, one, result in accepted:
        metadata = one.committed_metadata or ""
        if len(metadata) * 2 > limit and _java_length(metadata) > limit:
            result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        key = OffsetCommitKey(group=group_id, topic=topic, partition=one.partition_index)
        value = OffsetCommitValue(
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=metadata,
            commit_timestamp=now_ms,
            expire_timestamp=expire_ms,
        )
        records.append((key, value))
    return records


def _java_length(text: str) -> int:
    """Length as Java's String.length() counts: UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)
