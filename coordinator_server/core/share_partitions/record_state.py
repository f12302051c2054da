"""RecordState: the states of a record in flight, and their legal transitions.

The table is executed: `Run.to` asserts every transition (Kafka's RecordState).
"""

from __future__ import annotations

from enum import IntEnum


class RecordState(IntEnum):
    """The state of a record; the values are stored in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Being sent to the dead letter queue of the group (KIP-1191)."""
    ARCHIVED = 4

    @property
    def label(self) -> str:
        """Kafka's name of the state."""
        return self.name.title()

    @property
    def is_terminal(self) -> bool:
        """Whether the record is done and never delivered again."""
        return self in TERMINAL_STATES


_S = RecordState
TERMINAL_STATES = frozenset((_S.ACKNOWLEDGED, _S.ARCHIVED))

LEGAL_TRANSITIONS: dict[RecordState, frozenset[RecordState]] = {
    _S.AVAILABLE: frozenset((_S.ACQUIRED, _S.ARCHIVED)),
    _S.ACQUIRED: frozenset((_S.AVAILABLE, _S.ACKNOWLEDGED, _S.ARCHIVING, _S.ARCHIVED)),
    _S.ACKNOWLEDGED: frozenset(),
    _S.ARCHIVING: frozenset((_S.ARCHIVED,)),
    _S.ARCHIVED: frozenset(),
}
"""State -> the legal next states.

Available records are archived when the log no longer has their offsets. Undoing an acknowledgement
that could not be written is no transition.
"""


class AcknowledgeType(IntEnum):
    """How a consumer acknowledges a record."""

    GAP = 0
    """The offset has no record: compaction removed the record, or it is a transaction marker."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The consumer needs more time: the lock is renewed (KIP-1222)."""


STATE_AFTER: dict[int, RecordState] = {
    AcknowledgeType.GAP: _S.ARCHIVED,
    AcknowledgeType.ACCEPT: _S.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: _S.AVAILABLE,
    AcknowledgeType.REJECT: _S.ARCHIVED,
}
"""Acknowledge type -> the next state; a record released after its last delivery is archived.

With a dead letter queue, rejected records and records released after their last delivery become
Archiving instead.
"""
