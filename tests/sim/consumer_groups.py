"""A simulated life of one consumer group (KIP-848), with members of both protocols.

Laws: no partition is owned by two members; the broker records every partition that a client owns;
epochs never fall; every request gets one response, with the error that `consumer_judge` demands; a
member is removed only for a reason, and does not stay without a session; a replay of the log gives
the group; committed offsets stay. In the end, when all clients behave, every partition has one
owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.consumer.consumer_group import STABLE, ConsumerGroup
from coordinator_server.core.groups.consumer.member import CurrentAssignment, MemberState
from coordinator_server.core.groups.group import Group
from coordinator_server.core.groups.modern.members import STATIC_LEAVING_EPOCH
from coordinator_server.core.groups.settings import GroupSettings
from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP, Answer, topic_id_of
from tests.sim.consumer_clients import (
    Classic,
    Consumer,
    ConsumerClient,
    Crashing,
    Hostile,
    Lagging,
    SlowToRevoke,
    Static,
    StaticClassic,
)
from tests.sim.consumer_judge import MIGRATING, Verdict, commit_error, errors_of, heartbeat_errors
from tests.sim.group_world import SHOWN_ERRORS, GroupWorld, play

E = ErrorCode
TOPICS = {"one": 1, "two": 2, "three": 4}
SESSION_MS = 10_000
STEPS = 400
CONSUMERS: list[type[ConsumerClient]] = [
    Consumer,
    Consumer,
    SlowToRevoke,
    Lagging,
    Crashing,
    Static,
    Hostile,
]
CLASSICS: list[type[ConsumerClient]] = [Classic, StaticClassic]


def _settings(rng: Random) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=rng.choice([0, 1_000]),
        new_member_join_timeout_ms=8_000,
        consumer_session_timeout_ms=SESSION_MS,
        consumer_assignment_interval_ms=rng.choice([0, 0, 1_000, 5_000]),
        consumer_max_size=rng.choice([3, 100, 100]),
        consumer_assignors=rng.choice([("uniform", "range"), ("range", "uniform")]),
        consumer_migration_policy=rng.choice(
            ["bidirectional", "bidirectional", "bidirectional", "upgrade", "downgrade", "disabled"]
        ),
    )


class Expected(NamedTuple):
    """The expected errors of a request, and the previous assignment of its member."""

    errors: Verdict
    assigned: object = None


class Revoking(NamedTuple):
    """A member with partitions to revoke, and its deadline."""

    current: CurrentAssignment
    ends_ms: int


class ConsumerWorld(GroupWorld):
    """The world of one seed: a consumer group, its clients and its broker."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, trace, _settings, TOPICS)
        kinds = self.rng.choice([CONSUMERS, [*CONSUMERS, *CLASSICS * 3]])
        self.clients = [
            self.rng.choice(kinds)(self, f"c{number}") for number in range(self.rng.randrange(1, 7))
        ]
        self.last_heard_ms: dict[str, int] = {}
        """The time of the last response without an error, by member of the consumer protocol."""
        self.revoking: dict[str, Revoking] = {}
        self.before: set[str] = set()
        self.once_classic: set[str] = set()
        """Members that use, or have used, the classic protocol, which has other timeouts."""
        self.may_go: set[str] = set()
        """Members that have announced that they leave, or that were replaced by another member."""

    # Requests and responses

    def expect(self, answer: Answer, group: Group | None) -> Expected | None:
        """Return the errors that `consumer_judge` allows for a request."""
        request = answer.request
        is_loaded = group is not None and not group.is_new
        match request:
            case ConsumerGroupHeartbeatRequest():
                if isinstance(group, ConsumerGroup):
                    self._note_leaving(group, request)
                errors = heartbeat_errors(group if is_loaded else None, request)
                assigned = None
                if isinstance(group, ConsumerGroup):
                    assigned = group.current(request.member_id).assigned
                return Expected(errors, assigned)
            case OffsetCommitRequest():
                verdict = commit_error(group if is_loaded else None, request, answer.api_version)
                return None if verdict is None else Expected(verdict)
        if isinstance(group, ConsumerGroup):
            # From now on, any member of the classic protocol may leave, return under another id,
            # or time out.
            self.may_go |= {one.member_id for one in group.members.values() if one.classic}
            instance_id = getattr(request, "group_instance_id", None)
            self.may_go |= {group.static_ids.get(instance_id or "", "")}
        return None

    def _note_leaving(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> None:
        if request.member_epoch == -1:
            self.may_go.add(request.member_id)
        elif request.member_epoch == 0:
            self.may_go.add(group.static_ids.get(request.instance_id or "", ""))

    def compare(self, answer: Answer) -> None:
        """Check the error and the assignment in the response."""
        expected: Expected = answer.note
        errors = errors_of(answer.response)
        if self.has_failed and errors <= SHOWN_ERRORS:
            return
        named = ", ".join(one.name for one in errors)
        assert errors <= expected.errors, f"{named}, not {expected.errors}"
        request, response = answer.request, answer.response
        if not isinstance(request, ConsumerGroupHeartbeatRequest) or errors != {E.NONE}:
            return
        group = self.broker.any_group
        if request.member_epoch < 0 or not isinstance(group, ConsumerGroup):
            return
        self.last_heard_ms[response.member_id] = self.broker.now_ms
        current = group.currents[response.member_id]
        assert response.member_epoch == current.epoch, "another epoch than the member's"
        if response.assignment is None:
            assert current.assigned == expected.assigned, "a member is not told what it has got"
            return
        told = {one.topic_id: set(one.partitions) for one in response.assignment.topic_partitions}
        assigned = {one: set(partitions) for one, partitions in current.assigned.items()}
        assert told == assigned, f"told {told}, assigned {assigned}"

    def topic_is_deleted(self, name: str) -> None:
        """Make the classic members forget the topic.

        Classic members know topics by name, and must not mistake a later topic for a deleted topic
        of the same name.
        """
        super().topic_is_deleted(name)
        for client in self._consumers():
            if isinstance(client, Classic):
                client.owned = {one for one in client.owned if one[0] != topic_id_of(name)}

    def administrate(self) -> None:
        """Describe or delete the group."""
        if self.rng.random() < 0.5:
            self.delete_group()
            return
        group = self.broker.any_group
        request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
        described = self.broker.send(request, 1).response.groups[0]
        if isinstance(group, ConsumerGroup):
            assert described.group_state == group.state.value, "ConsumerGroupDescribe"
            assert len(described.members) == len(group.members), "ConsumerGroupDescribe"
        else:
            assert described.error_code == E.GROUP_ID_NOT_FOUND, "a group that is none"

    def forget(self) -> None:
        """Restart all sessions, because the broker has loaded the group again."""
        now_ms = self.broker.now_ms
        self.last_heard_ms = {}
        self.revoking = {}
        group = self.broker.any_group
        if isinstance(group, ConsumerGroup):
            self.last_heard_ms = dict.fromkeys(group.members, now_ms)
            self.before = set(group.members)
            for member_id, current in group.currents.items():
                if current.state is MemberState.UNREVOKED_PARTITIONS:
                    self.revoking[member_id] = self._begin_to_revoke(group, member_id)

    # Invariants

    def check(self) -> None:
        """Check every invariant; forget the former members if the group has changed its kind."""
        super().check()
        if not isinstance(self.broker.any_group, ConsumerGroup):
            self.before = set()

    def epoch_of(self, group: ConsumerGroup) -> int:
        """Return the epoch of the group."""
        return group.epoch

    def check_members(self, group: ConsumerGroup) -> None:
        """Check the laws of owners, epochs and sessions."""
        self._check_owners(group)
        self._check_clients(group)
        self._check_sessions(group)
        for member_id, current in group.currents.items():
            assert current.epoch <= group.assignment_epoch <= group.epoch, "an epoch too high"
            if current.is_reconciled_to(group.assignment_epoch):
                target = group.targets.get(member_id, {})
                for topic_id, partition in current.held():
                    assert partition in target.get(topic_id, ()), "more than the target"
        if not group.members:
            assert group.assignment_epoch == group.epoch, "an empty group has something to assign"
        is_stable = bool(group.members) and group.epoch == group.assignment_epoch
        for current in group.currents.values():
            is_stable &= current.is_reconciled_to(group.epoch)
        assert (group.state is STABLE) == is_stable, "the state of the group"

    def _check_owners(self, group: ConsumerGroup) -> None:
        owners: dict[tuple[bytes, int], str] = {}
        for member_id, current in group.currents.items():
            assert member_id in group.members, "a stranger owns partitions"
            for place in current.held():
                owner = owners.setdefault(place, member_id)
                assert owner == member_id, f"{place} belongs to {owner} and {member_id}"
        targets: set[tuple[bytes, int]] = set()
        for target in group.targets.values():
            places = {(topic_id, one) for topic_id, parts in target.items() for one in parts}
            assert not places & targets, "a partition is in two targets"
            targets |= places

    def _check_clients(self, group: ConsumerGroup) -> None:
        """Check that the broker records all partitions that a client owns.

        Deleted topics are not checked, because the broker drops them when it translates ids to
        names. Clients whose epoch is neither the current nor the previous epoch are not checked
        either.
        """
        known = {topic_id_of(name) for name in self.broker.topics.counts}
        for client in self._consumers():
            current = group.currents.get(client.member_id)
            if current is None or client.epoch not in (current.epoch, current.previous_epoch):
                continue
            if client.epoch > 0:
                stolen = {one for one in client.owned if one[0] in known} - set(current.held())
                assert not stolen, f"{client.name} still owns {stolen}"

    def _consumers(self) -> Iterator[ConsumerClient]:
        for client in self.clients:
            assert isinstance(client, ConsumerClient)
            yield client

    def _check_sessions(self, group: ConsumerGroup) -> None:
        """Check that members are removed at their session's end, and earlier only for a reason."""
        now_ms = self.broker.now_ms
        for member_id, member in group.members.items():
            if member.classic is not None:
                self.once_classic.add(member_id)
                self.last_heard_ms.pop(member_id, None)
                continue
            heard_ms = self.last_heard_ms.setdefault(member_id, now_ms)
            is_over = now_ms >= heard_ms + SESSION_MS
            assert not is_over or self.may_be_late, f"{member_id} stays"
        for member_id in self.before:
            if member_id in group.members or member_id in self.may_go | self.once_classic:
                continue
            heard_ms = self.last_heard_ms.get(member_id, now_ms)
            revoking = self.revoking.get(member_id)
            is_silent = now_ms >= heard_ms + SESSION_MS
            is_slow = revoking is not None and now_ms >= revoking.ends_ms
            assert is_silent or is_slow, f"{member_id} goes"
        self.before, self.may_go = set(group.members), set()
        self._check_revocations(group)

    def _begin_to_revoke(self, group: ConsumerGroup, member_id: str) -> Revoking:
        timeout_ms = group.members[member_id].rebalance_timeout_ms
        return Revoking(group.currents[member_id], self.broker.now_ms + timeout_ms)

    def _check_revocations(self, group: ConsumerGroup) -> None:
        """Check that a member that does not revoke within its rebalance timeout is removed.

        A static member that leaves for a while keeps its deadline, as the timer belongs to its
        epoch; the deadline starts anew only when a broker loads the absent member from the log
        (onLoaded).
        """
        now_ms = self.broker.now_ms
        revoking: dict[str, Revoking] = {}
        for member_id, current in group.currents.items():
            if current.state is not MemberState.UNREVOKED_PARTITIONS:
                continue
            began = self.revoking.get(member_id)
            if began is None or began.current != current:
                if current.epoch == STATIC_LEAVING_EPOCH:
                    continue
                began = self._begin_to_revoke(group, member_id)
            revoking[member_id] = began
            is_judged = not self.may_be_late and member_id not in self.once_classic
            assert not is_judged or now_ms < began.ends_ms, f"{member_id} does not give up"
        self.revoking = revoking

    def heal(self) -> None:
        """Stop the faults; keep as many members as fit, with protocols that the group accepts."""
        super().heal()
        self.create_topic("ten", 2)  # regular expressions match this topic
        if self.broker.settings.consumer_migration_policy not in MIGRATING:
            are_classic = self.rng.random() < 0.5
            chosen = [one for one in self.clients if isinstance(one, Classic) is are_classic]
            self.clients = chosen or self.clients[:1]
        self.clients = self.clients[: self.broker.settings.consumer_max_size]

    def check_end(self) -> None:
        """Check that every subscribed partition has one owner, which knows that it owns it."""
        group = self.broker.any_group
        assert group is not None, "the group is gone"
        assert group.member_count == len(self.clients), f"{group!r} has other members"
        if isinstance(group, GroupMetadata):
            assert group.state.value == "Stable", f"{group!r} does not come to rest"
            return
        assert isinstance(group, ConsumerGroup)
        assert group.state is STABLE, f"{group!r} does not come to rest"
        owners: dict[tuple[bytes, int], str] = {}
        for client in self._consumers():
            assert client.owned == set(group.currents[client.member_id].held()), client.name
            owners |= dict.fromkeys(client.owned, client.member_id)
        for topic, count in self.broker.topics.counts.items():
            readers = {one.member_id for one in self._consumers() if one.reads(topic)}
            for partition in range(count if readers else 0):
                owner = owners.get((topic_id_of(topic), partition))
                assert owner is not None, f"nobody owns {topic}-{partition}"
                assert owner in readers, f"{owner} does not read {topic}"


def run(seed: int, steps: int = STEPS, trace: Callable[[str], None] | None = None) -> ConsumerWorld:
    """Play one seed and return its world. Raises AssertionError for a violated invariant."""
    return play(ConsumerWorld, "consumer", seed, steps, trace)
