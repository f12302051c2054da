"""The SharePersister of this process: calls the share coordinator of the responsible broker.

All brokers run in this process, so no request goes over the network. Retriable errors, such as a
partition that is loading or has no leader, are retried for as long as in Kafka. Source:
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
"""Kafka also retries UNKNOWN_TOPIC_OR_PARTITION, because its brokers may not know a topic yet."""

_FIRST_DELAY_MS = 20
_LONGEST_DELAY_MS = 1000
PATIENCE_MS = 15_000
"""Total retry time before the error is returned. Kafka makes five attempts, 1, 2, 4 and 8 s apart;
here attempts are cheaper and therefore more frequent."""


A = TypeVar("A", bound="StateOutcome | ShareState | ShareStateSummary")


class LocalSharePersister:
    """A `SharePersister` that calls share coordinators of this process.

    `coordinator(node_id)` returns the share coordinator of a broker, or None if the broker is not
    running. `scheduler` runs retries.
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
        """Initialize the state at its coordinator, with retries; see `SharePersister`."""
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
        """Read the state from its coordinator, with retries; see `SharePersister`."""
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
        """Write changes of the state at its coordinator, with retries; see `SharePersister`."""
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
        """Delete the state at its coordinator, with retries; see `SharePersister`."""
        self._ask(
            key,
            lambda coordinator, answer: coordinator.delete(key, answer),
            StateOutcome,
            lambda outcome: done(outcome.error),
        )

    def read_summary(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareStateSummary], None]
    ) -> None:
        """Read the state without its batches, with retries; see `SharePersister`.

        The leader epoch is ignored, as in Kafka.
        """
        self._ask(
            key,
            lambda coordinator, answer: coordinator.read_summary(key, answer),
            ShareStateSummary,
            done,
        )

    def close(self) -> None:
        """Fail pending and future requests with COORDINATOR_NOT_AVAILABLE."""
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
        """Return the coordinator of a share partition or an error; create the topic if needed."""
        if self._is_closed:
            return None, ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._topic.ensure()
        if error is not ErrorCode.NONE:
            return None, error
        leader_id = self._topic.partition_of(coordinator_key(key)).leader_id
        return self._coordinator(leader_id), ErrorCode.COORDINATOR_NOT_AVAILABLE

    def retry(self, call: Callable[[], None], delay_ms: int) -> Timer | None:
        """Schedule a retry; return None after `close`."""
        if self._is_closed:
            return None
        return self._scheduler.call_later(delay_ms / 1000, call)


class _AnyQuestion(Protocol):
    """A queued request with any response type."""

    def ask(self) -> None:
        """Send the request, or send it again."""

    def hurry(self) -> None:
        """Run a scheduled retry now."""


class _Line:
    """The queue of requests for one share partition, sent one after the other.

    `forget` is called when the queue is empty. Queued requests share one retry budget,
    `waited_ms`: requests behind a request that exhausted the budget get a single attempt. With a
    separate budget of 15 s for each request, the last of many requests would wait too long.
    """

    __slots__ = ("_forget", "_is_asking", "_is_running", "_questions", "waited_ms")

    def __init__(self, forget: Callable[[], object]) -> None:
        self._questions: deque[_AnyQuestion] = deque()
        self._is_asking = self._is_running = False
        self._forget = forget
        self.waited_ms = 0

    def add(self, question: _AnyQuestion) -> None:
        """Queue a request; it is sent when earlier requests have a response."""
        self._questions.append(question)
        self._run()

    def answered(self, tell: Callable[[], None]) -> None:
        """Remove the first request, report its response with `tell`, and send the next request."""
        self._questions.popleft()
        try:
            tell()  # the callback may add requests, which are queued behind waiting requests
        finally:
            self._is_asking = False
        self._run()

    def hurry(self) -> None:
        """Run the scheduled retry of the first request now, if there is one."""
        self._questions[0].hurry()

    def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._questions and not self._is_asking:
                self._is_asking = True
                self._questions[0].ask()
        finally:  # an exception in a callback must not block the queue
            self._is_running = False
        if not self._questions:
            self._forget()


class _Question(Generic[A]):
    """A request that is retried until it succeeds or the retry budget is used up."""

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
        """Send the request, or send it again."""
        self._timer = None
        self._attempt(self._take)

    def hurry(self) -> None:
        """Run a scheduled retry now."""
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
