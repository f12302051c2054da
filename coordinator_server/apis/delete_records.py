"""DeleteRecords: advance the log start offset of partitions.

Records below this offset are no longer readable; their segment files are deleted by the next
maintenance run. Responds like Kafka's ReplicaManager.deleteRecords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.counts import Counts, ShardedDict
from protocol.apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition, Topic

_HIGH_WATERMARK = -1
_NO_OFFSET = -1


def handle(broker: Broker, call: Call, request: DeleteRecordsRequest) -> Steps:
    """Respond with the log start offset of each partition.

    If a partition is named twice, the last offset counts.
    """
    counts: Counts[tuple[str, int]] = Counts()
    for topic in request.topics:
        for asked in topic.partitions:
            counts.add((topic.name, asked.partition_index))
            yield
        yield
    response = DeleteRecordsResponse()
    by_name: ShardedDict[str, DeleteRecordsTopicResult] = ShardedDict()
    moved: list[Partition] = []
    for topic in request.topics:
        known_topic = broker.topics.topic(topic.name)
        new = DeleteRecordsTopicResult(name=topic.name)
        answered = by_name.setdefault(topic.name, new)
        if answered is new:
            response.topics.append(new)
        for asked in topic.partitions:
            key = topic.name, asked.partition_index
            count = counts.pop(key, 0)
            if count > 1:
                counts.setdefault(key, count - 1)
            else:
                answered.partitions.append(_delete(broker, known_topic, asked, moved))
            yield
        yield
    if moved:
        # Deleted records must stay deleted after a crash.
        error = yield from broker.topics.checkpoint_log_starts(moved)
        if error is not ErrorCode.NONE:
            yield from _refuse(response, error)
    response.topics = call.rights.after(response.topics)
    call.reply(response)
    yield from counts.clear()
    yield from by_name.clear()


def _refuse(response: DeleteRecordsResponse, error: ErrorCode) -> Steps:
    """Set the error on each partition whose new log start offset could not be stored."""
    for topic in response.topics:
        for result in topic.partitions:
            if result.error_code == ErrorCode.NONE:
                result.error_code, result.low_watermark = error, _NO_OFFSET
            yield


def _delete(
    broker: Broker,
    topic: Topic | None,
    asked: DeleteRecordsPartition,
    moved: list[Partition],
) -> DeleteRecordsPartitionResult:
    index, offset = asked.partition_index, asked.offset
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=_NO_OFFSET)
    if topic is None or not 0 <= index < len(topic.partitions):
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return result
    if topic.is_internal:
        result.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return result
    partition = topic.partitions[index]
    if partition.leader_id != broker.node_id:
        result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return result
    try:
        log = partition.log
        if log.config.compacts and not log.config.deletes:
            result.error_code = ErrorCode.POLICY_VIOLATION
            return result
        if offset == _HIGH_WATERMARK:
            offset = log.high_watermark
        result.low_watermark = partition.delete_records(offset)
        moved.append(partition)
    except StorageError as error:
        result.error_code = error.code
    return result
