"""The states of a consumer group and of its members. Source: ConsumerGroupState, MemberState."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class ConsumerGroupState(StrEnum):
    """The state of a consumer group; the values are the names in ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """A member's progress towards its target; the numbers are those in the member's record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, _: object) -> MemberState:
        """Return UNKNOWN for a state of a later Kafka version."""
        return cls.UNKNOWN
