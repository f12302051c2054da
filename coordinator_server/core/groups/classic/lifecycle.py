"""Load, unload and restore a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.groups.classic.member import MemberMetadata
from coordinator_server.core.groups.classic.membership import ClassicMembership
from coordinator_server.core.groups.classic.rebalance import prepare_rebalance
from coordinator_server.core.groups.classic.responses import join_error, sync_error
from coordinator_server.core.groups.classic.state import DEAD, EMPTY, STABLE
from coordinator_server.core.groups.explain import Cause, Rebalance, RebalanceOutcome, Trigger
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from coordinator_server.core.groups.effects import Effects
    from protocol.offsets_log import GroupMetadataValue

UNKNOWN_TIMESTAMP = -1


def load_finished(group: GroupMetadata, now_ms: int, effects: Effects) -> None:
    """Continue the recorded generation after the log was replayed.

    Every member gets a full session to send its first request. A group above `group.max.size` is
    rebalanced. Source: GroupMetadataManager.onLoaded.
    """
    recorded = group.recorded
    if recorded is not None:
        restore(group, recorded)
    group.refresh_subscriptions()
    members = group.membership.members
    for member in members.values():
        group.renew_session(member, now_ms)
    if members:
        _explain_load(group, now_ms, effects)
    if len(members) > group.settings.max_size:
        prepare_rebalance(group, Cause(Trigger.OVER_CAPACITY), now_ms, effects)


def _explain_load(group: GroupMetadata, now_ms: int, effects: Effects) -> None:
    """Publish a report that a group with members was loaded, although this is not a rebalance."""
    recorded = group.recorded
    loaded = Rebalance(Cause(Trigger.COORDINATOR_LOADED), group.generation_id, recorded, now_ms)
    effects.explain(
        loaded.end(RebalanceOutcome.STABLE, group.protocol_type, now_ms, after=recorded)
    )


def restore(group: GroupMetadata, recorded: GroupMetadataValue) -> None:
    """Restore the generation and members of a record, without starting sessions."""
    timestamp_ms = recorded.current_state_timestamp
    group.state = STABLE if recorded.members else EMPTY
    group.state_timestamp_ms = None if timestamp_ms == UNKNOWN_TIMESTAMP else timestamp_ms
    group.generation_id = recorded.generation
    group.protocol_type = recorded.protocol_type or None
    group.protocol_name = recorded.protocol
    for recorded_member in recorded.members:
        rebalance_timeout_ms = recorded_member.rebalance_timeout
        if rebalance_timeout_ms == -1:  # a record of version 0 has no rebalance timeout
            rebalance_timeout_ms = recorded_member.session_timeout
        member = MemberMetadata(
            recorded_member.member_id,
            group_instance_id=recorded_member.group_instance_id,
            client_id=recorded_member.client_id,
            client_host=recorded_member.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms,
            session_timeout_ms=recorded_member.session_timeout,
            protocols=((recorded.protocol or "", recorded_member.subscription),),
            assignment=recorded_member.assignment,
        )
        group.membership.add(member)
    if recorded.leader in group.membership.members:
        group.membership.leader_id = recorded.leader


def unload(group: GroupMetadata, now_ms: int, effects: Effects) -> None:
    """Unload the group because its partition moves or the broker stops; answer parked requests.

    A group that ended in the same batch of operations has no parked requests.
    """
    if group.state is DEAD:
        return
    error = ErrorCode.NOT_COORDINATOR
    for member in group.membership.members.values():
        joining = member.awaiting_join
        if joining is not None:
            refused = join_error(member.member_id, error, joining.caller.api_version)
            effects.reply(joining, refused)
        if member.awaiting_sync is not None:
            effects.reply(member.awaiting_sync, sync_error(error))
    if group.rebalance is not None:
        effects.explain(group.rebalance.end(RebalanceOutcome.UNLOADED, group.protocol_type, now_ms))
        group.rebalance = None
    group.purgatory.clear()
    group.membership = ClassicMembership()
    group.join_operation = None
    group.transition_to(DEAD, now_ms)
    effects.event("group.unloaded", group=group.group_id)
