"""CoordinatorRuntime: the base of the coordinators of groups, transactional ids and share state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from coordinator_server.runtime.partition import CoordinatorPartition, PartitionState
from protocol.coordinator_errors import client_error
from protocol.errors import ErrorCode, ProtocolError
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.events.log import EventLog
    from coordinator_server.runtime.topic import CoordinatorTopic
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition, Topic

_ERROR_IN = {
    PartitionState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    PartitionState.ACTIVE: ErrorCode.NONE,
    PartitionState.FAILED: ErrorCode.NOT_COORDINATOR,
    PartitionState.CLOSED: ErrorCode.NOT_COORDINATOR,
}

FIRST_RETRY_SECONDS, MOST_RETRY_SECONDS = 1.0, 30.0
"""Pause after the first failed load of a partition, and the limit to which the pause doubles."""

P = TypeVar("P", bound=CoordinatorPartition)
S = TypeVar("S")


class Decision(Protocol):
    """The decision of a core: a response and the record to write before the response is sent."""

    @property
    def record(self) -> Any:
        """The record to append; None if nothing changes."""


D = TypeVar("D", bound=Decision)


class CoordinatorRuntime(ABC, Generic[P, S]):
    """Keeps keys in the partitions of `topic` that the broker `node_id` leads.

    `P` is the coordinator's partition class, `S` the loaded state of one key. A broker that becomes
    leader of a partition loads it (immigration), one partition at a time; a broker that loses
    leadership unloads it (emigration). A partition whose log cannot be read, for example on a full
    disk, is loaded again after a pause; Kafka waits for a change of the leader. Subclasses set
    `keys`, the name of their keys in log messages.
    """

    keys: str

    def __init__(
        self,
        clock: BrokerClock,
        step_runner: StepRunner,
        topics: TopicManager,
        topic: CoordinatorTopic,
        *,
        node_id: int,
        log: EventLog,
    ) -> None:
        self.clock = clock
        self.step_runner = step_runner
        self.log = log
        self._topics = topics
        self._topic = topic
        self._node_id = node_id
        self._timers: dict[Callable[[], None], Timer] = {}
        self._partitions: dict[int, P] = {}
        self._seen: tuple[Partition, ...] = ()
        self._to_load: deque[P] = deque()
        self._is_load_scheduled = self._is_stopped = False

    # --- abstract methods -------------------------------------------------------------------------

    @abstractmethod
    def take_over(self, partition: Partition) -> P:
        """Return the coordinator's object for a partition that its broker now leads."""

    @abstractmethod
    def _load(self, partition: P, loaded: dict[str, S]) -> Steps:
        """Read the log of a partition into `loaded`, by key. Raises StorageError, ProtocolError."""

    @abstractmethod
    def _serve(self, partition: P, loaded: dict[str, S], elapsed_ms: int) -> None:
        """Serve the keys of a loaded partition."""

    @abstractmethod
    def _unload(self, closing: set[P]) -> None:
        """Close the partitions in `closing` and drop their keys."""

    @abstractmethod
    def _forget(self, topics: Mapping[str, Topic]) -> None:
        """Drop the state of deleted topics."""

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start loading the partitions that this broker leads."""
        self._topics.on_deleted.append(self._on_topics_deleted)
        self._look()

    def stop(self) -> None:
        """Unload every partition, cancel maintenance, and refuse further requests."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._topics.on_deleted.remove(self._on_topics_deleted)
        self.emigrate_all()

    def immigrate(self, partition: Partition) -> None:
        """Start loading a partition that this broker now leads."""
        if self._seen is not self._topic.partitions:
            self._look()  # calls `immigrate` again for this partition
            return
        if partition.index >= len(self._seen) or partition.index in self._partitions:
            return  # a partition added later has no keys; any other is already known
        assert partition.leader_id == self._node_id
        taken = self._partitions[partition.index] = self.take_over(partition)
        if taken.is_blank:
            taken.state = PartitionState.ACTIVE
            return
        self._to_load.append(taken)
        if not self._is_load_scheduled:
            self._is_load_scheduled = True
            self.step_runner.run(self._load_all())

    def renew(self, partition: Partition) -> None:
        """Adopt the new leader epoch of a partition that this broker still leads."""
        taken = self._partitions.get(partition.index)
        if taken is not None:
            taken.renew()

    def emigrate(self, index: int) -> None:
        """Unload the keys of a partition that another broker now leads.

        Pending requests for these keys are answered with NOT_COORDINATOR.
        """
        self._release((index,))

    def emigrate_all(self) -> None:
        """Unload every partition, as `emigrate` does."""
        self._release(tuple(self._partitions))

    def _release(self, indexes: Iterable[int]) -> None:
        partitions = self._partitions
        self._unload({partitions.pop(index) for index in indexes if index in partitions})

    def _on_topics_deleted(self, topics: Mapping[str, Topic]) -> None:
        if self._topic.name in topics:
            self.emigrate_all()
        self._forget(topics)

    def _repeat(self, work: Callable[[], None], interval_ms: int) -> None:
        """Schedule maintenance work at this interval."""
        due = partial(self._do_and_repeat, work, interval_ms)
        self._timers[work] = self.clock.call_maintenance(interval_ms / 1000, due)

    def _do_and_repeat(self, work: Callable[[], None], interval_ms: int) -> None:
        work()
        self._repeat(work, interval_ms)

    # --- loading ----------------------------------------------------------------------------------

    def _look(self) -> None:
        """Take over the led partitions of a topic that was created since the last call."""
        if self._seen is not self._topic.partitions:
            self._seen = self._topic.partitions
            for partition in self._seen:
                if partition.leader_id == self._node_id:
                    self.immigrate(partition)

    def _load_all(self) -> Iterator[None]:
        while self._to_load:
            yield from self._load_one(self._to_load.popleft())
        self._is_load_scheduled = False

    def _load_one(self, partition: P) -> Iterator[None]:
        """Load one partition; afterwards its keys are served, or refused if loading failed."""
        started_ms = self.clock.now_ms()
        loaded: dict[str, S] = {}
        try:
            for _ in self._load(partition, loaded):
                yield
                if partition.state is PartitionState.CLOSED:
                    return  # leadership moved during the load
            if partition.state is PartitionState.CLOSED:
                return
            partition.state = PartitionState.ACTIVE
            self._serve(partition, loaded, self.clock.now_ms() - started_ms)
        except (StorageError, ProtocolError) as error:
            self._cannot_load(partition, error)
        except Exception as error:  # error boundary: a bug fails only this partition
            self._cannot_load(partition, error, is_bug=True)

    def _cannot_load(self, partition: P, error: Exception, *, is_bug: bool = False) -> None:
        partition.state, partition.failure = PartitionState.FAILED, str(error) or repr(error)
        if isinstance(error, StorageError):
            self._retry(partition)
        self.log.emit(
            "log.failed",
            topic=self._topic.name,
            partition=partition.index,
            reason=f"its {self.keys} cannot be loaded: {error}",
            exc_info=is_bug,
        )

    def _retry(self, partition: P) -> None:
        """Load a partition again later, by the machine's time: the broker's time may be frozen."""
        pause_s = min(FIRST_RETRY_SECONDS * 2**partition.failed_loads, MOST_RETRY_SECONDS)
        partition.failed_loads += 1
        self.step_runner.run_later(pause_s, self._load_again(partition))

    def _load_again(self, partition: P) -> Steps:
        if partition.state is PartitionState.FAILED:  # not closed meanwhile
            partition.state = PartitionState.LOADING
            yield from self._load_one(partition)

    # --- lookups ----------------------------------------------------------------------------------

    @property
    def is_loading(self) -> bool:
        """Whether any partition is still loading."""
        return any(
            partition.state is PartitionState.LOADING for partition in self._partitions.values()
        )

    def active(self) -> list[P]:
        """Return the partitions that are loaded and served."""
        return [
            partition
            for partition in self._partitions.values()
            if partition.state is PartitionState.ACTIVE
        ]

    def ensure_topic(self) -> ErrorCode:
        """Create the topic if needed; return NONE or the error."""
        if self._is_stopped:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._topic.ensure()
        self._look()
        return error

    def partition_index(self, key: str) -> int:
        """Return the index of the partition that a key hashes to. The topic must exist."""
        return self._topic.partition_of(key).index

    def coordinator_of(self, key: str) -> int:
        """Return the id of the broker that serves a key, or -1. The topic must exist."""
        return self._topic.partition_of(key).leader_id

    def partition_of(self, key: str) -> tuple[P | None, ErrorCode]:
        """Return the partition of a key, or None, and the error if it cannot be served now.

        The topic is created if needed; in Kafka, only FindCoordinator creates the topic.
        """
        error = self.ensure_topic()
        if error is not ErrorCode.NONE:
            return None, error
        return self.partition_at(self.partition_index(key))

    def partition_at(self, index: int) -> tuple[P | None, ErrorCode]:
        """Return the partition at `index`, or None, and the error if it cannot be served now."""
        partition = self._partitions.get(index)
        if partition is None:
            return None, ErrorCode.NOT_COORDINATOR
        return partition, _ERROR_IN[partition.state]

    def why_unavailable(self, index: int) -> str:
        """Return why the partition at `index` is not served by this broker; "" if it is served."""
        if not self._is_stopped:
            self._look()  # the topic may have been created since the last request
        partition, error = self.partition_at(index)
        if error is ErrorCode.NONE:
            return ""
        if partition is None or not partition.failure:
            return f"{error.name}: {self._topic.name}-{index}: {error.message}"
        again = "it is loaded again by itself" if partition.failed_loads else "see the broker's log"
        what = f"{self._topic.name}-{index} cannot be loaded: {partition.failure}"
        return f"{error.name}: {what}; {again}"

    def unavailable(self, key: str) -> ErrorCode:
        """Return the error for a key that this broker cannot serve now, or NONE."""
        return self.partition_of(key)[1]

    # --- requests ---------------------------------------------------------------------------------

    def carry_out(
        self,
        partition: P,
        decision: D,
        append: Callable[[Any], ErrorCode],
        done: Callable[[D, ErrorCode, str], None],
    ) -> None:
        """Append the decided record, and call `done(decision, error, reason)` once it is durable.

        `append` writes the record and makes it the state. `error` is the code for the client.
        After a failed flush the record is still in the log, so the client gets an error for a
        change that took effect.
        """
        if decision.record is not None:
            error = append(decision.record)
            if error is not ErrorCode.NONE:
                done(decision, client_error(error), error.message)
                return

        def on_flushed(error: StorageError | None) -> None:
            if error is None:
                done(decision, ErrorCode.NONE, "")
            else:
                done(decision, client_error(error.code), str(error))

        partition.after_flush(on_flushed)
