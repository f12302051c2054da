"""Verifies that partitions belong to a producer's transaction (KIP-890).

Before the first transactional records are appended to a partition, the partition must be in the
transaction: added by AddPartitionsToTxn (transactions v1) or by the Produce request itself (v2).
This prevents a late record from opening a transaction that never ends. Source:
AddPartitionsToTxnManager, ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from protocol.batch_header import (
    FLAGS_POSITION,
    HEADER_BYTES,
    MAGIC_POSITION,
    PRODUCER,
    PRODUCER_POSITION,
    TRANSACTIONAL,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.core.transactions.metadata import TopicPartition
    from coordinator_server.topics.topic import Partition
    from storage.disk import Buffer


class TransactionSupport(Enum):
    """Transaction errors that the client version supports (TransactionSupportedOperation)."""

    DEFAULT_ERROR = "as before KIP-890"
    GENERIC_ERROR = "knows TRANSACTION_ABORTABLE"
    ADD_PARTITION = "transactions v2"


_NOT_NOW = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


def produce_error(error: ErrorCode, support: TransactionSupport) -> ErrorCode:
    """Return the Produce error for an error of the transaction coordinator.

    Retriable errors become NOT_ENOUGH_REPLICAS, which every client retries without refreshing
    metadata.
    """
    if error in _NOT_NOW:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and (
        support is not TransactionSupport.ADD_PARTITION
    ):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return commit_error(error, support)


def commit_error(error: ErrorCode, support: TransactionSupport) -> ErrorCode:
    """Return the TxnOffsetCommit error for an error of the transaction coordinator."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and support is TransactionSupport.DEFAULT_ERROR:
        return ErrorCode.INVALID_TXN_STATE
    return error


def error_message(error: ErrorCode) -> str | None:
    """Return the message for a verification error, or None, as in Kafka, for most errors."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return "Partition was not added to the transaction"
    if error is ErrorCode.NOT_ENOUGH_REPLICAS:
        return "Whether the partition is in the transaction cannot be verified now."
    return None


class TransactionVerification:
    """The verification of one Produce request.

    `partitions` are verified by the coordinator for `producer_id` and `producer_epoch`; `error` is
    the translated result. `is_off` disables verification.
    """

    def __init__(self, broker: Broker, transactional_id: str, support: TransactionSupport) -> None:
        self.partitions: list[TopicPartition] = []
        self.producer_id = self.producer_epoch = -1
        self.error = ErrorCode.NONE
        self.is_off = False
        self._broker = broker
        self._transactional_id = transactional_id
        self._adds = support is TransactionSupport.ADD_PARTITION

    def needs(self, partition: Partition, records: Buffer) -> None:
        """Add a partition to verify, if these records begin a transaction in the partition."""
        producer = _producer_of(records)
        if producer is None or _standing(partition, producer) is not _Standing.NOT_BEGUN:
            return
        partition.log.producers.begin_verification(
            *producer, bumps_epochs=self._adds, now_ms=self._broker.clock.now_ms()
        )
        producer_id, producer_epoch, _ = producer
        if self.partitions and self.producer_id != producer_id:
            return  # only one producer is verified; batches of other producers are refused later
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.partitions.append((partition.topic_name, partition.index))

    def refusal(self, partition: Partition, records: Buffer) -> ErrorCode:
        """Return the error if a batch must not be appended, or NONE.

        The partition's state is checked again, because it may have changed during verification.
        """
        producer = None if self.is_off else _producer_of(records)
        if producer is None:
            return ErrorCode.NONE
        standing = _standing(partition, producer)
        if standing is _Standing.FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if standing is _Standing.BEGUN:
            return ErrorCode.NONE
        if self._adds and self.error is not ErrorCode.NONE:
            return self.error
        producer_id, producer_epoch, _ = producer
        is_member = self._broker.transactions.is_open_in(
            self._transactional_id,
            producer_id,
            producer_epoch,
            (partition.topic_name, partition.index),
        )
        if is_member:
            # The partition is in the transaction: verification failed only for another partition.
            return ErrorCode.NONE
        return self.error or ErrorCode.INVALID_TXN_STATE


class _Standing(Enum):
    """State of a transaction in a partition."""

    NOT_BEGUN = "no records yet"
    BEGUN = "has records there, or the partition cannot be read, which the append says"
    FENCED = "a later incarnation of the producer has written there"


def _producer_of(records: Buffer) -> tuple[int, int, int] | None:
    """Return producer id, epoch and sequence of a transactional batch.

    Returns None for other batches and malformed data. As in Kafka, a transactional batch without a
    producer id is accepted and belongs to no transaction.
    """
    if len(records) < HEADER_BYTES or records[MAGIC_POSITION] != 2:
        return None
    if not records[FLAGS_POSITION] & TRANSACTIONAL:
        return None
    producer_id, epoch, sequence = PRODUCER.unpack_from(records, PRODUCER_POSITION)
    return None if producer_id < 0 else (producer_id, epoch, sequence)


def _standing(partition: Partition, producer: tuple[int, int, int]) -> _Standing:
    try:
        producers = partition.log.producers
    except StorageError:
        return _Standing.BEGUN
    producer_id, epoch, _ = producer
    known = producers.entries.get(producer_id)
    if known is not None and known.epoch > epoch:
        return _Standing.FENCED
    is_open = producers.has_open_transaction(producer_id, epoch)
    return _Standing.BEGUN if is_open else _Standing.NOT_BEGUN
