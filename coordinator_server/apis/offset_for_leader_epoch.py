"""OffsetForLeaderEpoch: find the end offset of a leader epoch, to detect truncation (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: OffsetForLeaderEpochRequest) -> Steps:
    """Respond for the partitions that this broker leads, in request order."""
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answered = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(answered)
        for asked in topic.partitions:
            answered.partitions.append(_end_offset(broker, topic.topic, asked))
            yield
        yield
    response.topics = call.rights.after(response.topics)
    call.reply(response)


def _end_offset(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    partition = broker.topics.partition(topic, asked.partition)
    if partition is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return answer
    if partition.leader_id != broker.node_id:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return answer
    try:
        answer.error_code = partition.leader_epoch_error(asked.current_leader_epoch)
        if not answer.error_code:
            log = partition.log
            answer.leader_epoch, answer.end_offset = log.end_offset_of_epoch(asked.leader_epoch)
    except StorageError as error:
        answer.error_code = error.code
    return answer
