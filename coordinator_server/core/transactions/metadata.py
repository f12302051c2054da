"""TransactionMetadata: the state of one transactional id.

All fields except `last_producer_epoch` are durable, in one record of `__transaction_state`, and
change only when the record is written. Values are immutable: a decision (`init_producer_id`,
`add_partitions`, `end_transaction`, `expiry`) makes the next value, and the coordinator appends it.
Source: TransactionMetadata, TransactionLog.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from protocol.errors import ErrorCode, ProtocolError
from protocol.transaction_log import PartitionsSchema, TransactionLogValue, status_name


class TransactionState(IntEnum):
    """The state of a transactional id; the values are stored in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7
    """In Kafka a state between two records, never written; here fencing and abort are one."""

    @property
    def label(self) -> str:
        """Kafka's name of the state, as in ListTransactions."""
        return status_name(self)

    @property
    def is_ending(self) -> bool:
        """Whether the outcome is decided and the markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open or ending: the next can begin, or the id can expire."""
        return self in _IDLE


_S = TransactionState
_IDLE = frozenset((_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT))

LEGAL_TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD)),
    _S.ONGOING: frozenset((_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT)),
    _S.PREPARE_COMMIT: frozenset((_S.COMPLETE_COMMIT,)),
    _S.PREPARE_ABORT: frozenset((_S.COMPLETE_ABORT,)),
    _S.COMPLETE_COMMIT: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD)),
    _S.COMPLETE_ABORT: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD)),
    _S.DEAD: frozenset(),
}
"""State -> the legal states of the next record, which `TransactionMetadata.to` asserts.

The tables and the diagram in docs/transactions.md are generated from this table.

PREPARE_ABORT without an open transaction gives a client of transactions v2 a new epoch when the
client does not know how its last transaction ended (KIP-890).
"""

STATE_BY_LABEL = {state.label: state for state in TransactionState}
"""Kafka's name -> state."""


TopicPartition = tuple[str, int]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
EPOCH_MAX = 2**15 - 1

TRANSACTIONS_V1, TRANSACTIONS_V2 = 0, 2
"""Transaction versions before KIP-890, and with KIP-890: a new epoch for each transaction.

Kafka writes 0 for the first, although level 1 of its feature `transaction.version` exists (level 1
changes only the record format).
"""

EPOCH_EXHAUSTED = EPOCH_MAX - 1
"""The largest epoch of a producer; one more epoch is reserved to fence its last transaction."""


class TransactionMetadata(NamedTuple):
    """The state of a transactional id. Times are in milliseconds since 1970, or -1.

    `previous_producer_id` is the producer id of the previous state; it differs only right after
    the epochs were exhausted. `next_producer_id` takes effect when the transaction that is ending
    is complete. `last_producer_epoch` is the epoch before the last bump, if the producer sent it;
    like Kafka, the broker loses it on restart. `client_version` is the producer's transaction
    version. A `producer_epoch` of -1 marks an id without any record.
    """

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    last_update_ms: int = NO_TIMESTAMP
    start_ms: int = NO_TIMESTAMP
    client_version: int = TRANSACTIONS_V1

    @property
    def is_new(self) -> bool:
        """Whether no record of the transactional id is written yet."""
        return self.producer_epoch == NO_PRODUCER_EPOCH

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the epochs are exhausted, so that the next producer needs a new producer id."""
        return self.producer_epoch >= EPOCH_EXHAUSTED

    def to(self, state: TransactionState, now_ms: int) -> TransactionMetadata:
        """Return the metadata after a transition.

        Raises AssertionError if the transition is illegal.
        """
        assert state in LEGAL_TRANSITIONS[self.state], (self.transactional_id, self.state, state)
        # If the clock was set back, keep the later time, because Kafka refuses to go back in time.
        now_ms = max(now_ms, self.last_update_ms)
        return self._replace(
            state=state, last_update_ms=now_ms, previous_producer_id=self.producer_id
        )

    def is_timed_out(self, now_ms: int) -> bool:
        """Return whether the transaction has been open for longer than its timeout."""
        return self.state is TransactionState.ONGOING and self.start_ms + self.timeout_ms < now_ms

    def to_value(self) -> TransactionLogValue:
        """Return the record value."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            by_topic.setdefault(topic, []).append(partition)
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()
        ]
        return TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None if self.state is TransactionState.EMPTY else partitions,
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )


def from_value(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """Return the metadata in a record. Raises ProtocolError for an unknown state."""
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise ProtocolError(f"transaction state {value.transaction_status}") from None
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        last_update_ms=value.transaction_last_update_timestamp_ms,
        start_ms=value.transaction_start_timestamp_ms,
        client_version=value.client_transaction_version,
    )


class TransactionDecision(NamedTuple):
    """The `error` for the client, and the metadata to write first, or None for no change.

    A decision can have both an error and metadata: InitProducerId during an open transaction writes
    the change, and the client retries. `producer_id` and `producer_epoch` are for responses with
    these fields.
    """

    error: ErrorCode
    record: TransactionMetadata | None = None
    producer_id: int = -1
    producer_epoch: int = -1


def refused(error: ErrorCode) -> TransactionDecision:
    """Return a decision with an error and no change."""
    return TransactionDecision(error)


def is_expired(metadata: TransactionMetadata, now_ms: int, expiration_ms: int) -> bool:
    """Return whether an id had no transaction and no update for `expiration_ms`."""
    return metadata.state.is_idle and metadata.last_update_ms + expiration_ms <= now_ms
