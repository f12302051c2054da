"""CoordinatorPartition: a partition of a coordinator's topic on its leader."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from coordinator_server.events.log import LOG
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.topics.topic import Partition
    from protocol.batch import EncodedBatch
    from storage.flush import Done


class PartitionState(Enum):
    """Load state of a coordinator partition (Kafka's CoordinatorState)."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class CoordinatorPartition:
    """The log of one partition, and whether its keys can be served.

    Subclasses set `topic`, the name of the coordinator's topic. `failure` is the reason why the
    last load has failed, `failed_loads` the number of such loads in a row.
    """

    __slots__ = ("_clock", "_epoch", "_partition", "failed_loads", "failure", "index", "state")

    topic: ClassVar[str]

    def __init__(self, partition: Partition, clock: Clock) -> None:
        self.index = partition.index
        self.state = PartitionState.LOADING
        self.failure, self.failed_loads = "", 0
        self._partition = partition
        self._epoch = partition.epoch
        self._clock = clock

    def renew(self) -> None:
        """Adopt the current leader epoch of the partition."""
        self._epoch = self._partition.epoch

    @property
    def is_blank(self) -> bool:
        """Whether the log is empty; False if the log cannot be opened."""
        try:
            log = self._partition.log
        except StorageError:
            return False
        return log.log_start_offset == log.log_end_offset

    @property
    def is_writable(self) -> bool:
        """Whether this broker still leads the partition and may append to its log."""
        return self.state is not PartitionState.CLOSED and self._partition.epoch == self._epoch

    def append_batch(
        self,
        batch: EncodedBatch,
        now_ms: int,
        replay: Callable[[int], None] | None = None,
    ) -> ErrorCode:
        """Append a batch and call `replay(base offset)`; return NONE or the error of the log.

        Returns NOT_LEADER_OR_FOLLOWER if another broker has become leader.
        """
        if not self.is_writable:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        try:
            base_offset = self._partition.append_own(batch, now_ms).base_offset
        except StorageError as error:
            return self.failed(error)
        if replay is not None:
            replay(base_offset)
        return ErrorCode.NONE

    def failed(self, error: StorageError) -> ErrorCode:
        """Log a failed write and return its error code."""
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
        """Whether the last append must be flushed before a response is sent."""
        return self._partition.flush_is_due

    def when_flushed(self, done: Done) -> None:
        """Call `done` later, once the last append is flushed."""
        self._partition.when_flushed(done)

    def after_flush(self, done: Done) -> None:
        """Call `done(None or the error)` when the last append is durable enough to respond.

        `done` is called immediately unless a flush is due.
        """
        self._partition.after_flush(done)
