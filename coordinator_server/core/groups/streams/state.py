"""The states of a streams group and of its members.

Source: StreamsGroup.StreamsGroupState, StreamsGroup.maybeUpdateGroupState and MemberState.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import Protocol


class StreamsGroupState(StrEnum):
    """The state of a streams group; the values are the names in StreamsGroupDescribe."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StateFacts(Protocol):
    """The attributes of a group that determine its state."""

    epoch: int
    assignment_epoch: int

    @property
    def is_dead(self) -> bool:
        """Whether the group was unloaded."""

    @property
    def member_count(self) -> int:
        """The number of members."""

    @property
    def has_valid_topology(self) -> bool:
        """Whether all topics of the topology exist with the required partition counts."""

    @property
    def is_reconciled(self) -> bool:
        """Whether every member has reached the target assignment."""


STATE_RULES: tuple[tuple[StreamsGroupState, Callable[[StateFacts], bool]], ...] = (
    (StreamsGroupState.DEAD, lambda group: group.is_dead),
    (StreamsGroupState.EMPTY, lambda group: not group.member_count),
    (StreamsGroupState.NOT_READY, lambda group: not group.has_valid_topology),
    (StreamsGroupState.ASSIGNING, lambda group: group.epoch > group.assignment_epoch),
    (StreamsGroupState.RECONCILING, lambda group: not group.is_reconciled),
    (StreamsGroupState.STABLE, lambda _: True),
)
"""The state of a group is the first one whose rule holds."""


def state_of(group: StateFacts) -> StreamsGroupState:
    """Return the state of a group."""
    return next(state for state, holds in STATE_RULES if holds(group))


class StreamsMemberState(IntEnum):
    """A member's progress towards its target; the values are stored in the member's record."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, _: object) -> StreamsMemberState:
        """Return UNKNOWN for a state of a later Kafka version."""
        return cls.UNKNOWN
