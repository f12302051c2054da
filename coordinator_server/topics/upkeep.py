"""What the logs need from time to time, done in small steps between requests.

A round over all partitions (compaction, syncing of sealed segments, checkpoints, removal of deleted
topics' files) begins every `log.cleaner.backoff.ms` or `log.retention.check.interval.ms`, whichever
is shorter; old records are deleted in the rounds that the latter asks for. A round is cut into
slices of a few milliseconds, so that no client waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coordinator_server.clock import Clock
from coordinator_server.config import Config
from coordinator_server.events import LOG
from storage.apart import Pause
from storage.errors import StorageError
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from storage.maintenance import Event, Step

SLICE_MS = 2
PAUSE_MS = 8
"""How long a slice of a round lasts, and the pause behind it that belongs to the clients."""

WAIT_MS = 2
"""The pause while the disk syncs something in another thread."""

FIRST_ROUND_DELAY_MS = 1000
"""When the round of the start begins: not before the first clients are served."""

FIRST_RETENTION_DELAY_MS = 30_000
"""When old records are first deleted: who restores old data has a moment to say how long to keep
it (Kafka's log.initial.task.delay.ms)."""

FREQUENT_MS = 1000
"""Between two looks at what cannot wait for a round: `flush.ms`, the size of the offsets log."""


class Upkeep:
    """The background work on one data directory."""

    __slots__ = (
        "_clock",
        "_frequent_due_ms",
        "_interval_ms",
        "_is_starting",
        "_logs",
        "_retention_due_ms",
        "_retention_interval_ms",
        "_round_due_ms",
        "_steps",
    )

    def __init__(self, logs: LogManager, config: Config, clock: Clock) -> None:
        self._logs = logs
        self._clock = clock
        self._retention_interval_ms = config.integer("log.retention.check.interval.ms")
        self._interval_ms = min(
            config.integer("log.cleaner.backoff.ms"), self._retention_interval_ms
        )
        self._steps: Iterator[Step] | None = None
        now_ms = clock.now_ms()
        self._round_due_ms = now_ms + min(FIRST_ROUND_DELAY_MS, self._interval_ms)
        first_ms = min(FIRST_RETENTION_DELAY_MS, self._retention_interval_ms)
        self._retention_due_ms = now_ms + first_ms
        self._frequent_due_ms = now_ms + FREQUENT_MS
        self._is_starting = True

    def step(self) -> int:
        """Work for one slice; in how many milliseconds the next step is wanted."""
        self.report_recovery()
        started_ms = self._clock.now_ms()
        if self._steps is None:
            due_ms = min(self._round_due_ms, self._frequent_due_ms)
            if started_ms < due_ms:
                return due_ms - started_ms
            self._steps = self._begin(started_ms)
        for event in self._steps:
            if event is Pause.WAITING:
                return WAIT_MS
            if event is not None:
                _report(event)
            if self._clock.now_ms() - started_ms >= SLICE_MS:
                return PAUSE_MS
        self._steps = None
        return max(min(self._round_due_ms, self._frequent_due_ms) - started_ms, 0)

    def _begin(self, now_ms: int) -> Iterator[Step]:
        """A round, or what comes between rounds."""
        # Imported late: a broker that starts does not need the cleaner.
        from storage.maintenance import frequent_steps, maintenance_steps

        self._frequent_due_ms = now_ms + FREQUENT_MS
        if now_ms < self._round_due_ms:
            return frequent_steps(self._logs, now_ms)
        self._round_due_ms = now_ms + self._interval_ms
        starting, self._is_starting = self._is_starting, False
        retention = now_ms >= self._retention_due_ms
        if retention:
            self._retention_due_ms = now_ms + self._retention_interval_ms
        return maintenance_steps(self._logs, now_ms, starting=starting, retention=retention)

    def report_recovery(self) -> None:
        """Say what had to be cut from logs that were opened since the last call."""
        reports = self._logs.recovery_reports
        for report in reports:
            LOG.emit(
                "log.recovered",
                topic=report.topic,
                partition=report.partition,
                offset=report.offset,
                bytes_cut=report.bytes_cut,
                reason=report.reason,
                file=report.file,
            )
        reports.clear()


def _report(event: Event) -> None:
    if isinstance(event, StorageError):
        LOG.emit("log.failed", reason=event.message)
    elif LOG.debug:
        name = "log.compacted" if hasattr(event, "bytes_after") else "segments.deleted"
        LOG.emit(name, **event._asdict())
