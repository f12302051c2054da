"""The maintenance of the logs, in small steps between requests.

A round over all partitions (compaction, syncing of sealed segments, checkpoints, removal of deleted
topics' files) starts every `log.cleaner.backoff.ms` or `log.retention.check.interval.ms`, whichever
is shorter. Retention runs in a round when `log.retention.check.interval.ms` has passed. Between
rounds, the broker's own logs (of internal topics) are checked and compacted several times a second,
and idle producer ids expire every `producer.id.expiration.check.interval.ms`.

The work is cut into slices of a millisecond, so that clients do not wait. While a large part of the
own logs is dirty, slices grow and pauses shrink: under a maximal load of commits, compaction gets
up to half of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from coordinator_server.clock.broker_clock import Clock
from coordinator_server.config.config import Config
from coordinator_server.events.log import LOG
from storage.errors import StorageError
from storage.log_manager import LogManager
from storage.retention import DeletedSegment
from storage.worker import Pause

if TYPE_CHECKING:
    from coordinator_server.clock.broker_clock import BrokerClock, Timer
    from storage.maintenance import Event, Step
    from storage.own_logs import OwnLogs


SLICE_MS = 1
PAUSE_MS = 4
"""Length of a slice of work, and of the pause after it, in which clients are served."""

PRESSED_SLICE_MS = 20
"""Longest slice, used when the own logs approach twice their live data. Syncs then run in the slice
instead of a thread, because a busy event loop handles results of threads late. This is the
back-pressure on clients that commit faster than the log can be compacted."""

UNPRESSED_SHARE = 0.35
PRESSED_SHARE = 0.55
"""Ratio of dirty to clean bytes in the own logs (`OwnLogs.dirty_share`): slices are short up to the
first value and longest from the second value on."""

WAIT_MS = 2
"""Pause while a sync runs in another thread."""

FIRST_ROUND_DELAY_MS = 1000
"""Delay of the first round, so that the first clients are served before it."""

FIRST_RETENTION_DELAY_MS = 30_000
"""Delay of the first retention check (Kafka's log.initial.task.delay.ms), which leaves time to
configure the retention of restored old data."""

FREQUENT_MS = 1000
"""Interval of checks for `flush.ms`, and for own logs while none of them is open."""

OWN_LOGS_MS = 250
BUSY_OWN_LOGS_MS = 50
"""Interval of checks of the own logs, and the interval after a check that has found work."""


class MaintenanceScheduler:
    """Schedules the background work on one data directory.

    `clock` determines when a round is due. `timer_s()` measures slices: CPU time of this thread in
    seconds, so that the share of compaction does not depend on other load of the machine.
    """

    __slots__ = (
        "_clock",
        "_config",
        "_ended_s",
        "_frequent",
        "_frequent_due_ms",
        "_is_starting",
        "_logs",
        "_own_logs",
        "_own_logs_due_ms",
        "_pressure",
        "_pressure_due_ms",
        "_producers_due_ms",
        "_producers_interval_ms",
        "_retention_due_ms",
        "_retention_interval_ms",
        "_round",
        "_round_due_ms",
        "timer_s",
    )

    def __init__(
        self,
        logs: LogManager,
        config: Config,
        clock: Clock,
        timer_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._logs = logs
        self._clock = clock
        self.timer_s = timer_s
        self._config = config
        self._retention_interval_ms = config.integer("log.retention.check.interval.ms")
        self._producers_interval_ms = config.integer("producer.id.expiration.check.interval.ms")
        self._own_logs: OwnLogs | None = None
        # `_frequent`: remaining steps of the frequent work, which runs first. `_round`: remaining
        # steps of the current round.
        self._frequent: Iterator[Step] | None = None
        self._round: Iterator[Step] | None = None
        self._ended_s = timer_s()
        self._pressure = 0.0
        now_ms = clock.now_ms()
        self._round_due_ms = now_ms + min(FIRST_ROUND_DELAY_MS, self._interval_ms)
        first_ms = min(FIRST_RETENTION_DELAY_MS, self._retention_interval_ms)
        self._retention_due_ms = now_ms + first_ms
        self._frequent_due_ms = self._own_logs_due_ms = now_ms + FREQUENT_MS
        self._pressure_due_ms = now_ms
        self._producers_due_ms = now_ms + self._producers_interval_ms
        self._is_starting = True

    @property
    def is_working(self) -> bool:
        """Whether a round or frequent work is in progress."""
        return self._round is not None or self._frequent is not None

    @property
    def _interval_ms(self) -> int:
        """The time between two rounds in ms, by the current settings."""
        return min(self._config.integer("log.cleaner.backoff.ms"), self._retention_interval_ms)

    def settings_changed(self) -> None:
        """Move the next round forward if the interval has become shorter."""
        self._round_due_ms = min(self._round_due_ms, self._clock.now_ms() + self._interval_ms)

    def clock_set_back(self, elapsed_ms: int) -> None:
        """Move all due times after the clock was set back by `elapsed_ms`."""
        self._round_due_ms -= elapsed_ms
        self._retention_due_ms -= elapsed_ms
        self._frequent_due_ms -= elapsed_ms
        self._own_logs_due_ms -= elapsed_ms
        self._pressure_due_ms -= elapsed_ms
        self._producers_due_ms -= elapsed_ms
        self._logs.unsynced_since_ms.clear()

    def step(self) -> int:
        """Work for one slice; return the milliseconds until the next slice."""
        self.report_recovery()
        now_ms = self._clock.now_ms()
        self._begin_what_is_due(now_ms)
        if self.is_working:
            started_s = self.timer_s()
            end_s = started_s + self._slice_s(now_ms, started_s)
            self._logs.use_threads(self._pressure < 1)
            for steps in (self._frequent, self._round):
                if steps is not None and self._work(steps, end_s):
                    break
            self._logs.use_threads(True)
            self._ended_s = self.timer_s()
            if self.is_working:
                is_over = self._ended_s >= end_s
                return round(PAUSE_MS * (1 - self._pressure)) if is_over else WAIT_MS
        return max(self._due_ms - now_ms, 0)

    @property
    def _due_ms(self) -> int:
        """The time when the next work is due."""
        return min(
            self._round_due_ms,
            self._frequent_due_ms,
            self._own_logs_due_ms,
            self._producers_due_ms,
        )

    def _work(self, steps: Iterator[Step], end_s: float) -> bool:
        """Run steps until the slice ends, a step waits for the disk, or no step is left.

        Returns whether the slice has ended.
        """
        for event in steps:
            if event is Pause.WAITING:
                return False
            if event is not None:
                _report(event)
            if self.timer_s() >= end_s:
                return True
        if steps is self._round:
            self._round = None
        else:
            self._frequent = None
        return False

    def _slice_s(self, now_ms: int, started_s: float) -> float:
        """Return the length of the next slice in seconds.

        If the dirty share of the own logs reaches its limit, the slice is as long as the time since
        the last slice. So compaction gets half of the time even of a busy event loop.
        """
        if self._own_logs is not None and now_ms >= self._pressure_due_ms:
            self._pressure_due_ms = now_ms + BUSY_OWN_LOGS_MS
            share = self._own_logs.dirty_share(now_ms) - UNPRESSED_SHARE
            self._pressure = min(max(share / (PRESSED_SHARE - UNPRESSED_SHARE), 0.0), 1.0)
        pressed_s = min(self._pressure * (started_s - self._ended_s), PRESSED_SLICE_MS / 1000)
        return max(SLICE_MS / 1000, pressed_s)

    def _begin_what_is_due(self, now_ms: int) -> None:
        if self._due_ms > now_ms:
            return
        # Imported here to keep the start of the broker fast.
        from storage.maintenance import expiry_steps, flush_ms_steps, maintenance_steps
        from storage.own_logs import OwnLogs

        own_logs = self._own_logs = self._own_logs or OwnLogs(self._logs)
        if self._round is None and now_ms >= self._round_due_ms:
            # The round includes the frequent work, so postpone that.
            self._frequent_due_ms = now_ms + FREQUENT_MS
            if not own_logs.are_open:
                self._own_logs_due_ms = now_ms + FREQUENT_MS
            self._round_due_ms = now_ms + self._interval_ms
            starting, self._is_starting = self._is_starting, False
            retention = now_ms >= self._retention_due_ms
            if retention:
                self._retention_due_ms = now_ms + self._retention_interval_ms
            self._round = maintenance_steps(
                self._logs, now_ms, starting=starting, retention=retention
            )
        if self._frequent is not None:
            return
        frequent: list[Iterator[Step]] = []
        if now_ms >= self._own_logs_due_ms:
            due = own_logs.due(now_ms)
            if due:
                frequent.append(own_logs.steps(due, now_ms))
            wait_ms = OWN_LOGS_MS if own_logs.are_open else FREQUENT_MS
            self._own_logs_due_ms = now_ms + (BUSY_OWN_LOGS_MS if due else wait_ms)
        if now_ms >= self._frequent_due_ms:
            self._frequent_due_ms = now_ms + FREQUENT_MS
            frequent.append(flush_ms_steps(self._logs, now_ms))
        if now_ms >= self._producers_due_ms:
            self._producers_due_ms = now_ms + self._producers_interval_ms
            frequent.append(expiry_steps(self._logs, now_ms))
        if frequent:
            self._frequent = chain(*frequent)

    def report_recovery(self) -> None:
        """Log each truncation that recovery did in logs opened since the last call."""
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
    elif not LOG.debug:
        return
    elif isinstance(event, DeletedSegment):
        LOG.emit(
            "segment.deleted",
            topic=event.topic,
            partition=event.partition,
            base_offset=event.base_offset,
            size_bytes=event.size_bytes,
            reason=event.reason,
        )
    else:
        LOG.emit(
            "log.compacted",
            topic=event.topic,
            partition=event.partition,
            first_dirty_offset=event.first_dirty_offset,
            bytes_before=event.bytes_before,
            bytes_after=event.bytes_after,
        )


FAILED_MAINTENANCE_DELAY_MS = 1000
"""Delay before maintenance continues after an error outside any one log."""


class Maintained(Protocol):
    """Logs that need maintenance; implemented by TopicManager."""

    @property
    def is_in_maintenance(self) -> bool:
        """Whether a round of maintenance has begun and is not finished."""

    def maintenance_step(self) -> float:
        """Do one step of maintenance; return the delay before the next step in ms."""


class MaintenanceTimer:
    """Calls `maintenance_step` of `maintained` whenever a step is due, after `start`."""

    def __init__(
        self, maintained: Maintained, clock: BrokerClock, machine_clock: BrokerClock
    ) -> None:
        self._maintained = maintained
        self._clock = clock
        self._machine_clock = machine_clock
        self._timer: Timer | None = None

    def start(self) -> None:
        """Do one step and set the timer for the next step.

        A failing step ends its round; the next round still runs.
        """
        delay_ms: float = FAILED_MAINTENANCE_DELAY_MS
        try:
            delay_ms = self._maintained.maintenance_step()
        # For example, an import failed because no file descriptor was free.
        except OSError as error:
            LOG.emit("log.failed", reason=f"maintenance is interrupted: {error}")
        finally:
            # The next step within a round is timed by the machine's clock. The next round is timed
            # by the broker's clock, which may be virtual.
            is_working = self._maintained.is_in_maintenance
            call = self._machine_clock.call_later if is_working else self._clock.call_maintenance
            self._timer = call(delay_ms / 1000, self.start)

    def stop(self) -> None:
        """Cancel the next step."""
        if self._timer is not None:
            self._timer.cancel()
