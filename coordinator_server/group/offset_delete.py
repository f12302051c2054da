"""OffsetDelete: an administrator drops offsets of topics that nobody reads (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.classic.state import DEAD
from coordinator_server.group.offset_commit import PartitionCount
from coordinator_server.group.records import offset_tombstone
from coordinator_server.group.responses import offset_delete_error
from coordinator_server.group.storage_errors import client_error
from protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Caller, Effects, Reply


def offset_delete(
    group: GroupMetadata,
    request: OffsetDeleteRequest,
    caller: Caller,
    reply: Reply,
    partition_count: PartitionCount,
    now_ms: int,
    effects: Effects,
) -> None:
    """Drop stored offsets; waits for commits of the same drain, so that it misses none."""

    def step(now_ms: int, effects: Effects) -> None:
        _delete(group, request, reply, effects, partition_count)

    effects.when_settled(step)


def _delete(
    group: GroupMetadata,
    request: OffsetDeleteRequest,
    reply: Reply,
    effects: Effects,
    partition_count: PartitionCount,
) -> None:
    if group.state is DEAD:
        effects.reply(reply, offset_delete_error(ErrorCode.GROUP_ID_NOT_FOUND))
        return
    if group.roster.members and not group.uses_consumer_protocol:
        effects.reply(reply, offset_delete_error(ErrorCode.NON_EMPTY_GROUP))
        return
    records = []
    topics = []
    for topic in request.topics:
        count = partition_count(topic.name)
        stored = group.image.offsets.get(topic.name, {})
        is_subscribed = group.is_subscribed(topic.name)
        results = []
        for one in topic.partitions:
            index = one.partition_index
            error = ErrorCode.NONE
            if not 0 <= index < count:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif is_subscribed:
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif index in stored:
                records.append(offset_tombstone(group.group_id, topic.name, index))
            results.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    response = OffsetDeleteResponse(topics=topics)
    if not records:
        effects.reply(reply, response)
        return

    def done(error: ErrorCode, now_ms: int, effects: Effects) -> None:
        failed = error is not ErrorCode.NONE
        effects.reply(reply, offset_delete_error(client_error(error)) if failed else response)

    effects.event("offsets.deleted", group=group.group_id, partitions=len(records))
    effects.write(records, done)
