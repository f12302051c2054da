"""The partitions of a coordinator's topic that one broker leads: what it can serve, and since when.

A broker that becomes leader of a partition loads it in steps (immigration), one partition after the
other; one that ceases to lead it lets it go (emigration). Groups and transactional ids both live
in such partitions. Source: CoordinatorRuntime; TransactionStateManager's loading.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from coordinator_server.events.log import LOG
from protocol.errors import ErrorCode, ProtocolError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from coordinator_server.clock.broker_clock import BrokerClock, Clock
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.coordinator.coordinator_topic import CoordinatorTopic
    from coordinator_server.events.log import EventLog
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition
    from protocol.batch import EncodedBatch
    from storage.flush import Done


class PartitionState(Enum):
    """Whether the keys of a partition can be served (Kafka's CoordinatorState)."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


_ERROR_IN = {
    PartitionState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    PartitionState.ACTIVE: ErrorCode.NONE,
    PartitionState.FAILED: ErrorCode.NOT_COORDINATOR,
    PartitionState.CLOSED: ErrorCode.NOT_COORDINATOR,
}


class LedPartition:
    """What a coordinator has of a partition that its broker leads: the log, and its state.

    Subclasses set `topic`, the name of the coordinator's topic.
    """

    __slots__ = ("_clock", "_epoch", "_partition", "index", "state")

    topic: ClassVar[str]

    def __init__(self, partition: Partition, clock: Clock) -> None:
        self.index = partition.index
        self.state = PartitionState.LOADING
        self._partition = partition
        self._epoch = partition.epoch
        self._clock = clock

    def renew(self) -> None:
        """Take the leader epoch that the partition has now."""
        self._epoch = self._partition.epoch

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to load. False as well when the log cannot be opened."""
        try:
            log = self._partition.log
        except StorageError:
            return False
        return log.log_start_offset == log.log_end_offset

    @property
    def is_writable(self) -> bool:
        """False once another broker leads: its log must not get our records."""
        return self.state is not PartitionState.CLOSED and self._partition.epoch == self._epoch

    def append_batch(self, batch: EncodedBatch, now_ms: int) -> ErrorCode:
        """Append a batch. NONE, or the log's error."""
        try:
            self._partition.append_own(batch, now_ms)
        except StorageError as error:
            return self.failed(error)
        return ErrorCode.NONE

    def failed(self, error: StorageError) -> ErrorCode:
        """Log why the log refuses a write; returns the code."""
        LOG.emit(
            "log.failed",
            topic=self.topic,
            partition=self.index,
            error=error.code.name,
            reason=str(error),
        )
        return error.code

    @property
    def flush_is_due(self) -> bool:
        """Whether the last append must be synced before anything follows from it."""
        return self._partition.flush_is_due

    def when_flushed(self, done: Done) -> None:
        """Call `done` once the last append is synced, later."""
        self._partition.when_flushed(done)


L = TypeVar("L", bound=LedPartition)
S = TypeVar("S")


class LedPartitions(Generic[L, S]):
    """The partitions of `topic` that the broker `node_id` leads.

    `take_over(partition)` makes what the coordinator has of one. `load(led, loaded)` reads its log
    into `loaded`, by key, in steps; it may raise StorageError and ProtocolError. `serve(led,
    loaded, elapsed_ms)` follows once the partition is active. If one of them raises, the partition
    is not served, and the next is loaded. `keys` says in the log what lives in the partitions.
    """

    def __init__(
        self,
        topic: CoordinatorTopic,
        clock: BrokerClock,
        step_runner: StepRunner,
        *,
        node_id: int,
        keys: str,
        take_over: Callable[[Partition], L],
        load: Callable[[L, dict[str, S]], Steps],
        serve: Callable[[L, dict[str, S], int], None],
        log: EventLog = LOG,
    ) -> None:
        self._topic = topic
        self._clock = clock
        self._step_runner = step_runner
        self._node_id = node_id
        self._keys = keys
        self._take_over = take_over
        self._load = load
        self._serve = serve
        self._log = log
        self._by_index: dict[int, L] = {}
        self._seen: tuple[Partition, ...] = ()
        self._to_load: deque[L] = deque()
        self._is_load_scheduled = self._is_closed = False

    # --- life -------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take what this broker leads of a topic that it has not seen yet."""
        if self._seen is not self._topic.partitions:
            self._seen = self._topic.partitions
            for partition in self._seen:
                if partition.leader_id == self._node_id:
                    self.immigrate(partition)

    def immigrate(self, partition: Partition) -> None:
        """Begin to load a partition that this broker leads from now on."""
        if self._seen is not self._topic.partitions:
            self.look()  # which takes this partition with the others
            return
        if partition.index >= len(self._seen) or partition.index in self._by_index:
            return  # added later, so no key lives in it; or already taken by `look`
        assert partition.leader_id == self._node_id
        led = self._by_index[partition.index] = self._take_over(partition)
        if led.is_blank:
            led.state = PartitionState.ACTIVE
            return
        self._to_load.append(led)
        if not self._is_load_scheduled:
            self._is_load_scheduled = True
            self._step_runner.run(self._load_all())

    def renew(self, partition: Partition) -> None:
        """Let a partition that this broker goes on to lead be written at its new leader epoch."""
        led = self._by_index.get(partition.index)
        if led is not None:
            led.renew()

    def release(self, indexes: Iterable[int] | None = None) -> set[L]:
        """Give up partitions, all by default; the caller closes them."""
        chosen = tuple(self._by_index) if indexes is None else indexes
        return {self._by_index.pop(index) for index in chosen if index in self._by_index}

    def close(self) -> None:
        """No topic is created any more."""
        self._is_closed = True

    def _load_all(self) -> Iterator[None]:
        while self._to_load:
            yield from self._load_one(self._to_load.popleft())
        self._is_load_scheduled = False

    def _load_one(self, led: L) -> Iterator[None]:
        """Load one partition; its keys are served from then on, or refused if that fails."""
        started_ms = self._clock.now_ms()
        loaded: dict[str, S] = {}
        try:
            for _ in self._load(led, loaded):
                yield
                if led.state is PartitionState.CLOSED:
                    return  # emigrated meanwhile
            if led.state is PartitionState.CLOSED:
                return
            led.state = PartitionState.ACTIVE
            self._serve(led, loaded, self._clock.now_ms() - started_ms)
        except (StorageError, ProtocolError) as error:
            self._cannot_load(led, error)
        except Exception as error:  # error boundary: a bug costs this partition, not those after it
            self._cannot_load(led, error, is_bug=True)

    def _cannot_load(self, led: L, error: Exception, *, is_bug: bool = False) -> None:
        led.state = PartitionState.FAILED
        self._log.emit(
            "log.failed",
            topic=self._topic.name,
            partition=led.index,
            reason=f"its {self._keys} cannot be loaded: {error}",
            exc_info=is_bug,
        )

    # --- questions --------------------------------------------------------------------------------

    @property
    def is_loading(self) -> bool:
        """Whether some keys are not known yet because their partition is being loaded."""
        return any(led.state is PartitionState.LOADING for led in self._by_index.values())

    def active(self) -> list[L]:
        """The partitions that are served."""
        return [led for led in self._by_index.values() if led.state is PartitionState.ACTIVE]

    def ensure_topic(self) -> ErrorCode:
        """Create the topic if it does not exist. NONE, or why it cannot be created."""
        if self._is_closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._topic.ensure()
        self.look()
        return error

    def unavailable(self, key: str) -> ErrorCode:
        """Why a key cannot be served here now; NONE if it can."""
        error = self.ensure_topic()
        if error is not ErrorCode.NONE:
            return error
        _, error = self.at(self._topic.partition_of(key).index)
        return error

    def of(self, key: str) -> L:
        """The partition of a key that is served here."""
        return self._by_index[self._topic.partition_of(key).index]

    def at(self, index: int) -> tuple[L | None, ErrorCode]:
        """What is led at `index`, and why that cannot be served now."""
        led = self._by_index.get(index)
        return led, ErrorCode.NOT_COORDINATOR if led is None else _ERROR_IN[led.state]
