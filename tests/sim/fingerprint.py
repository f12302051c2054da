"""Hashes of small worlds: equal for two worlds if the same future events are possible.

Member ids are numbered in the order of their first occurrence, times are relative to now, and
generations are relative to the group's; the age of an old generation does not matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from coordinator_server.core.groups.classic.rebalance import InitialDelayedJoin

if TYPE_CHECKING:
    from coordinator_server.core.groups.classic.metadata import GroupMetadata
    from protocol.offsets_log import GroupMetadataValue
    from tests.sim.players import Player
    from tests.sim.small_worlds import SmallWorld

OLDEST = -2


class _Eyes:
    """Replaces ids by numbers, and times and generations by distances."""

    def __init__(self, now_ms: int, generation: int) -> None:
        self.now_ms = now_ms
        self.base = generation
        self.numbers: dict[str, int] = {"": 0}

    def number(self, member_id: str | None) -> int:
        """Return the number of a member id."""
        if member_id is None:
            return -1
        return self.numbers.setdefault(member_id, len(self.numbers))

    def distance(self, time_ms: int | None) -> int | None:
        """Return the distance of a time from now."""
        return None if time_ms is None else time_ms - self.now_ms

    def generation(self, generation: int) -> int | None:
        """Return the age of a generation; None for no generation."""
        return None if generation < 0 else max(generation - self.base, OLDEST)

    def assignment(self, assignment: bytes) -> Hashable:
        """Return (age of the generation, number of the member id), or None if empty."""
        generation, _, member_id = assignment.decode().partition(":")
        return (self.generation(int(generation)), self.number(member_id)) if generation else None


def fingerprint(world: SmallWorld) -> int:
    """Return a hash of the state."""
    broker = world.broker
    group = broker.group
    recorded = world.ledger.recorded
    recorded_generation = 0 if recorded is None else recorded.generation
    generation = recorded_generation if group is None else group.generation_id
    eyes = _Eyes(broker.now_ms, generation)
    held = world.held
    return hash(
        (
            None if group is None else _group(group, eyes),
            None if recorded is None else _record(recorded, eyes),
            tuple(sorted(world.ledger.places())),
            tuple(_player(player, eyes) for player in world.players.values()),
            None if held is None else tuple((one.name, verb) for one, verb in held),
            world.next_append,
            broker.write_failed,
            world.referee.may_be_complete,
            generation == 0,
        )
    )


def _group(group: GroupMetadata, eyes: _Eyes) -> Hashable:
    membership = group.membership
    members = tuple(
        (
            eyes.number(one.member_id),
            one.group_instance_id,
            one.protocols,
            one.session_timeout_ms,
            one.rebalance_timeout_ms,
            one.awaiting_join is not None and one.awaiting_join.caller.api_version,
            one.awaiting_sync is not None,
            one.is_new,
            eyes.assignment(one.assignment),
            eyes.distance(one.session.deadline_ms),
        )
        for one in membership.members.values()
    )
    joins = group.join_operation
    initial = None
    if isinstance(joins, InitialDelayedJoin):
        initial = (joins.delay_ms, joins.remaining_ms, joins.member_added)
    return (
        group.state,
        group.protocol_type,
        group.protocol_name,
        group.subscribed_topics,
        members,
        _pending({one: timer.deadline_ms for one, timer in membership.pending.items()}, eyes),
        eyes.number(membership.leader_id),
        frozenset(eyes.number(one) for one in group.awaited_syncs or ()),
        None if joins is None else eyes.distance(joins.deadline_ms),
        initial,
        eyes.distance(group.sync_operation.deadline_ms),
    )


def _pending(pending: Mapping[str, int | None], eyes: _Eyes) -> Hashable:
    return tuple((eyes.number(one), eyes.distance(ends_ms)) for one, ends_ms in pending.items())


def _record(value: GroupMetadataValue, eyes: _Eyes) -> Hashable:
    members = tuple(
        (eyes.number(one.member_id), one.subscription, eyes.assignment(one.assignment))
        for one in value.members
    )
    return eyes.generation(value.generation), eyes.number(value.leader), value.protocol, members


def _player(player: Player, eyes: _Eyes) -> Hashable:
    return (
        eyes.number(player.member_id),
        eyes.generation(player.generation),
        tuple(eyes.number(one) for one in player.members),
        player.changes % 2,
    )
