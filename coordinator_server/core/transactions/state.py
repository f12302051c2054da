"""The states of a transactional id and their legal transitions (Kafka's TransactionState).

The table is executed: `TransactionMetadata.to` asserts every transition before its record is
written. The tables and the diagram in docs/transactions.md are generated from the table.
"""

from __future__ import annotations

from enum import IntEnum


class TransactionState(IntEnum):
    """The state of a transactional id; the values are those in `__transaction_state`."""

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
        return self.name.title().replace("_", "")

    @property
    def is_ending(self) -> bool:
        """Whether the outcome is decided and the markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open or ending: a new one may begin, and the id may expire."""
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
"""State -> the legal states of the next record.

PREPARE_ABORT without an open transaction gives a client of transactions v2 a new epoch when the
client does not know how its last transaction ended (KIP-890).
"""

STATE_BY_LABEL = {state.label: state for state in TransactionState}
"""Kafka's name -> state."""
