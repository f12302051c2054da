"""The online downgrade of KIP-848: a consumer group becomes a classic group.

The downgrade happens when only members of the classic protocol are left: the last member of the
consumer protocol has left, was fenced, or is a static member that came back with the classic
protocol. The members keep their ids, and their target assignment until they rejoin. Source:
validateOnlineDowngradeWithFencedMembers and convertToClassicGroup of GroupMetadataManager, and
ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.classic import lifecycle
from coordinator_server.core.groups.classic.member import MemberMetadata, shared_protocols
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.classic.rebalance import prepare_rebalance
from coordinator_server.core.groups.classic.state import STABLE
from coordinator_server.core.groups.consumer.classic_protocol import assignment_bytes, protocols_of
from coordinator_server.core.groups.consumer.records import group_tombstones
from coordinator_server.core.groups.effects import PER_MEMBER, Pace
from coordinator_server.core.groups.explain import Cause, Trigger, caused_by

if TYPE_CHECKING:
    from coordinator_server.core.groups.classic.member import Protocols
    from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
    from coordinator_server.core.groups.consumer.member import ConsumerMember
    from coordinator_server.core.groups.effects import Effects
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.steps import Computation

POLICIES = frozenset({"bidirectional", "downgrade"})
"""The values of `group.consumer.migration.policy` that allow a downgrade."""

PROTOCOL_TYPE = "consumer"


class Downgrade(NamedTuple):
    """A planned downgrade: its records, and the state to restore after they are written.

    `protocols` has all protocols of each member, as the record holds only the selected one. `cause`
    is the cause of the rebalance after the downgrade; None without a rebalance.
    """

    records: list[CoordinatorRecord]
    protocols: Mapping[str, Protocols]
    cause: Cause | None

    def finish(self, group: Group | None, now_ms: int, effects: Effects) -> None:
        """Finish after the write: renew the sessions, and start a rebalance if one is needed."""
        assert isinstance(group, GroupMetadata)
        assert group.recorded is not None
        lifecycle.restore(group, group.recorded)
        group.refresh_subscriptions()
        for member in group.membership.members.values():
            group.membership.set_protocols(member, self.protocols[member.member_id])
            group.renew_session(member, now_ms)
        effects.event(
            "group.downgraded",
            group=group.group_id,
            generation=group.generation_id,
            members=group.member_count,
        )
        if self.cause is not None:
            prepare_rebalance(group, self.cause, now_ms, effects)


def without(
    group: ConsumerGroup, gone: Collection[ConsumerMember], now_ms: int
) -> Computation[Downgrade | None]:
    """Return the downgrade that the removal of these members causes, or None."""
    if not _is_allowed(group, gone, group.member_count - len(gone)):
        return None
    gone_ids = {member.member_id for member in gone}
    left = [member for member in group.members.values() if member.member_id not in gone_ids]
    cause = caused_by(Trigger.GROUP_DOWNGRADED, next(iter(gone)))
    tombstones = group.tombstones()
    return (yield from _downgrade(group, left, group.targets, tombstones, cause, now_ms))


def is_due_with(group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    """Return whether the group is downgraded when this static member uses the classic protocol."""
    return replaced.classic is None and _is_allowed(group, (replaced,), group.member_count)


def with_replaced(
    group: ConsumerGroup,
    replaced: ConsumerMember,
    joining: ConsumerMember,
    now_ms: int,
    *,
    has_to_rebalance: bool,
) -> Computation[Downgrade]:
    """Return the downgrade caused by a static member that rejoins with the classic protocol.

    The member `replaced` becomes the member `joining`.
    """
    ids = [
        joining.member_id if member_id == replaced.member_id else member_id
        for member_id in group.members
    ]
    others = [member for member in group.members.values() if member.member_id != replaced.member_id]
    targets = {**group.targets, joining.member_id: group.targets.get(replaced.member_id, {})}
    cause = caused_by(Trigger.GROUP_DOWNGRADED, replaced) if has_to_rebalance else None
    tombstones = group_tombstones(group.group_id, ids, group.resolved)
    return (yield from _downgrade(group, [*others, joining], targets, tombstones, cause, now_ms))


def _is_allowed(group: ConsumerGroup, gone: Collection[ConsumerMember], size: int) -> bool:
    """Return whether the group may be downgraded once the members `gone` are removed.

    True if no member of the consumer protocol is left, the migration policy allows a downgrade, and
    a classic group may have `size` members.
    """
    consumers = group.member_count - group.classic_count
    return (
        consumers == sum(1 for member in gone if member.classic is None)
        and group.settings.consumer_migration_policy in POLICIES
        and 0 < size <= group.settings.max_size
    )


def _downgrade(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    targets: Mapping[str, Partitions],
    tombstones: list[CoordinatorRecord],
    cause: Cause | None,
    now_ms: int,
) -> Computation[Downgrade]:
    classic = GroupMetadata(group.group_id, group.environment)
    classic.state, classic.state_timestamp_ms = STABLE, now_ms
    classic.generation_id, classic.protocol_type = group.epoch, PROTOCOL_TYPE
    protocols: dict[str, Protocols] = {}
    pace = Pace()
    for member in members:
        if pace.is_due(PER_MEMBER):
            yield
        assert member.classic is not None
        protocols[member.member_id] = shared_protocols(protocols_of(member.classic))
        classic.membership.add(
            MemberMetadata(
                member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=protocols[member.member_id],
            )
        )
    classic.protocol_name = classic.membership.selected_protocol()
    assignments: dict[str, bytes] = {}
    for member_id, classic_member in classic.membership.members.items():
        target = targets.get(member_id, {})
        metadata = classic_member.metadata_for(classic.protocol_name)
        assignments[member_id] = assignment_bytes(target, metadata, group.environment.topics)
        if pace.is_due(PER_MEMBER + len(target)):
            yield
    return Downgrade([*tombstones, classic.record(assignments)], protocols, cause)
