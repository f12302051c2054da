"""The states of a consumer group and of its members. Source: ConsumerGroupState, MemberState."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ConsumerGroupState(StrEnum):
    """State of a consumer group; the values are the names that ConsumerGroupDescribe shows."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """Where a member is on its way to its target; the numbers are those of its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, _: object) -> MemberState:
        """Of a later version."""
        return cls.UNKNOWN
