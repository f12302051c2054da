"""The SharePersister of this process: it asks the broker that keeps a share partition.

All brokers are in this process, so nothing goes over the network. What is not there yet, such as a
partition that is being loaded or has no leader, is asked again for as long as Kafka does. Source:
DefaultStatePersister, PersisterStateManager.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from coordinator_server.core.share_partitions.persister import ShareState, ShareStateSummary
from coordinator_server.core.share_state.coordinator_key import coordinator_key
from coordinator_server.core.share_state.shard import StateOutcome, StateWrite
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coordinator_server.clock.broker_clock import Scheduler, Timer
    from coordinator_server.coordinator.share_coordinator import ShareCoordinator
    from coordinator_server.core.share_partitions.persister import SharePartitionKey, StateBatch
    from coordinator_server.runtime.topic import CoordinatorTopic

_RETRIED = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""Kafka retries UNKNOWN_TOPIC_OR_PARTITION as well, as its brokers may not know a topic yet."""

_FIRST_DELAY_MS = 20
_LONGEST_DELAY_MS = 1000
PATIENCE_MS = 15_000
"""When the error is answered. Kafka asks five times, 1, 2, 4 and 8 s apart; to ask costs less
here."""


A = TypeVar("A", bound="StateOutcome | ShareState | ShareStateSummary")


class LocalSharePersister:
    """A `SharePersister`. `coordinator(node_id)` is that of a broker, None if that does not run.

    `scheduler` is for what is asked again.
    """

    def __init__(
        self,
        topic: CoordinatorTopic,
        coordinator: Callable[[int], ShareCoordinator | None],
        scheduler: Scheduler,
    ) -> None:
        self._topic = topic
        self._coordinator = coordinator
        self._scheduler = scheduler
        self._lines: dict[SharePartitionKey, _Line] = {}
        self._is_closed = False

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """As `SharePersister.initialize`."""
        self._ask(
            key,
            lambda coordinator, answer: coordinator.initialize(
                key, state_epoch, start_offset, answer
            ),
            StateOutcome,
            lambda outcome: done(outcome.error),
        )

    def read(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareState], None]
    ) -> None:
        """As `SharePersister.read`."""
        self._ask(
            key,
            lambda coordinator, answer: coordinator.read(key, leader_epoch, answer),
            ShareState,
            done,
        )

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """As `SharePersister.write`."""
        write = StateWrite(
            state_epoch, leader_epoch, start_offset, delivery_complete_count, batches
        )
        self._ask(
            key,
            lambda coordinator, answer: coordinator.write(key, write, answer),
            StateOutcome,
            lambda outcome: done(outcome.error),
        )

    def delete(self, key: SharePartitionKey, done: Callable[[ErrorCode], None]) -> None:
        """As `SharePersister.delete`."""
        self._ask(
            key,
            lambda coordinator, answer: coordinator.delete(key, answer),
            StateOutcome,
            lambda outcome: done(outcome.error),
        )

    def read_summary(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareStateSummary], None]
    ) -> None:
        """As `SharePersister.read_summary`. Kafka does not look at the leader epoch either."""
        self._ask(
            key,
            lambda coordinator, answer: coordinator.read_summary(key, answer),
            ShareStateSummary,
            done,
        )

    def close(self) -> None:
        """Answer what waits, and what comes, with COORDINATOR_NOT_AVAILABLE."""
        self._is_closed = True
        for line in tuple(self._lines.values()):
            line.hurry()

    def _ask(
        self,
        key: SharePartitionKey,
        ask: Callable[[ShareCoordinator, Callable[[A], None]], None],
        failed: Callable[[ErrorCode], A],
        done: Callable[[A], None],
    ) -> None:
        def attempt(answered: Callable[[A], None]) -> None:
            coordinator, error = self._find(key)
            if coordinator is None:
                answered(failed(error))
            else:
                ask(coordinator, answered)

        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(partial(self._lines.pop, key))
        line.add(_Question(self, line, attempt, done))

    def _find(self, key: SharePartitionKey) -> tuple[ShareCoordinator | None, ErrorCode]:
        """The coordinator of a share partition. The topic is made when it is first needed."""
        if self._is_closed:
            return None, ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._topic.ensure()
        if error is not ErrorCode.NONE:
            return None, error
        leader_id = self._topic.partition_of(coordinator_key(key)).leader_id
        return self._coordinator(leader_id), ErrorCode.COORDINATOR_NOT_AVAILABLE

    def retry(self, call: Callable[[], None], delay_ms: int) -> Timer | None:
        """Call later; None if nothing is asked again any more."""
        if self._is_closed:
            return None
        return self._scheduler.call_later(delay_ms / 1000, call)


class _AnyQuestion(Protocol):
    """A question, whatever its answer is."""

    def ask(self) -> None:
        """Ask, perhaps again."""

    def hurry(self) -> None:
        """Ask now what was to be asked later."""


class _Line:
    """What is asked about one share partition, one after the other. `forget` is for the end.

    The questions share their patience, `waited_ms`: those behind one that was given up are asked
    once, else the last of many would be answered after many times 15 s.
    """

    __slots__ = ("_forget", "_is_asking", "_is_running", "_questions", "waited_ms")

    def __init__(self, forget: Callable[[], object]) -> None:
        self._questions: deque[_AnyQuestion] = deque()
        self._is_asking = self._is_running = False
        self._forget = forget
        self.waited_ms = 0

    def add(self, question: _AnyQuestion) -> None:
        """Ask it when those before it are answered."""
        self._questions.append(question)
        self._run()

    def answered(self, tell: Callable[[], None]) -> None:
        """The first one is answered; `tell` says so. Those behind it are asked then."""
        self._questions.popleft()
        try:
            tell()  # what is asked from within stays behind those that wait
        finally:
            self._is_asking = False
        self._run()

    def hurry(self) -> None:
        """Ask the first one again now, if it waits to be."""
        self._questions[0].hurry()

    def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._questions and not self._is_asking:
                self._is_asking = True
                self._questions[0].ask()
        finally:  # a bug of who is answered must not silence the others
            self._is_running = False
        if not self._questions:
            self._forget()


class _Question(Generic[A]):
    """A question, asked until there is an answer or no patience left."""

    __slots__ = ("_attempt", "_delay_ms", "_done", "_line", "_persister", "_timer")

    def __init__(
        self,
        persister: LocalSharePersister,
        line: _Line,
        attempt: Callable[[Callable[[A], None]], None],
        done: Callable[[A], None],
    ) -> None:
        self._persister = persister
        self._line = line
        self._attempt = attempt
        self._done = done
        self._timer: Timer | None = None
        self._delay_ms = _FIRST_DELAY_MS

    def ask(self) -> None:
        """Ask, perhaps again."""
        self._timer = None
        self._attempt(self._take)

    def hurry(self) -> None:
        """Ask now what was to be asked later."""
        if self._timer is not None:
            self._timer.cancel()
            self.ask()

    def _take(self, answer: A) -> None:
        if answer.error not in _RETRIED:
            self._line.waited_ms = 0
        elif self._line.waited_ms < PATIENCE_MS:
            self._timer = self._persister.retry(self.ask, self._delay_ms)
            if self._timer is not None:
                self._line.waited_ms += self._delay_ms
                self._delay_ms = min(2 * self._delay_ms, _LONGEST_DELAY_MS)
                return
        self._line.answered(partial(self._done, answer))
