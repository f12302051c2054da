"""A topic and its partitions: their logs, their leaders, and the wake-up of waiting fetches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Event
from typing import NamedTuple

from coordinator_server.topics.names import is_internal
from protocol.batch import EncodedBatch, end_transaction_batch
from protocol.batch_header import BatchHeader
from protocol.control_record import EndTransaction
from protocol.errors import ErrorCode
from storage.append_check import check_client_batch
from storage.disk import Buffer
from storage.errors import StorageError, UnknownPartitionError
from storage.flush import Done
from storage.log_manager import LogManager
from storage.partition_log import AppendResult, PartitionLog
from storage.retention import advance_log_start_offset
from storage.topic_catalogue import PartitionLeadership

CheckedBatch = tuple[BatchHeader, bytes]
Leaderships = tuple[PartitionLeadership, ...]


class BatchCheck:
    """The check of a client's batch in a worker thread, and the check's result or error."""

    def __init__(self, partition: Partition, records: Buffer, now_ms: int) -> None:
        self.partition = partition
        self._stop = Event()
        log = partition.log
        self._check = partial(
            check_client_batch,
            records,
            log.config,
            now_ms,
            log.topic,
            log.partition,
            is_cancelled=self._stop.is_set,
        )
        self._batch: CheckedBatch | None = None
        self._error: Exception | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether the caller has cancelled the check."""
        return self._stop.is_set()

    def cancel(self) -> None:
        """Make `run` end soon."""
        self._stop.set()

    def run(self) -> None:
        """Do the check, in the thread. Stores the result or error for `result`.

        Unexpected exceptions are stored and also raised in the thread.
        """
        if self.is_cancelled:
            return
        try:
            self._batch = self._check()
        except (OSError, MemoryError) as error:
            reason = str(error) or "out of memory"
            self._error = StorageError(f"a batch could not be checked: {reason}")
        except Exception as error:
            self._error = error
            raise

    def result(self) -> CheckedBatch:
        """Return the checked batch. Raises the error of the check."""
        if self._error is not None:
            raise self._error
        assert self._batch is not None, "the check has not run"
        return self._batch


class Reassignment(NamedTuple):
    """The replicas that an unfinished reassignment adds and removes."""

    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class Partition:
    """One partition: its log, its leader, and the wake-up of waiting fetches.

    Partitions are keys of the fetch purgatory. `leader_id` is -1 while the partition has no leader.
    `epoch` rises with each change of leader; the leader epoch is the larger of `epoch` and the
    log's epoch (see `leader_epoch`). `reassignment` is None unless a reassignment is unfinished.
    """

    __slots__ = (
        "_changed",
        "_log",
        "_logs",
        "epoch",
        "index",
        "is_deleted",
        "leader_id",
        "reassignment",
        "replicas",
        "topic_name",
    )

    def __init__(
        self,
        topic_name: str,
        index: int,
        leadership: PartitionLeadership,
        logs: LogManager,
        changed: Callable[[Partition], None],
    ) -> None:
        self.topic_name = topic_name
        self.index = index
        self.leader_id, self.epoch, self.replicas, adding, removing = leadership
        self.reassignment = Reassignment(adding, removing) if adding or removing else None
        self._logs = logs
        self._log: PartitionLog | None = None
        self._changed = changed
        self.is_deleted = False

    @property
    def log(self) -> PartitionLog:
        """The log, opened on first use and again after a disk error has closed it.

        Raises StorageError when the log cannot be opened.
        """
        log = self._log
        if log is None or log.closed:
            if self.is_deleted:  # do not open the log of a newer topic with the same name
                raise UnknownPartitionError(f"{self.topic_name} is deleted")
            log = self._log = self._logs.log(self.topic_name, self.index)
            self._mark_epoch(log)
        return log

    @property
    def leader_epoch(self) -> int:
        """The leader epoch. Raises StorageError as `log` does."""
        return self.log.leader_epoch

    @property
    def known_epoch(self) -> int:
        """The leader epoch, or -1 when the log cannot be opened."""
        try:
            return self.log.leader_epoch
        except StorageError:
            return -1

    @property
    def known_log_start_offset(self) -> int:
        """The log start offset, or -1 when the log cannot be opened."""
        try:
            return self.log.log_start_offset
        except StorageError:
            return -1

    def begin_leadership(self, leader_id: int) -> None:
        """Set the leader (-1: none) and begin a new leader epoch."""
        try:
            log = self.log
        except StorageError:
            self.epoch += 1  # the log gets the new epoch as soon as it can be opened
        else:
            self.epoch = max(self.epoch, log.leader_epoch) + 1
            self._mark_epoch(log)
        self.leader_id = leader_id

    def _mark_epoch(self, log: PartitionLog) -> None:
        if log.leader_epoch < self.epoch:
            # The epoch is valid even if its checkpoint cannot be written: batches contain the
            # epoch, and the topic catalogue stores it.
            with suppress(OSError):
                log.begin_leader_epoch(self.epoch)

    def append(self, records: Buffer, now_ms: int, *, may_block: bool = True) -> AppendResult:
        """Append a client's batch and wake waiting fetches.

        Raises StorageError, and LongCheckError as the log's `append` does.
        """
        result = self.log.append(records, now_ms, may_block=may_block)
        self._changed(self)
        return result

    def check_in_thread(
        self, records: Buffer, now_ms: int, done: Callable[[BatchCheck], None]
    ) -> None:
        """Check a client's batch in a worker thread, then call `done` in the event loop.

        The callback of a cancelled check is not called.
        """
        flusher = self._logs.flusher
        assert flusher is not None, "there are no threads"
        check = BatchCheck(self, records, now_ms)
        flusher.check(check, partial(done, check))

    @property
    def has_threads(self) -> bool:
        """Whether worker threads are available for long checks."""
        return self._logs.flusher is not None

    def append_checked(self, check: BatchCheck, now_ms: int) -> AppendResult:
        """Append the batch of `check_in_thread` and wake waiting fetches.

        Raises StorageError, and the error of the check.
        """
        result = self.log.append_checked(check.result(), now_ms)
        self._changed(self)
        return result

    def append_own(self, batch: EncodedBatch, now_ms: int) -> AppendResult:
        """Append a batch that the broker built and wake waiting fetches. Raises StorageError."""
        result = self.log.append_own(batch, now_ms)
        if batch.key_set is not None:
            self.log.key_sets.add(result.base_offset, batch.key_set)
        self._changed(self)
        return result

    def end_transaction(self, end: EndTransaction, now_ms: int) -> AppendResult:
        """Append a transaction marker (commit or abort) and wake waiting fetches.

        The marker is written even if the producer has no open transaction here, as in Kafka.
        Raises InvalidProducerEpochError, TransactionCoordinatorFencedError, StorageError.
        """
        self.log.producers.check_end(end)
        return self.append_own(end_transaction_batch(end, now_ms), now_ms)

    @property
    def flush_is_due(self) -> bool:
        """Whether the last append must be synced to disk before its response is sent."""
        return self._log is not None and self._log.flush_is_due

    def delete_records(self, offset: int) -> int:
        """Delete the records below `offset` and return the new log start offset.

        Raises OffsetOutOfRangeError.
        """
        first = advance_log_start_offset(self.log, offset)
        self._changed(self)
        return first

    def when_flushed(self, done: Done) -> None:
        """Call `done` later, once the last append is synced."""
        flusher = self._logs.flusher
        assert self._log is not None, "nothing was appended"
        assert flusher is not None, "the log was to sync it"
        flusher.when_flushed(self._log, done)

    def after_flush(self, done: Done) -> None:
        """Call `done(None or the error)` when the response to the last append can be sent.

        The call is immediate unless a sync is due.
        """
        if self.flush_is_due:
            self.when_flushed(done)
        else:
            done(None)

    def leader_epoch_error(self, leader_epoch: int) -> ErrorCode:
        """Return the error for a client's leader epoch, or NONE; -1 means unknown (KIP-320)."""
        if leader_epoch == -1 or leader_epoch == self.log.leader_epoch:
            return ErrorCode.NONE
        if leader_epoch < self.log.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH


class Topic:
    """One topic; `configs` has its own configs, without the broker's defaults."""

    __slots__ = ("configs", "is_internal", "name", "partitions", "topic_id")

    def __init__(
        self, name: str, topic_id: bytes, configs: Mapping[str, str], partitions: list[Partition]
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = configs
        self.partitions = partitions
        self.is_internal = is_internal(name)

    def leadership(self) -> Leaderships:
        """Return the leadership of each partition in the form that is stored on disk."""
        return tuple(
            PartitionLeadership(
                partition.leader_id,
                partition.epoch,
                partition.replicas,
                *(partition.reassignment or ()),
            )
            for partition in self.partitions
        )
