"""The five states of a group, the legal moves between them, and what each state answers.

The tables are executed: `GroupMetadata.transition_to` asserts every move, the request modules look
their answer up here, and `docs/coordinator.md` is generated from them. So the prose cannot drift
away from the code. Source: Kafka's ClassicGroupState (KIP-848 names) and a running broker.
"""

from __future__ import annotations

from enum import StrEnum

from protocol.errors import ErrorCode


class GroupState(StrEnum):
    """State of a classic group; the values are the names that DescribeGroups shows."""

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
"""Legal moves and what causes them. A move that is not here is a bug."""

REBALANCEABLE = frozenset(source for source, target in TRANSITIONS if target is PREPARING_REBALANCE)
"""The states in which a new rebalance may begin."""

ASSIGNED = frozenset({STABLE, COMPLETING_REBALANCE})
"""The states in which a lost member starts a rebalance."""

HEARTBEAT_ANSWER: dict[GroupState, ErrorCode] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: ErrorCode.NONE,
    STABLE: ErrorCode.NONE,
}
"""Heartbeat of a known member at the right generation."""

SYNC_ANSWER: dict[GroupState, ErrorCode | None] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: None,
    STABLE: ErrorCode.NONE,
}
"""SyncGroup of a known member at the right generation; None: parked until the leader's write."""

COMMIT_ANSWER: dict[GroupState, ErrorCode] = {
    EMPTY: ErrorCode.NONE,
    PREPARING_REBALANCE: ErrorCode.NONE,
    COMPLETING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    STABLE: ErrorCode.NONE,
}
"""OffsetCommit of a known member at the right generation (Empty: of anybody without one)."""
