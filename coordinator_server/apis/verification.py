"""What the transaction coordinator says of records that come with a transaction (KIP-890).

Before the first records of a transaction go into a partition, the partition has to be in the
transaction: put there by AddPartitionsToTxn (transactions v1), or by these records themselves (v2).
So no record can come late and open a transaction that nobody will ever end. Source:
AddPartitionsToTxnManager, ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from protocol.batch_header import HEADER_BYTES, unpack_header
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.topics.topic import Partition
    from coordinator_server.transactions.metadata import TopicPartition
    from protocol.batch_header import BatchHeader
    from storage.disk import Buffer


class TransactionSupport(Enum):
    """What a client understands (Kafka's TransactionSupportedOperation)."""

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
    """What a producer is answered for an error of the transaction coordinator.

    Retriable errors are turned into the one that every client retries without looking for another
    leader.
    """
    if error in _NOT_NOW:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and (
        support is not TransactionSupport.ADD_PARTITION
    ):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return commit_error(error, support)


def commit_error(error: ErrorCode, support: TransactionSupport) -> ErrorCode:
    """What TxnOffsetCommit is answered for an error of the transaction coordinator."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and support is TransactionSupport.DEFAULT_ERROR:
        return ErrorCode.INVALID_TXN_STATE
    return error


def error_message(error: ErrorCode) -> str | None:
    """The text beside an error of a verification; Kafka has one where the code was translated."""
    if error is ErrorCode.INVALID_TXN_STATE:
        return "The partition is not in the transaction."
    if error is ErrorCode.NOT_ENOUGH_REPLICAS:
        return "Whether the partition is in the transaction cannot be verified now."
    return None


class Verification:
    """The verification of one Produce request.

    `partitions` are those that the coordinator is asked about, for `producer_id` and
    `producer_epoch`; `error` is what it said, in the form of the answer. `is_off` verifies nothing.
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
        """Have the coordinator asked if these records begin a transaction in a partition."""
        header = _transactional_header(records)
        if header is None or _needs_no_coordinator(partition, header):
            return
        partition.log.producers.begin_verification(
            header, bumps_epochs=self._adds, now_ms=self._broker.clock.now_ms()
        )
        if self.partitions and self.producer_id != header.producer_id:
            return  # a request is of one producer: this one is refused
        self.producer_id, self.producer_epoch = header.producer_id, header.producer_epoch
        self.partitions.append((partition.topic_name, partition.index))

    def refusal(self, partition: Partition, records: Buffer) -> ErrorCode:
        """Why a batch must not be appended; NONE if it may. Looks again: time may have passed."""
        header = None if self.is_off else _transactional_header(records)
        if header is None:
            return ErrorCode.NONE
        if _is_fenced(partition, header):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if _needs_no_coordinator(partition, header):
            return ErrorCode.NONE
        if self._adds and self.error is not ErrorCode.NONE:
            return self.error
        is_member = self._broker.transactions.is_open_in(
            self._transactional_id,
            header.producer_id,
            header.producer_epoch,
            (partition.topic_name, partition.index),
        )
        if is_member:
            return ErrorCode.NONE  # the error is that of another partition
        return self.error or ErrorCode.INVALID_TXN_STATE


def _transactional_header(records: Buffer) -> BatchHeader | None:
    """The header of a batch of a transaction; None for any other, and for what is no batch.

    A batch without a producer id is taken, as in Kafka, and is of no transaction.
    """
    if len(records) < HEADER_BYTES:
        return None
    header = unpack_header(records)
    is_of_one = header.magic == 2 and header.is_transactional and header.producer_id >= 0
    return header if is_of_one else None


def _is_fenced(partition: Partition, header: BatchHeader) -> bool:
    """Whether a later incarnation of the producer has written to the partition."""
    try:
        known = partition.log.producers.entries.get(header.producer_id)
    except StorageError:
        return False  # the append says so
    return known is not None and known.epoch > header.producer_epoch


def _needs_no_coordinator(partition: Partition, header: BatchHeader) -> bool:
    """Whether the partition has records of the transaction already, or cannot take any."""
    try:
        log = partition.log
    except StorageError:
        return True  # the append says so
    if _is_fenced(partition, header):
        return True
    return log.producers.has_open_transaction(header.producer_id, header.producer_epoch)
