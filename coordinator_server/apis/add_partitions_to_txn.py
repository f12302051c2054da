"""AddPartitionsToTxn: add partitions to a transaction; from v4 on, to several transactions.

Up to v3 producers send this request. From v4 on the brokers of a Kafka cluster send it to add or
verify partitions before an append (KIP-890); here brokers use a method call instead. Source:
KafkaApis.handleAddPartitionsToTxnRequest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.transactions.add_partitions import add_partitions, missing_partitions
from coordinator_server.core.transactions.metadata import (
    TRANSACTIONS_V1,
    TRANSACTIONS_V2,
    TransactionDecision,
    refused,
)
from coordinator_server.topics.names import is_internal
from protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from coordinator_server.broker import Broker
    from coordinator_server.core.transactions.metadata import TopicPartition, TransactionMetadata
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps

PRODUCER_FENCED_SINCE = 2
BATCHED_SINCE = 4


class TransactionOutcome(NamedTuple):
    """The result for one transaction: `errors` by partition, and `error` for other partitions."""

    error: ErrorCode
    errors: Mapping[TopicPartition, ErrorCode]


def handle(broker: Broker, call: Call, request: AddPartitionsToTxnRequest) -> Steps:
    """Submit each transaction separately to the transaction coordinator."""
    if call.api_version >= BATCHED_SINCE:
        transactions = request.transactions
    else:
        transactions = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    outcomes: dict[int, TransactionOutcome] = {}

    def take(number: int, outcome: TransactionOutcome) -> None:
        outcomes[number] = outcome
        if len(outcomes) == len(transactions):
            call.run(_reply(call, transactions, outcomes))

    if not transactions:
        call.reply(AddPartitionsToTxnResponse())
    for number, transaction in enumerate(transactions):
        yield from _add(broker, call, transaction, partial(take, number))
        yield


def _add(
    broker: Broker,
    call: Call,
    transaction: AddPartitionsToTxnTransaction,
    take: Callable[[TransactionOutcome], None],
) -> Steps:
    """Add all partitions of one transaction, or none."""
    partitions: list[TopicPartition] = []
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in transaction.topics:
        count = broker.topics.partition_count(topic.name)
        refuses = call.api_version < BATCHED_SINCE and (
            is_internal(topic.name) or not call.rights.allows(topic.name)
        )
        for index in topic.partitions:
            partitions.append((topic.name, index))
            if refuses:
                errors[topic.name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not 0 <= index < count:
                errors[topic.name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield
        yield
    if errors:
        take(TransactionOutcome(ErrorCode.OPERATION_NOT_ATTEMPTED, errors))
        return

    missing: Collection[TopicPartition] = ()

    def decide(metadata: TransactionMetadata | None, now_ms: int) -> TransactionDecision:
        nonlocal missing
        producer_id, producer_epoch = transaction.producer_id, transaction.producer_epoch
        if transaction.verify_only:
            error, missing = missing_partitions(metadata, producer_id, producer_epoch, partitions)
            return refused(error)
        is_v2 = call.api_version >= BATCHED_SINCE
        return add_partitions(
            metadata,
            producer_id,
            producer_epoch,
            partitions,
            TRANSACTIONS_V2 if is_v2 else TRANSACTIONS_V1,
            now_ms,
        )

    def done(decision: TransactionDecision) -> None:
        error = decision.error
        if error is ErrorCode.PRODUCER_FENCED and call.api_version < PRODUCER_FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        take(TransactionOutcome(error, dict.fromkeys(missing, ErrorCode.TRANSACTION_ABORTABLE)))

    if transaction.transactional_id:
        broker.transactions.submit(transaction.transactional_id, decide, done)
    else:
        done(refused(ErrorCode.INVALID_REQUEST))


def _reply(
    call: Call,
    transactions: Sequence[AddPartitionsToTxnTransaction],
    outcomes: Mapping[int, TransactionOutcome],
) -> Steps:
    """Send the results of all transactions, in request order."""
    results = []
    for number, transaction in enumerate(transactions):
        error, errors = outcomes[number]
        topic_results = []
        for topic in transaction.topics:
            of_topic = AddPartitionsToTxnTopicResult(name=topic.name)
            for index in topic.partitions:
                of_topic.results_by_partition.append(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index,
                        partition_error_code=errors.get((topic.name, index), error),
                    )
                )
                yield
            topic_results.append(of_topic)
            yield
        results.append(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=topic_results
            )
        )
        yield
    if call.api_version >= BATCHED_SINCE:
        call.reply(AddPartitionsToTxnResponse(results_by_transaction=results))
    else:
        call.reply(
            AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
        )
