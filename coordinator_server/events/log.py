"""The log of the process: events of the vocabulary, written by structlog.

structlog is imported when the first event is written: a quiet start does not pay for it. An event
of level DEBUG costs one boolean where it is off: `if LOG.debug: LOG.emit(...)`.
"""

import os
import sys
from contextlib import suppress
from typing import Any, Literal, TextIO

from coordinator_server.events.repeats import Repeats
from coordinator_server.events.vocabulary import DEBUG, ERROR, INFO, VOCABULARY, WARNING

KAFKA_LEVELS = {
    "DEBUG": DEBUG,
    "ERROR": ERROR,
    "FATAL": ERROR,
    "INFO": INFO,
    "TRACE": DEBUG,
    "WARN": WARNING,
}
"""The levels of Kafka's loggers (LogLevelConfig), and those of the log that stand for them."""

ROOT_LOGGER = "root"
"""The name of the only logger that clients can describe and change (KIP-412)."""

LogFormat = Literal["console", "json"]


class EventLog:
    """The log of the process. `debug` is whether events of level DEBUG are written."""

    __slots__ = (
        "_format",
        "_level",
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

    def configure(
        self, log_format: LogFormat = "console", level: int = INFO, stream: TextIO | None = None
    ) -> None:
        """Set form, least level and stream (standard error if none) of what follows."""
        self.debug = level <= DEBUG
        self._format = log_format
        self._level = level
        self.kafka_level = next(name for name, one in KAFKA_LEVELS.items() if one == level)
        self._start_level = self.kafka_level
        self._repeats = Repeats()
        self._stream = stream
        self._write = None

    def set_level(self, kafka_level: str) -> None:
        """Write events of this level and above from now on, by a name in KAFKA_LEVELS."""
        self.kafka_level = kafka_level
        self._level = KAFKA_LEVELS[kafka_level]
        self.debug = self._level <= DEBUG

    def reset_level(self) -> None:
        """Restore the level that `configure` set."""
        self.set_level(self._start_level)

    def emit(self, event: str, **fields: Any) -> None:
        """Write one event of the vocabulary, unless its level is too low.

        `exc_info=True` adds the traceback of the exception being handled. A line that cannot be
        written, to a closed pipe or a full disk, is lost: nothing stops because of its log.
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
        # Python has no sys.stderr when the process was started with it closed.
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
        return logger.bind().log


def _structlog() -> Any:
    """structlog without rich, most of its import, for tracebacks that are written plainly here."""
    is_hidden = "rich" not in sys.modules
    if is_hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        import structlog
    finally:
        if is_hidden:
            del sys.modules["rich"]
    return structlog


LOG = EventLog()
"""The log of this process."""
