"""Writes the control records (markers) that end a transaction to all its partitions.

All brokers run in this process, so no WriteTxnMarkers request is sent. A write can fail on a disk
error, a partition without a leader, or an offsets partition that is loading. Such partitions are
retried until the marker is written or the partition is deleted. Source:
TransactionMarkerChannelManager, KafkaApis.handleWriteTxnMarkersRequest.
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
"""The partition was deleted, or a newer epoch of the producer or coordinator has ended the
transaction."""


class GroupMarkers(Protocol):
    """Ends transactions in a broker's groups; implemented by GroupCoordinator."""

    def end_transaction(
        self, index: int, end: EndTransaction, done: Callable[[ErrorCode], None]
    ) -> None:
        """Append the marker to an offsets partition and complete the groups' offsets."""


class Markers:
    """Writes transaction markers.

    `groups(node_id)` returns the group coordinator of a broker, or None if the broker is not
    running.
    """

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
        """Write the marker to each partition in `missing`, in steps, then call `done`.

        Partitions are removed from `missing` once the marker is written. All markers and `done` may
        complete before `write` returns. Writing stops without calling `done` when `is_current()` is
        False, because another coordinator has taken over.
        """
        _Ending(self, end, missing, is_current, done).run()

    def write_into(
        self,
        topic_partition: TopicPartition,
        end: EndTransaction,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Write the marker to one partition and call `done` with the result.

        `done` is called once the marker is flushed, if the topic's flush settings require a flush.
        """
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
    """Writes the markers of one transaction; `_missing` holds the partitions without a marker."""

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
        """Write the missing markers, or call `done` if there are none."""
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
