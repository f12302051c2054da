"""DescribeProducers: the active producers and open transactions of partitions.

Source: KafkaApis.handleDescribeProducersRequest, UnifiedLog.activeProducers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.names import name_error
from protocol.apis.describe_producers import (
    ActiveProducer,
    DescribedProducersPartition,
    DescribedProducersTopic,
    DescribeProducersResponse,
)
from protocol.batch_header import NO_SEQUENCE
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition
    from protocol.apis.describe_producers import DescribeProducersRequest


def handle(broker: Broker, call: Call, request: DescribeProducersRequest) -> Steps:
    """Respond with the producers of each partition that this broker leads."""
    response = DescribeProducersResponse()
    for asked in request.topics:
        described = DescribedProducersTopic(name=asked.name)
        response.topics.append(described)
        topic = broker.topics.topic(asked.name)
        error, message = ErrorCode.NONE, name_error(asked.name)
        if message is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            message = error.message
        for index in asked.partition_indexes:
            answer = DescribedProducersPartition(
                partition_index=index, error_code=error, error_message=message
            )
            described.partitions.append(answer)
            if topic is not None:
                yield from _describe(broker, answer, broker.topics.partition(asked.name, index))
            yield
        yield
    response.topics = yield from call.rights.in_order(response.topics)
    call.reply(response)


def _describe(
    broker: Broker, answer: DescribedProducersPartition, partition: Partition | None
) -> Steps:
    """Set the producers, or the error, of one partition of an existing topic."""
    if partition is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return
    if partition.leader_id != broker.node_id:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return
    try:
        entries = tuple(partition.log.producers.entries.items())
    except StorageError as error:
        answer.error_code = error.code
        return
    for producer_id, entry in entries:
        answer.active_producers.append(
            ActiveProducer(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.transaction_start,
            )
        )
        yield
