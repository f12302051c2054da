"""The log of the process: events of the vocabulary, written by structlog.

structlog is imported with the first event, to keep the start of the process fast. Guard DEBUG
events with the flag, which costs little when off: `if LOG.debug: LOG.emit(...)`.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, TextIO

from coordinator_server.events.vocabulary import DEBUG, ERROR, INFO, VOCABULARY, WARNING, EventType

PERIOD_SECONDS = 10.0

_MOST_KINDS = 1000
_VOLUME_FULL = tuple(f"[Errno {number}]" for number in (errno.ENOSPC, errno.EDQUOT))


class _Period:
    """Numbers of logged and of suppressed events of one kind since `start_s`."""

    __slots__ = ("left_out", "start_s", "written")

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.written = 1
        self.left_out = 0


class Repeats:
    """Decides which repeated events are written, and counts the events left out.

    A full disk fails every write of every client: one line each would fill the disk of the log.

    Events are of one kind if they have the same name and the same values in the fields of
    `EventType.kind`. Events about a full volume are of one kind if their names are equal, because a
    full volume affects all partitions. `now` returns seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._periods: dict[object, _Period] = {}

    def count(self, name: str, event_type: EventType, fields: Mapping[str, Any]) -> int | None:
        """Count an event; return None to leave the event out.

        Otherwise return how many events of this kind were left out in the previous period.
        """
        kind, now_s = _kind(name, event_type, fields), self._now()
        period = self._periods.get(kind)
        if period is not None and now_s < period.start_s + PERIOD_SECONDS:
            if period.written < event_type.most_in_period:
                period.written += 1
                return 0
            period.left_out += 1
            return None
        if period is None and len(self._periods) == _MOST_KINDS:
            del self._periods[next(iter(self._periods))]
        self._periods[kind] = _Period(now_s)
        return 0 if period is None else period.left_out


def _kind(name: str, event_type: EventType, fields: Mapping[str, Any]) -> object:
    reason = str(fields.get("reason", ""))
    full = next((marker for marker in _VOLUME_FULL if marker in reason), None)
    if full is not None:
        return name, full
    return name, *(str(fields.get(field)) for field in event_type.kind or event_type.fields)


KAFKA_LEVELS = {
    "DEBUG": DEBUG,
    "ERROR": ERROR,
    "FATAL": ERROR,
    "INFO": INFO,
    "TRACE": DEBUG,
    "WARN": WARNING,
}
"""The log level for each level of Kafka's loggers (LogLevelConfig)."""

ROOT_LOGGER = "root"
"""The name of the only logger that clients can describe and change (KIP-412)."""

Mirror = Callable[[int, str, Mapping[str, Any]], None]
LogFormat = Literal["console", "json"]


class EventLog:
    """The log of the process. `debug` tells whether events of level DEBUG are written."""

    __slots__ = (
        "_format",
        "_level",
        "_mirror",
        "_repeats",
        "_start_level",
        "_stream",
        "_write",
        "debug",
        "kafka_level",
    )

    def __init__(self) -> None:
        self.debug = False
        self._level = INFO
        self.kafka_level = self._start_level = "INFO"
        self._repeats = Repeats()
        self._format: LogFormat = "console"
        self._stream: TextIO | None = None
        self._write: Any = None
        self._mirror: Mirror | None = None

    def configure(
        self, log_format: LogFormat = "console", level: int = INFO, stream: TextIO | None = None
    ) -> None:
        """Set the format, the lowest level and the stream (None: standard error) of the log."""
        self.debug = level <= DEBUG
        self._format = log_format
        self._level = level
        self.kafka_level = next(
            name for name, kafka_level in KAFKA_LEVELS.items() if kafka_level == level
        )
        self._start_level = self.kafka_level
        self._repeats = Repeats()
        self._stream = stream
        self._write = None

    def mirror(self, mirror: Mirror | None) -> None:
        """Also pass the events that are written to a function (level, event, fields)."""
        self._mirror = mirror
        self._write = None

    def set_level(self, kafka_level: str) -> None:
        """Write events of this level and above; the level is a name in KAFKA_LEVELS."""
        self.kafka_level = kafka_level
        self._level = KAFKA_LEVELS[kafka_level]
        self.debug = self._level <= DEBUG

    def reset_level(self) -> None:
        """Restore the level that `configure` set."""
        self.set_level(self._start_level)

    def emit(self, event: str, **fields: Any) -> None:
        """Write one event of the vocabulary, unless its level is too low.

        `exc_info=True` adds the traceback of the exception being handled. Write errors, such as a
        closed pipe or a full disk, are ignored and the event is lost.
        """
        event_type = VOCABULARY[event]
        if event_type.level < self._level:
            return
        if event_type.most_in_period:
            left_out = self._repeats.count(event, event_type, fields)
            if left_out is None:
                return
            if left_out:
                fields["left_out"] = left_out
        if self._write is None:
            self._write = self._open()
        with suppress(OSError):
            self._write(event_type.level, event, **fields)

    def _open(self) -> Any:
        structlog = _structlog()
        # sys.stderr is None if the process was started with its standard error closed.
        stream = self._stream or sys.stderr or open(os.devnull, "w")  # noqa: SIM115
        renderer: Any
        if self._format == "json":
            renderer = structlog.processors.JSONRenderer(default=str)
        else:
            renderer = structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        processors: list[Any] = [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ]
        if self._format == "json":
            processors.insert(2, structlog.processors.format_exc_info)
        logger = structlog.wrap_logger(
            structlog.WriteLogger(stream),
            processors=processors,
            wrapper_class=structlog.make_filtering_bound_logger(DEBUG),
            cache_logger_on_first_use=True,
        )
        write, mirror = logger.bind().log, self._mirror
        if mirror is None:
            return write

        def write_and_mirror(level: int, event: str, **fields: Any) -> None:
            mirror(level, event, fields)
            write(level, event, **fields)

        return write_and_mirror


def _structlog() -> Any:
    """Import structlog without rich, which is slow to import and not needed for tracebacks."""
    is_hidden = "rich" not in sys.modules
    if is_hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]  # prevents the import of rich
    try:
        import structlog
    finally:
        if is_hidden:
            del sys.modules["rich"]
    return structlog


LOG = EventLog()
"""The log of this process."""
