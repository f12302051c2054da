"""DescribeTransactions: the state of transactional ids.

Source: TransactionCoordinator.handleDescribeTransactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.describe_transactions import (
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeTransactionsResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.security.rights import Rights
    from coordinator_server.steps import Computation, Steps
    from protocol.apis.describe_transactions import DescribeTransactionsRequest


def handle(broker: Broker, call: Call, request: DescribeTransactionsRequest) -> Steps:
    """Respond with the state of each id that this broker coordinates."""
    states: list[DescribedTransaction] = []
    for transactional_id in request.transactional_ids:
        states.append((yield from _described(broker, call.rights, transactional_id)))
        yield
    states = yield from call.rights.in_order(states)
    call.reply(DescribeTransactionsResponse(transaction_states=states))


def _described(
    broker: Broker, rights: Rights, transactional_id: str
) -> Computation[DescribedTransaction]:
    """Describe a transaction, with the topics that the client may describe."""
    if not transactional_id:
        return DescribedTransaction(error_code=ErrorCode.INVALID_REQUEST)
    error = broker.transactions.unavailable(transactional_id)
    if error is not ErrorCode.NONE:
        return DescribedTransaction(error_code=error, transactional_id=transactional_id)
    metadata = broker.transactions.metadata(transactional_id)
    if metadata is None:
        return DescribedTransaction(
            error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=transactional_id
        )
    by_topic: dict[str, list[int]] = {}
    # Kafka removes a partition from the transaction once its marker is written
    # (TransactionMetadata.removePartition).
    for topic, partition in sorted(broker.transactions.pending_partitions(transactional_id)):
        by_topic.setdefault(topic, []).append(partition)
    topics: list[DescribedTransactionTopic] = []
    for topic, partitions in by_topic.items():
        if rights.allows(topic):
            topics.append(DescribedTransactionTopic(topic=topic, partitions=partitions))
        yield
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=metadata.state.label,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=topics,
    )
