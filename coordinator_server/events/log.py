"""The log of the process: events of the vocabulary, written by structlog.

structlog is imported with the first event, to keep the start of the process fast. Guard DEBUG
events with the flag, which costs little when off: `if LOG.debug: LOG.emit(...)`.
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
"""The log level for each level of Kafka's loggers (LogLevelConfig)."""

ROOT_LOGGER = "root"
"""The name of the only logger that clients can describe and change (KIP-412)."""

LogFormat = Literal["console", "json"]


class EventLog:
    """The log of the process. `debug` tells whether events of level DEBUG are written."""

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
        """Set the format, the lowest level and the stream (None: standard error) of the log."""
        self.debug = level <= DEBUG
        self._format = log_format
        self._level = level
        self.kafka_level = next(name for name, one in KAFKA_LEVELS.items() if one == level)
        self._start_level = self.kafka_level
        self._repeats = Repeats()
        self._stream = stream
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
        # sys.stderr is None if the process was started with standard error closed.
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
    """Import structlog without rich, which is slow to import and not needed for tracebacks."""
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
