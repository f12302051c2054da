"""The five states of a classic group, their transitions, and the responses in each state.

The tables are executed: `GroupMetadata.transition_to` asserts every transition, and request modules
look up their responses here. `docs/coordinator.md` is generated from the tables. Source: Kafka's
ClassicGroupState (KIP-848 names) and a running broker.
"""

from __future__ import annotations

from enum import StrEnum

from protocol.errors import ErrorCode


class GroupState(StrEnum):
    """The state of a classic group; the values are the names in DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = GroupState.EMPTY
PREPARING_REBALANCE = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

TRANSITIONS: dict[tuple[GroupState, GroupState], str] = {
    (EMPTY, PREPARING_REBALANCE): "the first member joins",
    (STABLE, PREPARING_REBALANCE): (
        "a member joins, leaves, expires, changes its metadata or never synced; the leader rejoins"
    ),
    (COMPLETING_REBALANCE, PREPARING_REBALANCE): (
        "as in Stable; or the assignment could not be written"
    ),
    (PREPARING_REBALANCE, COMPLETING_REBALANCE): "the join phase ends with members",
    (PREPARING_REBALANCE, EMPTY): "the join phase ends without members",
    (COMPLETING_REBALANCE, STABLE): "the leader's assignment is written",
    (EMPTY, DEAD): "the group is deleted or expires; its partition is unloaded",
    (PREPARING_REBALANCE, DEAD): "its partition is unloaded",
    (COMPLETING_REBALANCE, DEAD): "its partition is unloaded",
    (STABLE, DEAD): "its partition is unloaded",
}
"""Legal transitions and their causes. Any other transition is a bug."""

REBALANCEABLE = frozenset(source for source, target in TRANSITIONS if target is PREPARING_REBALANCE)
"""The states in which a new rebalance can begin."""

ASSIGNED = frozenset({STABLE, COMPLETING_REBALANCE})
"""The states in which the loss of a member starts a rebalance."""

HEARTBEAT_ANSWER: dict[GroupState, ErrorCode] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: ErrorCode.NONE,
    STABLE: ErrorCode.NONE,
}
"""The response to a Heartbeat of a member with the current generation, by state."""

SYNC_ANSWER: dict[GroupState, ErrorCode | None] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: None,
    STABLE: ErrorCode.NONE,
}
"""The result of SyncGroup of a member with the current generation; None: parked until the write."""

COMMIT_ANSWER: dict[GroupState, ErrorCode] = {
    EMPTY: ErrorCode.NONE,
    PREPARING_REBALANCE: ErrorCode.NONE,
    COMPLETING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    STABLE: ErrorCode.NONE,
}
"""The result of OffsetCommit of a member with the current generation (Empty: of any caller)."""
