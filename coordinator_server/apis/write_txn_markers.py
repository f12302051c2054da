"""WriteTxnMarkers: end a transaction in individual partitions.

The brokers of a Kafka cluster send this request to each other. Here only administrators send it, to
end a hanging transaction that no coordinator knows (`kafka-transactions abort`). Source:
KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from protocol.apis.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from protocol.control_record import EndTransaction
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.write_txn_markers import WriteTxnMarkersRequest


def handle(broker: Broker, call: Call, request: WriteTxnMarkersRequest) -> Steps:
    """Write the markers to the partitions that this broker leads, then respond."""
    response = WriteTxnMarkersResponse()
    left = 1  # number of pending markers; the extra 1 is removed when all are submitted

    def settle(result: WritableTxnMarkerPartitionResult, error: ErrorCode) -> None:
        nonlocal left
        result.error_code = error
        left -= 1
        if not left:
            call.reply(response)

    for marker in request.markers:
        end = EndTransaction(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commits=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        of_marker = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(of_marker)
        for topic in marker.topics:
            of_topic = WritableTxnMarkerTopicResult(name=topic.name)
            of_marker.topics.append(of_topic)
            for index in topic.partition_indexes:
                result = WritableTxnMarkerPartitionResult(partition_index=index)
                of_topic.partitions.append(result)
                left += 1
                partition = broker.topics.partition(topic.name, index)
                if partition is not None and partition.leader_id != broker.node_id:
                    settle(result, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                else:
                    broker.markers.write((topic.name, index), end, partial(settle, result))
                yield
            yield
        yield
    left -= 1
    if not left:
        call.reply(response)
