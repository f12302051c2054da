"""A simulated life of one group: clients, faults, and what must hold after every step.

Everything that happens follows from the seed. A violation is an exception; `run` adds the command
that shows it again.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from coordinator_server.group.image import GroupImage
from coordinator_server.group.metadata import GroupMetadata
from coordinator_server.group.settings import GroupSettings
from coordinator_server.group.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.offset_commit import OffsetCommitRequest
from protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.apis.sync_group import SyncGroupRequest
from protocol.errors import ErrorCode
from protocol.offsets_log import UnknownKey, decode_key, decode_value
from tests.sim.broker import GROUP, Answer, KilledError, OneGroupBroker
from tests.sim.clients import Calm, Client, Crashing, Hostile, Slow, Zombie

E = ErrorCode
RETENTION_MS = 120_000
APPEND_ERRORS = [
    E.NOT_ENOUGH_REPLICAS,
    E.NOT_LEADER_OR_FOLLOWER,
    E.MESSAGE_TOO_LARGE,
    E.KAFKA_STORAGE_ERROR,
]
Place = tuple[str, int]


class World:
    """One seed. `step` does one thing and checks everything."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.rng = Random(seed)
        self.trace = trace
        self.steps = 0
        settings = GroupSettings(
            initial_rebalance_delay_ms=self.rng.choice([0, 0, 1_000, 3_000]),
            max_size=self.rng.choice([2, 4, 100]),
            offsets_retention_ms=RETENTION_MS,
            new_member_join_timeout_ms=60_000,
        )
        self.broker = OneGroupBroker(settings)
        self.broker.append_error = self._append_error
        self.broker.appended = self._appended
        self.broker.on_answer = self._answered
        self.append_failure_rate = self.rng.choice([0.0, 0.0, 0.02, 0.2])
        self.kill_rate = self.rng.choice([0.0, 0.0, 0.005, 0.03])
        self.clients = self._make_clients()
        self.shadow = GroupImage()
        self.shadowed = 0
        self.stored: dict[Place, tuple[int, str]] = {}
        self.generation = 0
        self.leaders: dict[int, str] = {}
        self.group: GroupMetadata | None = None

    def _make_clients(self) -> list[Client]:
        clients: list[Client] = []
        for number in range(self.rng.randrange(1, 7)):
            kind = self.rng.choice([Client, Client, Slow, Crashing, Crashing, Zombie, Hostile])
            instance_id = f"i{number}" if self.rng.random() < 0.3 else None
            clients.append(kind(self.broker, self.rng, f"c{number}", instance_id))
        return clients

    # Steps

    def step(self) -> None:
        """One thing happens; afterwards everything must hold."""
        self.steps += 1
        try:
            self._happen()
        except KilledError:
            self._crash("killed after an append")
        self._check()

    def _happen(self) -> None:
        chance = self.rng.random()
        if chance < 0.62:
            self._turn(self.rng.choice(self.clients))
        elif chance < 0.75:
            with self.broker.one_drain():
                for client in self.rng.choices(self.clients, k=self.rng.randrange(2, 6)):
                    self._turn(client)
                if self.rng.random() < 0.1:
                    self._administrate()
        elif chance < 0.97:
            milliseconds = self.rng.choice([1, 50, 200, 500, 1_000, 5_000])
            self._say(f"{milliseconds} ms pass")
            self.broker.advance(milliseconds)
        elif chance < 0.99:
            self._administrate()
        elif self.rng.random() < self.kill_rate * 20:
            self._crash("killed")

    def _turn(self, client: Client) -> None:
        before = len(self.broker.answers)
        client.turn()
        for answer in self.broker.answers[before:]:
            self._say(f"{client.name} asks {answer.request!r}")

    def _administrate(self) -> None:
        match self.rng.randrange(5):
            case 0:
                self._say("DeleteGroups")
                self.broker.delete()
            case 1:
                self._say("the retention check runs")
                self.broker.expire_offsets()
            case 2:
                self._say("topic `three` is deleted")
                self.broker.delete_topics("three")
            case 3:
                self._say("OffsetDelete")
                partitions = [OffsetDeleteRequestPartition(partition_index=0)]
                topics = [OffsetDeleteRequestTopic(name="many", partitions=partitions)]
                self.broker.send(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)
            case 4:
                self.broker.describe()

    def _crash(self, how: str) -> None:
        self._say(how)
        self._catch_up(may_hold_unanswered=True)
        self.broker.crash()
        self.broker.answers.clear()
        self.generation = 0 if self.shadow.group is None else self.shadow.group.generation
        self.leaders = {}
        self.group = self.broker.group

    # Faults

    def _append_error(self) -> ErrorCode:
        if self.rng.random() < self.append_failure_rate:
            error = self.rng.choice(APPEND_ERRORS)
            self._say(f"an append fails: {error.name}")
            return error
        return E.NONE

    def _appended(self) -> None:
        if self.rng.random() < self.kill_rate:
            raise KilledError

    def heal(self) -> None:
        """No more faults, and only clients that follow the protocol."""
        self.append_failure_rate = self.kill_rate = 0.0
        for number, client in enumerate(self.clients):
            self.clients[number] = Calm(self.broker, self.rng, client.name, client.instance_id)

    # What must hold

    def _answered(self, answer: Answer) -> None:
        """Watch answers as they go out."""
        self._say(f"    -> {answer.response!r}")
        response: Any = answer.response
        match answer.request:
            case JoinGroupRequest() if response.error_code == E.NONE:
                if response.members and not response.skip_assignment:
                    leader = self.leaders.setdefault(response.generation_id, response.member_id)
                    assert leader == response.member_id, "two leaders in one generation"
            case SyncGroupRequest() as request if response.error_code == E.NONE:
                generation = response.assignment.partition(b":")[0]
                assert not generation or int(generation) == request.generation_id, "old assignment"
            case HeartbeatRequest() as request if response.error_code == E.NONE:
                self._check_generation(request.generation_id)
            case OffsetCommitRequest() as request:
                self._remember(request, response)

    def _remember(self, request: OffsetCommitRequest, response: Any) -> None:
        for asked, told in zip(request.topics, response.topics, strict=True):
            for one, result in zip(asked.partitions, told.partitions, strict=True):
                if result.error_code == E.NONE:
                    if request.generation_id_or_member_epoch >= 0:
                        self._check_generation(request.generation_id_or_member_epoch)
                    place = (asked.name, one.partition_index)
                    self.stored[place] = (one.committed_offset, one.committed_metadata or "")

    def _check_generation(self, generation_id: int) -> None:
        """What was accepted came from a generation that was there during this step."""
        group = self.broker.group
        assert group is not None
        assert self.generation <= generation_id <= group.generation_id, "a wrong generation"

    def _catch_up(self, *, may_hold_unanswered: bool = False) -> None:
        """Read what has been appended; drops are what tombstones say.

        After a crash an offset may be that of a commit that was written but not answered.
        """
        log = self.broker.log
        unanswered: set[Place] = set()
        for key_bytes, value_bytes in log[self.shadowed :]:
            key: Any = decode_key(key_bytes)
            assert not isinstance(key, UnknownKey)
            self.shadow.replay((key, decode_value(key, value_bytes)))
            if hasattr(key, "topic"):
                unanswered.add((key.topic, key.partition))
                if value_bytes is None:
                    self.stored.pop((key.topic, key.partition), None)
        self.shadowed = len(log)
        held = {
            (topic, partition): (value.offset, value.metadata)
            for topic, partitions in self.shadow.offsets.items()
            for partition, value in partitions.items()
        }
        if may_hold_unanswered:
            for place in unanswered & held.keys():
                self.stored[place] = held[place]
        assert held == self.stored, f"acknowledged {self.stored}, the log has {held}"

    def _check(self) -> None:
        self._catch_up()
        group = self.broker.group
        if group is not self.group:
            self.group = group
            self.generation = 0
            self.leaders = {}
        parked = {id(answer) for answer in self.broker.answers if answer.parked}
        if group is None:
            assert self.shadow.is_blank or self.broker.write_failed, "a group is lost"
            assert not parked, "an answer is lost with its group"
            return
        assert group.image == self.shadow, "the replay law"
        if self.steps % 64 == 0:
            self.broker.check_replay_law()
        assert group.generation_id >= self.generation, "the generation falls"
        self.generation = group.generation_id
        self._check_members(group, parked)
        self._check_state(group)
        if len(self.broker.answers) > 200:
            self.broker.answers = [one for one in self.broker.answers if one.parked]

    def _check_members(self, group: GroupMetadata, parked: set[int]) -> None:
        roster = group.roster
        members = roster.members.values()
        waiting = [
            id(one.reply)
            for member in members
            for one in (member.awaiting_join, member.awaiting_sync)
            if one is not None
        ]
        assert len(waiting) == len(set(waiting))
        assert set(waiting) == parked, "a request is neither answered nor parked"
        assert roster.awaiting_join == sum(one.awaiting_join is not None for one in members)
        for member in members:
            assert member.cannot_expire or member.session.deadline_ms is not None, "no timer"
            if member.group_instance_id is not None:
                assert roster.static_ids[member.group_instance_id] == member.member_id
        assert len(roster.static_ids) == sum(one.is_static for one in members)
        assert all(one.deadline_ms is not None for one in roster.pending.values())
        assert not roster.pending.keys() & roster.members.keys()
        if members:
            assert roster.leader_id in roster.members, "no leader"
        counts: dict[str, int] = {}
        for member in members:
            for name in {name for name, _ in member.protocols}:
                counts[name] = counts.get(name, 0) + 1
        assert counts == roster._supported

    def _check_state(self, group: GroupMetadata) -> None:
        members = group.roster.members
        joins = group.join_operation
        assert (group.state is PREPARING_REBALANCE) == (joins is not None)
        if joins is not None:
            assert joins.deadline_ms is not None, "a join phase without a timer"
        if group.state is COMPLETING_REBALANCE:
            assert members
            assert group.sync_operation.deadline_ms is not None, "nobody waits for the leader"
        if group.state is EMPTY:
            assert not members
        if group.state is STABLE:
            assert members
            assert not any(one.awaiting_sync for one in members.values())
        assert group.awaited_syncs <= members.keys() or group.state is PREPARING_REBALANCE

    def _say(self, text: str) -> None:
        if self.trace is not None:
            state = "-" if self.broker.group is None else repr(self.broker.group)
            self.trace(f"{self.steps:5} {self.broker.now_ms} {state} {text}")


def run(seed: int, steps: int, trace: Callable[[str], None] | None = None) -> World:
    """Live through `steps`, then heal the world and see that the group comes to rest."""
    world = World(seed, trace)
    try:
        for _ in range(steps):
            world.step()
        _settle(world)
    except BaseException as error:
        command = f"python -m tests.sim --seed {seed} --steps {steps} --trace"
        error.add_note(f"seed {seed}, step {world.steps}; to see it: {command}")
        raise
    return world


def _settle(world: World) -> None:
    """Without faults, clients that behave get a Stable group of all of them."""
    world.heal()
    room = world.broker.settings.max_size
    world.clients = world.clients[:room]
    for _ in range(200):
        for client in world.clients:
            world.steps += 1
            client.turn()
            world._check()
        world.broker.advance(1_000)
        world._check()
    group = world.broker.group
    assert group is not None, "the group is gone"
    assert group.state is STABLE, f"the group does not come to rest: {group!r}"
    assert len(group.roster.members) == len(world.clients), "strangers stay"
    world.broker.unload()
    assert not any(answer.parked for answer in world.broker.answers), "unanswered at the end"
