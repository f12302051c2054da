"""AddOffsetsToTxn: add a group's committed offsets to a transaction.

This adds the partition of the offsets topic that the group id hashes to. Source:
KafkaApis.handleAddOffsetsToTxnRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.transactions.add_partitions import add_partitions
from coordinator_server.core.transactions.metadata import TRANSACTIONS_V1, refused
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.apis.add_offsets_to_txn import AddOffsetsToTxnResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.core.transactions.metadata import (
        TransactionDecision,
        TransactionMetadata,
    )
    from coordinator_server.net.call import Call
    from protocol.apis.add_offsets_to_txn import AddOffsetsToTxnRequest

PRODUCER_FENCED_SINCE = 2


def handle(broker: Broker, call: Call, request: AddOffsetsToTxnRequest) -> None:
    """Submit the request to the transaction coordinator."""

    def done(decision: TransactionDecision) -> None:
        error = decision.error
        if error is ErrorCode.PRODUCER_FENCED and call.api_version < PRODUCER_FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        call.reply(AddOffsetsToTxnResponse(error_code=error))

    if not request.transactional_id:
        done(refused(ErrorCode.INVALID_REQUEST))
        return
    error = broker.groups.ensure_topic()
    if error is not ErrorCode.NONE:
        done(refused(error))
        return
    partitions = ((OFFSETS_TOPIC, broker.groups.partition_index(request.group_id)),)

    def decide(metadata: TransactionMetadata | None, now_ms: int) -> TransactionDecision:
        return add_partitions(
            metadata,
            request.producer_id,
            request.producer_epoch,
            partitions,
            TRANSACTIONS_V1,
            now_ms,
        )

    broker.transactions.submit(request.transactional_id, decide, done)
