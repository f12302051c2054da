"""ListOffsets: find the offset for a timestamp, or the ends of a partition.

Special timestamps: -1 latest, -2 earliest, -3 the record with the largest timestamp (KIP-734), -4
earliest local (KIP-405), -5 latest tiered (KIP-1005), -6 earliest pending upload (KIP-1023).
Without tiered storage -4 is the log start offset, and -5 and -6 find no offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.counts import Counts, ShardedDict
from protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_READ_COMMITTED = 1


def handle(broker: Broker, call: Call, request: ListOffsetsRequest) -> Steps:
    """Respond with one offset per partition; a partition named twice is refused."""
    seen: Counts[tuple[str, int]] = Counts()
    for topic in request.topics:
        for asked in topic.partitions:
            seen.add((topic.name, asked.partition_index))
            yield
        yield
    response = ListOffsetsResponse()
    by_name: ShardedDict[str, ListOffsetsTopicResponse] = ShardedDict()
    for topic in request.topics:
        yield
        for asked in topic.partitions:
            yield
            count = seen.pop((topic.name, asked.partition_index), 0)
            if not count:
                continue  # the partition was already answered: the request names it twice
            answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            if count > 1:
                answer.error_code = ErrorCode.INVALID_REQUEST
            else:
                partition = broker.topics.partition(topic.name, asked.partition_index)
                try:
                    _look_up(broker, answer, partition, asked, call, request.isolation_level)
                except StorageError as error:
                    answer.error_code = error.code
            new = ListOffsetsTopicResponse(name=topic.name)
            answered = by_name.setdefault(topic.name, new)
            if answered is new:
                response.topics.append(new)
            answered.partitions.append(answer)
    response.topics = call.rights.after(response.topics)
    call.reply(response)
    yield from by_name.clear()


def _look_up(
    broker: Broker,
    answer: ListOffsetsPartitionResponse,
    partition: Partition | None,
    asked: ListOffsetsPartition,
    call: Call,
    isolation_level: int,
) -> None:
    """Set the result of one partition. Raises StorageError if the log cannot be read."""
    version = call.api_version
    timestamp = asked.timestamp
    if timestamp < 0 and version < _SINCE_VERSION.get(timestamp, version + 1):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return
    if partition is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return
    if partition.leader_id != broker.node_id:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return
    answer.error_code = partition.leader_epoch_error(asked.current_leader_epoch)
    if answer.error_code:
        return
    log = partition.log
    committed = isolation_level == _READ_COMMITTED
    end = log.last_stable_offset if committed else log.high_watermark
    if timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL):
        answer.offset = end if timestamp == LATEST else log.log_start_offset
        answer.leader_epoch = log.leader_epoch
        return
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return
    if timestamp == MAX_TIMESTAMP:
        entry = log.max_timestamp()
    else:
        entry = log.offset_for_timestamp(timestamp)
    if entry is not None and entry.offset < end:
        answer.timestamp = entry.timestamp
        answer.offset = entry.offset
        answer.leader_epoch = entry.leader_epoch
