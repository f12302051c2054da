"""A group appears with its partition of `__consumer_offsets` and vanishes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.classic.explain import Cause, Outcome, Rebalance, Trigger
from coordinator_server.group.classic.member import MemberMetadata
from coordinator_server.group.classic.membership import Roster
from coordinator_server.group.classic.rebalance import prepare_rebalance
from coordinator_server.group.classic.state import DEAD, EMPTY, STABLE
from coordinator_server.group.responses import join_error, sync_error

if TYPE_CHECKING:
    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Effects
    from protocol.errors import ErrorCode
    from protocol.offsets_log import GroupMetadataValue

UNKNOWN_TIMESTAMP = -1


def load_finished(group: GroupMetadata, now_ms: int, effects: Effects) -> None:
    """The log has been replayed: take up the round that it describes.

    Every member gets a whole session to show up. A group above `group.max.size` is rebalanced.
    Source: GroupMetadataManager.onLoaded.
    """
    recorded = group.image.group
    if recorded is not None:
        _restore(group, recorded)
    group.refresh_subscriptions()
    members = group.roster.members
    for member in members.values():
        group.renew_session(member, now_ms)
    if members:
        _explain_load(group, now_ms, effects)
    if len(members) > group.settings.max_size:
        prepare_rebalance(group, Cause(Trigger.OVER_CAPACITY), now_ms, effects)


def _explain_load(group: GroupMetadata, now_ms: int, effects: Effects) -> None:
    """No rebalance, but where the story of a group with members goes on after a restart."""
    recorded = group.image.group
    loaded = Rebalance(Cause(Trigger.COORDINATOR_LOADED), group.generation_id, recorded, now_ms)
    effects.explain(loaded.end(Outcome.STABLE, group.protocol_type, now_ms, after=recorded))


def _restore(group: GroupMetadata, recorded: GroupMetadataValue) -> None:
    timestamp_ms = recorded.current_state_timestamp
    group.state = STABLE if recorded.members else EMPTY
    group.state_timestamp_ms = None if timestamp_ms == UNKNOWN_TIMESTAMP else timestamp_ms
    group.generation_id = recorded.generation
    group.protocol_type = recorded.protocol_type or None
    group.protocol_name = recorded.protocol
    for one in recorded.members:
        rebalance_timeout_ms = one.rebalance_timeout
        if rebalance_timeout_ms == -1:  # a record of v0
            rebalance_timeout_ms = one.session_timeout
        member = MemberMetadata(
            one.member_id,
            group_instance_id=one.group_instance_id,
            client_id=one.client_id,
            client_host=one.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms,
            session_timeout_ms=one.session_timeout,
            protocols=((recorded.protocol or "", one.subscription),),
            assignment=one.assignment,
        )
        group.roster.add(member)
    if recorded.leader in group.roster.members:
        group.roster.leader_id = recorded.leader


def unload(group: GroupMetadata, error: ErrorCode, now_ms: int, effects: Effects) -> None:
    """Another broker takes over (NOT_COORDINATOR), or we stop: answer what is parked, and die."""
    for member in group.roster.members.values():
        parked = member.awaiting_join
        if parked is not None:
            refused = join_error(member.member_id, error, parked.api_version)
            effects.reply(parked.reply, refused)
        if member.awaiting_sync is not None:
            effects.reply(member.awaiting_sync.reply, sync_error(error))
    if group.rebalance is not None:
        effects.explain(group.rebalance.end(Outcome.UNLOADED, group.protocol_type, now_ms))
        group.rebalance = None
    group.purgatory.clear()
    group.roster = Roster()
    group.join_operation = None
    group.transition_to(DEAD, now_ms)
    effects.event("group.unloaded", group=group.group_id)
