"""A simulated life of one group: clients, faults, and invariants after every step.

Every event follows from the seed. A violation is an exception; `run` adds the command that
reproduces it. See docs/simulation.md.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from coordinator_server.core.caller import Caller
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.classic.state import EMPTY, STABLE
from coordinator_server.core.groups.settings import GroupSettings
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
from protocol.schema import Message
from storage.errors import StorageError
from tests.harness.one_group import (
    GROUP,
    TOPICS,
    Answer,
    KilledError,
    OneGroupBroker,
    next_deadline_ms,
)
from tests.sim.answers import check_unknown
from tests.sim.clients import Calm, Client, Crashing, Hostile, Slow, Standalone, Zombie
from tests.sim.invariants import check_group
from tests.sim.judge import CLIENT_ERRORS
from tests.sim.ledger import Ledger
from tests.sim.referee import Referee
from tests.sim.trace import show

E = ErrorCode
RETENTION_MS = 120_000
APPEND_ERRORS = list(CLIENT_ERRORS)
KINDS = [Client, Client, Client, Slow, Crashing, Crashing, Zombie, Hostile, Standalone]
WELL_BEHAVED = [Client, Client, Client, Slow, Standalone]


class World:
    """The world of one seed. `step` lets one event happen and checks every invariant."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.rng = rng = Random(seed)
        self.trace = trace
        self.steps = 0
        settings = GroupSettings(
            initial_rebalance_delay_ms=rng.choice([0, 0, 1_000, 3_000]),
            max_size=rng.choice([2, 4, 100]),
            offsets_retention_ms=RETENTION_MS,
            new_member_join_timeout_ms=rng.choice([8_000, 60_000]),
        )
        self.broker = OneGroupBroker(settings)
        self.born_ms = self.broker.now_ms
        self.broker.append_error = self._append_error
        self.broker.survivors = self._survivors
        self.broker.on_answer = self._answered
        self.referee = Referee(self.broker)
        self.ledger = Ledger(self.broker)
        self.broker.batch_limit = rng.choice([None, None, None, 3])
        self.append_failure_rate = rng.choice([0.0, 0.0, 0.02, 0.2])
        self.kill_rate = rng.choice([0.0, 0.0, 0.005, 0.03])
        self.move_rate = rng.choice([0.0, 0.0, 0.01])
        self.delay_rate = rng.choice([0.0, 0.0, 0.5])
        self.repeat_rate = rng.choice([0.0, 0.0, 0.1])
        self.broker.flushes = rng.choice([False, False, False, True])
        self.flush_failure_rate = rng.choice([0.0, 0.2])
        self.on_the_way: list[Answer] = []
        self.clients = self._make_clients()
        self.generation = 0
        self.leaders: dict[int, str] = {}
        self.group: GroupMetadata | None = None

    def _make_clients(self) -> list[Client]:
        clients: list[Client] = []
        kinds = self.rng.choice([KINDS, KINDS, WELL_BEHAVED])
        for number in range(self.rng.randrange(1, 7)):
            kind = self.rng.choice(kinds)
            instance_id = f"i{number}" if self.rng.random() < 0.3 else None
            clients.append(kind(self.broker, self._send, self.rng, f"c{number}", instance_id))
        return clients

    # Steps

    def step(self) -> None:
        """Let one event happen, then check every invariant."""
        self.steps += 1
        try:
            self._happen()
        except KilledError:
            self._crash("killed during an append")
        self.check()

    def _happen(self) -> None:
        chance = self.rng.random()
        if self.on_the_way and chance < 0.3:
            self._deliver()
        elif chance < 0.62:
            self.rng.choice(self.clients).turn()
        elif chance < 0.75:
            self._busy_drain()
        elif chance < 0.97:
            self._let_time_pass()
        elif chance < 0.99:
            self._administrate()
        elif self.rng.random() < self.kill_rate * 20:
            self._crash("killed")
        if self.broker.flushing and self.rng.random() < 0.5:
            self._flush()
        if not self.broker.is_coordinator:
            if self.rng.random() < 0.2:
                self._arrive()
        elif self.rng.random() < self.move_rate:
            self._move()

    def _busy_drain(self) -> None:
        """Queue several requests before the group's task runs."""
        with self.broker.one_drain():
            for client in self.rng.choices(self.clients, k=self.rng.randrange(2, 6)):
                if self.on_the_way and self.rng.random() < 0.5:
                    self._deliver()
                client.turn()
                waits = client.waiting is not None and client.waiting.parked
                if waits and self.rng.random() < 0.1:
                    client.repeat()
            chance = self.rng.random()
            if chance < 0.1:
                self._administrate(alone=False)
            elif chance < 0.1 + self.move_rate * 10 and self.broker.is_coordinator:
                self._say("the coordinator moves away, and the mailbox is not empty")
                self.broker.unload()
                for client in self.clients:
                    client.turn()

    def _let_time_pass(self) -> None:
        milliseconds = self.rng.choice([1, 50, 100, 200, 500, 1_000, 3_000])
        group = self.broker.group
        checks_retention = self.rng.random() < 0.02
        if checks_retention:
            # Advance to exactly the millisecond of an expiry, and sometimes to just before it.
            ends = [ms - self.broker.now_ms for ms in self.ledger.expiries(group).values()]
            milliseconds = self.rng.choice(sorted(ends) or [RETENTION_MS])
            milliseconds = max(milliseconds - self.rng.choice([0, 1]), 0)
        if group is not None and self.rng.random() < 0.1:
            deadline_ms = next_deadline_ms(group.purgatory)
            if deadline_ms is not None:
                milliseconds = max(deadline_ms - self.broker.now_ms - self.rng.choice([0, 1]), 0)
        self._say(f"{milliseconds} ms pass")
        self.broker.advance(milliseconds)
        if checks_retention:
            self._check_retention()

    def _send(self, request: Message, api_version: int, client_id: str) -> Answer:
        """Send a request; it may be delayed, and later requests may overtake it."""
        answer = Answer(request, caller=Caller(client_id, "/127.0.0.1", api_version))
        if self.rng.random() < self.delay_rate:
            self._say(f"{client_id} sends {show(request)} v{api_version}, it is on its way")
            self.on_the_way.append(answer)
        else:
            self._arrived(answer)
        return answer

    def _deliver(self) -> None:
        """Deliver a delayed request, in any order and sometimes twice."""
        self._arrived(self.on_the_way.pop(self.rng.randrange(len(self.on_the_way))))

    def _arrived(self, answer: Answer) -> None:
        request: Any = answer.request
        caller = answer.caller
        self._say(f"{caller.client_id} asks {show(request)} v{caller.api_version}")
        if self.rng.random() < self.repeat_rate:
            self.on_the_way.append(Answer(request, caller=caller))
        self.broker.deliver(answer)

    def _administrate(self, *, alone: bool = True) -> None:
        if not self.broker.is_coordinator:
            return
        broker, ledger = self.broker, self.ledger
        match self.rng.randrange(5):
            case 0:
                self._delete_group(alone=alone)
            case 1 if alone:
                self._check_retention()
            case 2:
                self._say("topic `three` is deleted")
                ledger.may_drop |= {("three", one) for one in range(9)}
                broker.delete_topics("three")
                gone = "three" not in broker.replayed().offsets.by_topic
                assert gone or not alone or broker.write_failed, "offsets of a deleted topic"
            case 3:
                self._say("OffsetDelete")
                partitions = [OffsetDeleteRequestPartition(partition_index=0)]
                topics = [OffsetDeleteRequestTopic(name="many", partitions=partitions)]
                ledger.may_drop.add(("many", 0))
                request = OffsetDeleteRequest(group_id=GROUP, topics=topics)
                answer = broker.send(request, 0)
                if alone and answer.answered:
                    self._check_offset_delete(answer.response)
            case 4:
                described = broker.describe()
                state = "Dead" if broker.group is None else broker.group.state.value
                assert not alone or described.group_state == state, "DescribeGroups"

    def _delete_group(self, *, alone: bool) -> None:
        group = self.broker.group
        expected = E.NONE if group is not None and group.state is EMPTY else E.NON_EMPTY_GROUP
        if group is None:
            expected = E.GROUP_ID_NOT_FOUND
        self._say("DeleteGroups")
        self.ledger.may_drop |= {(topic, one) for topic in TOPICS for one in range(9)}
        answer = self.broker.delete()
        if not alone or not answer.answered:
            return
        error = answer.error
        assert error is expected or (self.broker.write_failed and expected is E.NONE), error.name
        if error is E.NONE:
            assert self.broker.replayed().is_blank, "something of a deleted group is left"
            assert self.broker.group is None, "a deleted group lives on"

    def _check_offset_delete(self, response: Any) -> None:
        held = 0 in self.broker.replayed().offsets.by_topic.get("many", {})
        for topic in response.topics:
            assert topic.partitions[0].error_code != E.NONE or not held, "a deleted offset is there"

    def _check_retention(self) -> None:
        """Check that the retention check drops exactly the expired offsets."""
        if not self.broker.is_coordinator:
            return
        group, ledger = self.broker.group, self.ledger
        ledger.catch_up()
        ledger.may_drop = over = ledger.expired(group)
        ends = group is not None and group.state is EMPTY and over == ledger.places()
        self._say(f"the retention check runs, {sorted(over)} is over")
        failed, self.broker.write_failed = self.broker.write_failed, False
        self.broker.expire_offsets()
        written, self.broker.write_failed = not self.broker.write_failed, failed
        ledger.catch_up()
        if written:
            assert ledger.dropped == over, f"{over} is over, {ledger.dropped} is dropped"
            assert (self.broker.group is None) == (ends or group is None), "does the group end?"

    # Faults

    def _crash(self, how: str) -> None:
        self._say(how)
        self.ledger.may_drop = self.ledger.places()
        self.ledger.catch_up(may_hold_unanswered=True)
        self.broker.crash()
        self._begin_anew()

    def _move(self) -> None:
        """Move the group to another broker; requests fail until that broker has loaded it."""
        self._say("the coordinator moves away")
        self.broker.unload()
        assert self.broker.group is None, "an unloaded group stays"

    def _arrive(self) -> None:
        self._say("the coordinator has moved")
        self.ledger.may_drop = self.ledger.places()
        self.ledger.catch_up()
        self.broker.load()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.broker.answers = [one for one in self.broker.answers if one.parked]
        recorded = self.ledger.recorded
        self.generation = 0 if recorded is None else recorded.generation
        self.leaders = {}
        self.group = self.broker.group

    def _append_error(self) -> ErrorCode:
        if self.rng.random() < self.append_failure_rate:
            error = self.rng.choice(APPEND_ERRORS)
            if error is E.MESSAGE_TOO_LARGE and self.broker.batch_limit is not None:
                return E.NONE  # with a batch limit, only oversized records get this error
            self._say(f"an append fails: {error.name}")
            return error
        return E.NONE

    def _flush(self) -> None:
        """Sync the appended records, or fail: then none of them is acknowledged."""
        error = None
        if self.rng.random() < self.flush_failure_rate:
            error = StorageError("the disk fails")
        self._say("a sync fails" if error else "a sync is done")
        self.broker.flush(error)

    def _survivors(self, count: int) -> int | None:
        """Return how many records survive a kill during an append: all, or part of a torn batch."""
        if self.rng.random() >= self.kill_rate:
            return None
        return count if self.rng.random() < 0.5 else self.rng.randrange(count)

    def heal(self) -> None:
        """Stop the faults and keep only clients that follow the protocol."""
        self.append_failure_rate = self.kill_rate = self.move_rate = 0.0
        self.broker.batch_limit = None
        self.delay_rate = self.repeat_rate = 0.0
        self.flush_failure_rate = 0.0
        self._flush()
        self.broker.flushes = False
        if not self.broker.is_coordinator:
            self._arrive()
        while self.on_the_way:
            self._deliver()
        for number, client in enumerate(self.clients):
            calm = Calm(self.broker, self._send, self.rng, client.name, client.instance_id)
            self.clients[number] = calm

    # Invariants

    def _answered(self, answer: Answer) -> None:
        """Check a response as it is sent."""
        self._say(f"    -> {show(answer.response)}")
        self.ledger.answered(answer)
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
                if self.broker.is_coordinator:
                    check_unknown(request, response)
                codes = [one.error_code for topic in response.topics for one in topic.partitions]
                # If a commit waits for its sync, its response may come only after the next
                # rebalance.
                at_once = not self.broker.flushes
                if at_once and E.NONE in codes and request.generation_id_or_member_epoch >= 0:
                    self._check_generation(request.generation_id_or_member_epoch)

    def _check_generation(self, generation_id: int) -> None:
        """Check that an accepted generation existed during this step."""
        # The group may have been removed before its responses were sent.
        group = self.broker.group or self.group
        assert group is not None
        assert self.generation <= generation_id <= group.generation_id, "a wrong generation"

    def check(self) -> None:
        """Check every invariant between two steps."""
        broker = self.broker
        self.ledger.catch_up()
        group = broker.group
        if group is not self.group:
            self.group = group
            self.generation = 0
            self.leaders = {}
        self.ledger.check_durable_state(group)
        if self.steps % 64 == 0:
            broker.check_replay_law()
        flushing = broker.waiting_for_flush()
        check_group(group, broker.answers, flushing)
        for answer in flushing:
            assert not isinstance(answer.request, HeartbeatRequest), "a heartbeat waits for a sync"
        if group is not None:
            assert group.generation_id >= self.generation, "the generation falls"
            self.generation = group.generation_id
        if len(broker.answers) > 200:
            broker.answers = [one for one in broker.answers if one.parked]

    def _say(self, text: str) -> None:
        if self.trace is not None:
            group = self.broker.group
            state = "-" if group is None else f"{group.state} {group.generation_id}"
            seconds = (self.broker.now_ms - self.born_ms) / 1000
            self.trace(f"{self.steps:5} {seconds:9.3f} s  {state:22} {text}")


def run(seed: int, steps: int, trace: Callable[[str], None] | None = None) -> World:
    """Play `steps` steps, heal the world, check that the group comes to rest; return the world."""
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
    """Run without faults until well-behaved clients form a Stable group of all members."""
    world.heal()
    room = world.broker.settings.max_size
    world.clients = world.clients[:room]
    for _ in range(200):
        for client in world.clients:
            world.steps += 1
            client.turn()
            world.check()
        world.broker.advance(1_000)
        world.check()
    group = world.broker.group
    assert group is not None, "the group is gone"
    assert group.state is STABLE, f"the group does not come to rest: {group!r}"
    assert len(group.membership.members) == len(world.clients), "strangers stay"
    world.broker.unload()
    assert not any(answer.parked for answer in world.broker.answers), "unanswered at the end"
