"""DeleteRecords: move the first offset of partitions; what lies below is hidden at once.

Its files go with the next round of maintenance. Answers as Kafka's ReplicaManager.deleteRecords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.delete_records import (
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
    from coordinator_server.topics.manager import Topic

_HIGH_WATERMARK = -1
_NO_OFFSET = -1


def handle(broker: Broker, call: Call, request: DeleteRecordsRequest) -> None:
    """Answer with the first offset of each partition; of one named twice the last counts."""
    asked: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = asked.setdefault(topic.name, {})
        offsets.update((one.partition_index, one.offset) for one in topic.partitions)
    results = []
    for name, offsets in asked.items():
        found = broker.topics.topic(name)
        results.append(
            DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    _delete(broker, found, index, offset) for index, offset in offsets.items()
                ],
            )
        )
    if any(not one.error_code for result in results for one in result.partitions):
        # What was deleted stays deleted, whatever happens to the process.
        broker.topics.checkpoint()
    call.reply(DeleteRecordsResponse(topics=results))


def _delete(
    broker: Broker, topic: Topic | None, index: int, offset: int
) -> DeleteRecordsPartitionResult:
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
        if not log.config.deletes:
            result.error_code = ErrorCode.POLICY_VIOLATION
            return result
        if offset == _HIGH_WATERMARK:
            offset = log.high_watermark
        result.low_watermark = partition.delete_records(offset)
    except StorageError as error:
        result.error_code = error.code
    return result
