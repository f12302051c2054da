"""The common part of the consumer and streams group simulations: faults, time, topics, the log.

The world of one kind of group adds its clients and the invariants of its group. Every event follows
from the seed. A violation is an exception; `play` adds the command that reproduces it. See
docs/simulation.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from coordinator_server.core.caller import Caller
from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.settings import GroupKind
from protocol.errors import ErrorCode
from tests.harness.one_group import Answer, KilledError, OneGroupBroker, Watcher, next_deadline_ms
from tests.sim.invariants import check_group
from tests.sim.judge import CLIENT_ERRORS
from tests.sim.ledger import Ledger
from tests.sim.trace import show

if TYPE_CHECKING:
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.modern.modern_group import ModernGroup
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.settings import GroupSettings
    from protocol.schema import Message

E = ErrorCode
APPEND_ERRORS = list(CLIENT_ERRORS)
SHOWN_ERRORS = set(CLIENT_ERRORS.values())
RETRY_ERRORS = {E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.UNKNOWN_SERVER_ERROR}
MOST_PARTITIONS = 6
SETTLING_ROUNDS = 150
RETRY_MS = 500


class GroupClient(ABC):
    """A client with one request in flight at a time; it takes the response at its next turn."""

    patience = 0.9
    """The probability of an action per turn."""
    crash_rate = 0.0

    def __init__(self, world: GroupWorld, name: str) -> None:
        self.world = world
        self.broker = world.broker
        self.rng = world.rng
        self.name = name
        self.waiting: Answer | None = None
        self.is_unheard = False
        """Whether the request or its response gets lost on the way."""

    def turn(self) -> None:
        """Take the pending response and choose the next action."""
        if self.rng.random() < self.crash_rate:
            self.crash()
        if self.waiting is not None:
            if self.waiting.parked and not self.is_unheard:
                return
            answer, self.waiting = self.waiting, None
            if answer.lost or self.is_unheard:
                self.hear_nothing(answer.request)
            else:
                self.take(answer.request, answer.response)
        if self.rng.random() < self.patience:
            self.act()

    def ask(self, request: Message, version: int) -> None:
        """Send a request; its response may never come."""
        answer = Answer(request, caller=Caller(self.name, "/127.0.0.1", version))
        self.waiting = answer
        self.is_unheard = self.rng.random() < self.world.loss_rate
        if not self.is_unheard or self.rng.random() < 0.6:
            self.world.say(f"{self.name} asks {show(request)} v{version}")
            self.broker.deliver(answer)

    @abstractmethod
    def crash(self) -> None:
        """Become a new process."""

    @abstractmethod
    def act(self) -> None:
        """Choose the next action."""

    @abstractmethod
    def take(self, request: Any, response: Any) -> None:
        """Update the state of the client from a response."""

    @abstractmethod
    def hear_nothing(self, request: Any) -> None:
        """Handle a request that got no response, because one of the two was lost."""

    def calm_down(self) -> None:
        """From now on send only requests that the protocol demands, at every turn."""
        self.patience, self.crash_rate = 1.0, 0.0


class EpochMember(GroupClient):
    """A member that sends heartbeats at an epoch, with a new member id in each of its lives."""

    lives = 0
    member_id = ""

    def crash(self) -> None:
        """Become a new process with a new member id."""
        self.lives += 1
        self.member_id = f"{self.name}-{self.lives}"
        self.waiting = None
        self.abandon()

    @abstractmethod
    def abandon(self) -> None:
        """Drop the assignment and rejoin the group."""

    @abstractmethod
    def send(self, epoch: int, **fields: Any) -> None:
        """Send a heartbeat with the given epoch."""

    def lie(self, kind: type[ModernGroup], epochs: Sequence[int]) -> None:
        """Send a heartbeat with another member's id or an unknown id, and an unexpected epoch."""
        own_id = self.member_id
        group = self.broker.any_group
        others = [one for one in group.members if one != own_id] if isinstance(group, kind) else []
        self.member_id = self.rng.choice(["ghost", *others])
        try:
            self.send(self.rng.choice(epochs))
        finally:  # the member id is restored even if the broker is killed
            self.member_id = own_id
            self.waiting = None


class GroupWorld(Watcher, ABC):
    """The world of one seed. `step` lets one event happen and checks every invariant.

    Many worlds lack some kinds of `faults`, so that long quiet stretches occur as well.
    """

    clients: list[GroupClient]
    topics_grow = True
    """Whether topics get more partitions."""

    def __init__(
        self,
        seed: int,
        trace: Callable[[str], None] | None,
        settings: Callable[[Random], GroupSettings],
        topics: dict[str, int],
    ) -> None:
        self.rng = rng = Random(seed)
        self.trace = trace
        self.steps = 0
        self.broker = OneGroupBroker(settings(rng), dict(topics))
        self.born_ms = self.broker.now_ms
        self.broker.watcher = self
        self.broker.append_error = self._append_error
        self.broker.survivors = self._survivors
        self.broker.on_answer = self.answered
        self.ledger = Ledger(self.broker)
        self.append_failure_rate = rng.choice([0.0, 0.0, 0.0, 0.05])
        self.kill_rate = rng.choice([0.0, 0.0, 0.01])
        self.move_rate = rng.choice([0.0, 0.0, 0.01])
        self.loss_rate = rng.choice([0.0, 0.0, 0.05])
        self.topic_rate = rng.choice([0.0, 0.3, 1.0])
        self.has_failed = False
        """Whether an append failed in this step."""
        self.most_partitions = dict(topics)
        self.failed_at_ms = 0
        self.epoch = 0
        self.kind: GroupKind | None = None
        self.was_empty = True

    # Steps

    def step(self) -> None:
        """Let one event happen, then check every invariant."""
        self.steps += 1
        self.has_failed = False
        try:
            self._happen()
        except KilledError:
            self._crash("killed during an append")
        self.check()

    def _happen(self) -> None:
        chance = self.rng.random()
        if chance < 0.7:
            self.rng.choice(self.clients).turn()
        elif chance < 0.78:
            with self.broker.one_drain():
                for client in self.rng.choices(self.clients, k=self.rng.randrange(2, 5)):
                    client.turn()
        elif chance < 0.95:
            self._let_time_pass()
        elif chance < 0.97:
            if self.rng.random() < self.topic_rate:
                self._change_topics()
        elif chance < 0.99:
            if self.broker.is_coordinator:
                self.administrate()
        elif self.rng.random() < self.kill_rate * 50:
            self._crash("killed")
        if not self.broker.is_coordinator:
            if self.rng.random() < 0.2:
                self._arrive()
        elif self.rng.random() < self.move_rate:
            self.say("the coordinator moves away")
            self.broker.unload()

    def _let_time_pass(self) -> None:
        milliseconds = self.rng.choice([1, 100, 500, 1_000, 1_000, 3_000])
        group = self.broker.any_group
        if group is not None and self.rng.random() < 0.15:
            deadline_ms = next_deadline_ms(group.purgatory)
            if deadline_ms is not None:
                milliseconds = max(deadline_ms - self.broker.now_ms - self.rng.choice([0, 1]), 0)
        self.say(f"{milliseconds} ms pass")
        self.broker.advance(milliseconds)

    def _change_topics(self) -> None:
        """Create a topic, add partitions, or delete a topic."""
        topics = self.broker.topics
        name = self.rng.choice(["one", "two", "three", "four"])
        count = topics.counts.get(name, 0)
        if count == MOST_PARTITIONS or (count and self.rng.random() < 0.4):
            self.say(f"topic {name} is deleted")
            del topics.counts[name]
            topics.revision += 1
            self.topic_is_deleted(name)
            return
        # In this simulation, a recreated topic gets the id of the deleted topic, so it must not
        # have fewer partitions.
        least = self.most_partitions.get(name, 0)
        count_now = self.rng.randrange(least, MOST_PARTITIONS + 1) if self.topics_grow else least
        self.create_topic(name, count_now or 1)

    def create_topic(self, name: str, count: int) -> None:
        """Create a topic, or add partitions to it."""
        topics = self.broker.topics
        topics.revision += 1
        if name not in topics.counts:
            topics.created_revision = topics.revision
        self.most_partitions[name] = topics.counts[name] = count
        self.say(f"topic {name} has {count} partitions")

    def topic_is_deleted(self, name: str) -> None:
        """Drop the offsets of a deleted topic, as the broker does."""
        self.ledger.may_drop |= {(name, one) for one in range(MOST_PARTITIONS + 1)}
        if self.broker.is_coordinator:
            self.broker.delete_topics(name)

    @abstractmethod
    def administrate(self) -> None:
        """Describe or delete the group."""

    def delete_group(self) -> None:
        """Send DeleteGroups, which succeeds only for a group without members."""
        self.say("DeleteGroups")
        group = self.broker.any_group
        is_empty = group is not None and self.is_empty(group)
        self.ledger.may_drop |= self.ledger.places()
        answer = self.broker.delete()
        if answer.error is E.NONE:
            assert is_empty, "a group with members is deleted"
            assert self.broker.replayed().is_blank, "something of a deleted group is left"
            assert self.broker.any_group is None, "a deleted group lives on"
        else:
            assert not is_empty or self.broker.write_failed, f"not deleted: {answer.error.name}"

    def is_empty(self, group: Group) -> bool:
        """Return whether the group has no members, so that it can be deleted."""
        return not group.member_count and not group.is_new

    # Faults

    def _crash(self, how: str) -> None:
        self.say(how)
        self.ledger.may_drop = self.ledger.places()
        self.ledger.catch_up(may_hold_unanswered=True)
        self._forget_generation()
        self.broker.crash()
        self.forget()

    def _arrive(self) -> None:
        self.say("the coordinator has moved")
        self._forget_generation()
        self.broker.load()
        self.forget()

    def _forget_generation(self) -> None:
        """Forget the unrecorded generation.

        A classic group records its generation only after its members have synced.
        """
        if self.kind is GroupKind.CLASSIC:
            self.epoch = 0

    def forget(self) -> None:
        """Handle a reload of the group from its log: all sessions start again."""

    def _append_error(self) -> ErrorCode:
        if self.rng.random() >= self.append_failure_rate:
            return E.NONE
        error = self.rng.choice(APPEND_ERRORS)
        self.say(f"an append fails: {error.name}")
        return error

    def _survivors(self, count: int) -> int | None:
        """Return how many records survive a kill during an append: all or none.

        A torn batch is cut off.
        """
        if self.rng.random() >= self.kill_rate:
            return None
        return count if self.rng.random() < 0.5 else 0

    def heal(self) -> None:
        """Stop the faults."""
        self.append_failure_rate = self.kill_rate = self.move_rate = self.loss_rate = 0.0
        if not self.broker.is_coordinator:
            self._arrive()
        for client in self.clients:
            client.calm_down()

    # Broker callbacks

    def asked(self, answer: Answer, caller: Caller) -> None:
        """Note the expected response before a request is handled."""
        answer.note = self.expect(answer, self.broker.any_group)

    def appended(self, records: Sequence[CoordinatorRecord], error: ErrorCode) -> None:
        """Note a failed append and its time."""
        if error is not E.NONE:
            self.has_failed = True
            self.failed_at_ms = self.broker.now_ms

    @property
    def may_be_late(self) -> bool:
        """Return whether a timer may be late: a timer that failed fires again after 500 ms."""
        return self.broker.now_ms <= self.failed_at_ms + RETRY_MS

    def settled(self) -> None:
        """Check the epoch of the group after records were replayed."""
        self._check_epoch(self.broker.any_group)

    @abstractmethod
    def expect(self, answer: Answer, group: Group | None) -> Any:
        """Return the expected response, computed independently of the product."""

    def answered(self, answer: Answer) -> None:
        """Check a response as it is sent."""
        self.say(f"    -> {show(answer.response)}")
        self.ledger.answered(answer)
        if answer.note is not None and self.broker.is_coordinator:
            self.compare(answer)

    @abstractmethod
    def compare(self, answer: Answer) -> None:
        """Compare a response with the expected response."""

    # Invariants

    def check(self) -> None:
        """Check every invariant between two steps."""
        broker = self.broker
        self.ledger.catch_up()
        group = broker.any_group
        self.ledger.check_durable_state(group)
        if isinstance(group, GroupMetadata):
            check_group(group, broker.answers)
        else:
            assert not any(answer.parked for answer in broker.answers), "an answer is missing"
        self._check_epoch(group)
        if group is not None and not isinstance(group, GroupMetadata):
            self.check_members(group)
        if len(broker.answers) > 200:
            broker.answers = [one for one in broker.answers if one.parked]

    def _check_epoch(self, group: Group | None) -> None:
        """Check that the epoch of the group never falls, also when the group changes its kind.

        Only an Empty group that changes its kind starts at a new epoch.
        """
        if group is None:
            if self.broker.is_coordinator:
                self.epoch, self.kind, self.was_empty = 0, None, True
            return
        epoch = group.generation_id if isinstance(group, GroupMetadata) else self.epoch_of(group)
        if group.kind is self.kind or not self.was_empty:
            assert epoch >= self.epoch, f"the epoch falls from {self.epoch} to {epoch}"
        self.epoch, self.kind, self.was_empty = epoch, group.kind, not group.member_count

    @abstractmethod
    def epoch_of(self, group: Any) -> int:
        """Return the epoch of the group."""

    @abstractmethod
    def check_members(self, group: Any) -> None:
        """Check the invariants of the group, its members and its clients."""

    @abstractmethod
    def check_end(self) -> None:
        """Check the invariants of the healed world."""

    def say(self, text: str) -> None:
        """Print a line of the trace."""
        if self.trace is not None:
            seconds = (self.broker.now_ms - self.born_ms) / 1000
            self.trace(f"{self.steps:5} {seconds:9.3f} s  {self.broker.any_group!r:40} {text}")


W = TypeVar("W", bound=GroupWorld)


def play(
    make: Callable[[int, Callable[[str], None] | None], W],
    kind: str,
    seed: int,
    steps: int,
    trace: Callable[[str], None] | None = None,
) -> W:
    """Play `steps` steps, heal the world, check that the group comes to rest; return the world."""
    world = make(seed, trace)
    try:
        for _ in range(steps):
            world.step()
        world.heal()
        for _ in range(SETTLING_ROUNDS):
            for client in world.clients:
                world.steps += 1
                client.turn()
                world.check()
            world.broker.advance(1_000)
            world.check()
        world.check_end()
    except BaseException as error:
        command = f"python -m tests.sim --kind {kind} --seed {seed} --steps {steps} --trace"
        error.add_note(f"seed {seed}, step {world.steps}; to see it: {command}")
        raise
    return world
