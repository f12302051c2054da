"""Markers: the control records that end a transaction, into every partition that took part.

All brokers are in this process, so no WriteTxnMarkers goes over the network; what may fail is the
disk, a partition that has no leader, or one whose groups are being loaded. Such partitions are
tried again until they have their marker, or are gone. Source: TransactionMarkerChannelManager,
KafkaApis' handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from coordinator_server.events.log import LOG
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coordinator_server.clock.broker_clock import Clock, Scheduler
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.core.transactions.metadata import TopicPartition
    from coordinator_server.events.log import EventLog
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition
    from protocol.control_record import EndTransaction

_RETRY_MS = 100

_ENDED_OTHERWISE = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    )
)
"""The partition is gone, or a later incarnation of the producer or coordinator has ended it."""


class GroupMarkers(Protocol):
    """Ends the transaction for the groups of a broker: its GroupCoordinator."""

    def end_transaction(
        self, index: int, end: EndTransaction, done: Callable[[ErrorCode], None]
    ) -> None:
        """Write the marker into a partition of the offsets topic, and settle its groups."""


class Markers:
    """Writes markers. `groups(node_id)` are those of a broker, None if that does not run."""

    def __init__(
        self,
        topics: TopicManager,
        groups: Callable[[int], GroupMarkers | None],
        clock: Clock,
        scheduler: Scheduler,
        step_runner: StepRunner,
        *,
        log: EventLog = LOG,
    ) -> None:
        self.scheduler = scheduler
        self.step_runner = step_runner
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._log = log

    def write(
        self,
        end: EndTransaction,
        missing: set[TopicPartition],
        *,
        is_current: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        """Write the marker into each partition, some per step, and call `done` after the last.

        A partition that has its marker is removed from `missing`. All that may be before this
        returns. It ends without `done` once `is_current` says that another
        coordinator does it.
        """
        _Ending(self, end, missing, is_current, done).run()

    def write_into(
        self,
        topic_partition: TopicPartition,
        end: EndTransaction,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Write the marker into one partition, and call `done` once it survives what it has to."""
        partition = self._topics.partition(*topic_partition)
        if partition is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif topic_partition[0] == OFFSETS_TOPIC:
            groups = self._groups(partition.leader_id)
            if groups is None:
                done(ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                groups.end_transaction(partition.index, end, done)
        elif self._groups(partition.leader_id) is None:
            done(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            self._append(partition, end, done)

    def _append(
        self, partition: Partition, end: EndTransaction, done: Callable[[ErrorCode], None]
    ) -> None:
        try:
            partition.end_transaction(end, self._clock.now_ms())
        except StorageError as error:
            self._log.emit(
                "marker.failed",
                topic=partition.topic_name,
                partition=partition.index,
                producer_id=end.producer_id,
                error=error.code.name,
                reason=error.message,
            )
            done(error.code)
            return
        partition.after_flush(lambda error: done(ErrorCode.NONE if error is None else error.code))


class _Ending:
    """The markers of one transaction; `_missing` are the partitions that have none yet."""

    __slots__ = ("_done", "_end", "_is_current", "_is_retrying", "_markers", "_missing")

    def __init__(
        self,
        markers: Markers,
        end: EndTransaction,
        missing: set[TopicPartition],
        is_current: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        self._markers = markers
        self._end = end
        self._missing = missing
        self._is_current = is_current
        self._done = done
        self._is_retrying = False

    def run(self) -> None:
        """Write what is missing."""
        self._is_retrying = False
        if self._missing:
            self._markers.step_runner.run_now(self._steps())
        else:
            self._done()

    def _steps(self) -> Iterator[None]:
        for topic_partition in sorted(self._missing):
            if not self._is_current():
                return
            self._markers.write_into(
                topic_partition, self._end, partial(self._written, topic_partition)
            )
            yield

    def _written(self, topic_partition: TopicPartition, error: ErrorCode) -> None:
        if error is ErrorCode.NONE or error in _ENDED_OTHERWISE:
            if topic_partition in self._missing:
                self._missing.remove(topic_partition)
                if not self._missing and self._is_current():
                    self._done()
        elif not self._is_retrying and self._is_current():
            self._is_retrying = True
            self._markers.scheduler.call_later(_RETRY_MS / 1000, self.run)
