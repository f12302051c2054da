"""The states of a streams group and of its members.

Source: StreamsGroup.StreamsGroupState, StreamsGroup.maybeUpdateGroupState and MemberState.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import Protocol


class StreamsGroupState(StrEnum):
    """State of a streams group; the values are the names that StreamsGroupDescribe shows."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StateFacts(Protocol):
    """What the state of a group follows from."""

    epoch: int
    assignment_epoch: int

    @property
    def is_dead(self) -> bool:
        """Whether the group was unloaded."""

    @property
    def member_count(self) -> int:
        """How many members the group has."""

    @property
    def has_valid_topology(self) -> bool:
        """Whether all topics of the topology are as they have to be."""

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
"""The first state whose rule holds is that of the group."""


def state_of(group: StateFacts) -> StreamsGroupState:
    """The state of a group."""
    return next(state for state, holds in STATE_RULES if holds(group))


class StreamsMemberState(IntEnum):
    """Where a member is on its way to its target; the numbers are those of its record."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, _: object) -> StreamsMemberState:
        """Of a later version."""
        return cls.UNKNOWN
