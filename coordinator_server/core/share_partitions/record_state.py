"""The states of a record in flight and their legal transitions, and what acknowledging leads to.

The table is what runs: `Run.to` asserts it for every change (Kafka's RecordState).
"""

from __future__ import annotations

from enum import IntEnum


class RecordState(IntEnum):
    """The state of a record; the values are those in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """On its way to the dead letter queue of the group (KIP-1191)."""
    ARCHIVED = 4

    @property
    def label(self) -> str:
        """Kafka's name."""
        return self.name.title()

    @property
    def is_terminal(self) -> bool:
        """Whether the record is done: it is never delivered again."""
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
"""From each state, where a record may go.

What is available is archived when its offsets are gone from the log. An acknowledgement that could
not be written is undone, which is no transition.
"""


class AcknowledgeType(IntEnum):
    """What a consumer says of a record that it was given."""

    GAP = 0
    """There is no such record: compaction removed it, or it ends a transaction."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The consumer is still at it: the lock begins anew (KIP-1222)."""


STATE_AFTER: dict[int, RecordState] = {
    AcknowledgeType.GAP: _S.ARCHIVED,
    AcknowledgeType.ACCEPT: _S.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: _S.AVAILABLE,
    AcknowledgeType.REJECT: _S.ARCHIVED,
}
"""Where a record goes that is acknowledged; one that is released for the last time is archived.

With a dead letter queue a rejected record becomes Archiving, and so does one that is released for
the last time.
"""
