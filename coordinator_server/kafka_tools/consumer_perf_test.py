"""kafka-consumer-perf-test.sh: measure how fast records are read (Kafka's ConsumerPerformance)."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.kafka_tools.console import ended_by_sigterm
from coordinator_server.kafka_tools.console_consumer import READER_OPTIONS, new_consumer, subscribe
from coordinator_server.kafka_tools.frame import (
    NotHereError,
    ToolSpec,
    illegal_argument,
)
from coordinator_server.kafka_tools.options import Option, Options, UsageError
from coordinator_server.kafka_tools.properties import file_properties, key_values

if TYPE_CHECKING:
    from coordinator_server.kafka_tools.record_consumer import RecordConsumer

_CLIENT_ID = "perf-consumer-client"
_MEGABYTE = 1024 * 1024
_POLL_S = 0.1
_RANDOM_GROUPS = 100_000
_REPLACED = {"messages": "num-records", "consumer.config": "command-config"}
_COLUMNS = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms,"
    " fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)

OPTIONS = (
    *READER_OPTIONS,
    Option(
        "group", "The group to join. The default is a group with a random name.", argument="gid"
    ),
    Option(
        "fetch-size",
        "The bytes to fetch of a partition per request.",
        argument="size",
        kind="int",
        default="1048576",
    ),
    Option(
        "from-latest",
        "Start after the newest record of partitions without a committed offset, not "
        "with the oldest.",
    ),
    Option(
        "socket-buffer-size",
        "Accepted without effect.",
        argument="size",
        kind="int",
        default="2097152",
    ),
    Option(
        "num-records", "REQUIRED: the number of records to read.", argument="count", kind="long"
    ),
    Option("messages", "Deprecated name of --num-records.", argument="count", kind="long"),
    Option("command-property", "A consumer setting.", argument="prop1=val1"),
    Option(
        "print-metrics",
        "The metrics of the Java consumer.",
        instead="only the Java client has these metrics; use Apache Kafka's tool",
    ),
    Option("show-detailed-stats", "Print a line per interval instead of one line at the end."),
    Option("hide-header", "Print no column names."),
    Option(
        "reporting-interval",
        "The length of an interval in ms.",
        argument="interval_ms",
        kind="long",
        default="5000",
    ),
    Option(
        "timeout",
        "Stop if no record arrives for this time in ms.",
        argument="milliseconds",
        kind="long",
        default="10000",
        is_argument_optional=True,
    ),
    Option(
        "date-format",
        "The format of times, a pattern of java.text.SimpleDateFormat.",
        argument="date format",
        default="yyyy-MM-dd HH:mm:ss:SSS",
    ),
)


class _Test:
    """Reads records and prints lines of statistics. Times are seconds of `time.time`."""

    def __init__(
        self, consumer: RecordConsumer, format_time: Callable[[float], str], interval_s: float
    ) -> None:
        self._consumer = consumer
        self._format_time = format_time
        self._interval_s = interval_s
        self._start_s = self._reported_s = time.time()
        self._bytes = self._records = 0
        self._reported = (0, 0, 0.0)
        """Bytes, records and rebalance seconds at the last printed line."""

    def read(self, count: int, timeout_s: float, *, is_detailed: bool) -> None:
        """Read at least `count` records, in whole polls; warn if no more records arrive."""
        came_s = time.monotonic()
        while self._records < count:
            if time.monotonic() - came_s > timeout_s:
                print(
                    "WARNING: Exiting before consuming the expected number of records: timeout"
                    f" ({timeout_s * 1000:.0f} ms) exceeded. You can use the --timeout option to"
                    " increase the timeout."
                )
                return
            for fetched in self._consumer.poll(_POLL_S, 500):
                assert fetched.record is not None
                came_s = time.monotonic()
                self._records += 1
                self._bytes += len(fetched.record.key or b"") + len(fetched.record.value or b"")
            if is_detailed and time.time() - self._reported_s >= self._interval_s:
                self._report()

    def print_sum(self) -> None:
        """Print the line for the whole test."""
        end_s = time.time()
        times = f"{self._format_time(self._start_s)}, {self._format_time(end_s)}"
        self._print(times, end_s - self._start_s, (0, 0, 0.0))

    def _report(self) -> None:
        now_s = time.time()
        self._print(f"{self._format_time(now_s)}, 0", now_s - self._reported_s, self._reported)
        self._reported_s = now_s
        self._reported = self._bytes, self._records, self._consumer.rebalance_s

    def _print(self, start: str, elapsed_s: float, before: tuple[int, int, float]) -> None:
        """Print one line; its rates cover the records since `before`."""
        read_bytes, records = self._bytes - before[0], self._records - before[1]
        rebalance_s = self._consumer.rebalance_s - before[2]
        fetch_s = max(elapsed_s - rebalance_s, 0.001)
        elapsed_s = max(elapsed_s, 0.001)
        print(
            f"{start}, {self._bytes / _MEGABYTE:.4f}, {read_bytes / _MEGABYTE / elapsed_s:.4f}, "
            f"{self._records}, {records / elapsed_s:.4f}, {rebalance_s * 1000:.0f}, "
            f"{fetch_s * 1000:.0f}, {read_bytes / _MEGABYTE / fetch_s:.4f}, {records / fetch_s:.4f}"
        )


def run(options: Options) -> int:
    """Read a number of records, print the statistics and return the exit code."""
    _check_arguments(options)
    is_detailed = options.has("show-detailed-stats")
    if not options.has("hide-header"):
        print(("time, threadId, " if is_detailed else "start.time, end.time, ") + _COLUMNS)
    count = options.integer("messages" if options.has("messages") else "num-records") or 0
    timeout_ms = options.integer("timeout") if options.values("timeout") else 10_000
    interval_ms = options.integer("reporting-interval") or 0
    if interval_ms <= 0:
        illegal_argument("Reporting interval must be greater than 0.")
    format_time = date_format(options.value("date-format") or "")
    with ended_by_sigterm():
        consumer = _consumer(options)
        test = _Test(consumer, format_time, interval_ms / 1000)
        try:
            test.read(count, (timeout_ms or 0) / 1000, is_detailed=is_detailed)
            if not is_detailed:
                test.print_sum()
        finally:
            consumer.close()
    return 0


def _check_arguments(options: Options) -> None:
    """Reject invalid option combinations and warn of old names, in the order of Kafka's tool."""
    if options.has("topic") == options.has("include"):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if options.has("messages") == options.has("num-records"):
        names = "[messages], [num-records]"
        raise UsageError(f"Exactly one of the following arguments is required: {names}")
    options.required("bootstrap-server")
    options.excludes("consumer.config", "command-config")
    for old, new in _REPLACED.items():
        if options.has(old):
            print(f"Warning: --{old} is deprecated. Use --{new} instead.")


def _consumer(options: Options) -> RecordConsumer:
    """Return a consumer that has subscribed. Raises ToolError, NotHereError."""
    properties = file_properties(options, "consumer.config", "command-config")
    properties |= key_values(options.values("command-property"))
    group = options.value("group") or f"perf-consumer-{random.randrange(_RANDOM_GROUPS)}"
    properties |= {
        "group.id": group,
        "max.partition.fetch.bytes": options.value("fetch-size") or "",
        "auto.offset.reset": "latest" if options.has("from-latest") else "earliest",
    }
    consumer = new_consumer(options, properties, properties.setdefault("client.id", _CLIENT_ID))
    subscribe(consumer, options)
    return consumer


_LETTERS = "GyYMLwWDdFEuaHkKhmsSzZX"
_PART = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z])(?P=letter)*|[^A-Za-z']")
_NUMBERS: dict[str, Callable[[time.struct_time], int]] = {
    "y": lambda at: at.tm_year,
    "M": lambda at: at.tm_mon,
    "d": lambda at: at.tm_mday,
    "H": lambda at: at.tm_hour,
    "h": lambda at: at.tm_hour % 12 or 12,
    "m": lambda at: at.tm_min,
    "s": lambda at: at.tm_sec,
}


def date_format(pattern: str) -> Callable[[float], str]:
    """Return a function that formats a time in seconds by a java.text.SimpleDateFormat pattern.

    Supported letters are numeric date and time fields, S (milliseconds) and a (AM/PM). Raises
    ToolError for an invalid letter, NotHereError for another letter of SimpleDateFormat.
    """
    parts: list[str | tuple[str, int]] = []
    for match in _PART.finditer(pattern):
        letter = match["letter"]
        if letter is None:
            quoted = match["quoted"]
            parts.append(match[0] if quoted is None else quoted.replace("''", "'") or "'")
        elif letter not in _LETTERS:
            illegal_argument(f"Illegal pattern character '{letter}'")
        elif (letter not in _NUMBERS and letter not in "Sa") or match[0].startswith("MMM"):
            raise NotHereError(
                f"--date-format: {match[0]} is not here; use y, M, d, H, h, m, s, S and a"
            )
        else:
            parts.append((letter, len(match[0])))
    return partial(_formatted, parts)


def _formatted(parts: list[str | tuple[str, int]], at_s: float) -> str:
    at = time.localtime(at_s)
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        letter, width = part
        if letter == "a":
            text += "AM" if at.tm_hour < 12 else "PM"
        else:
            value = int(at_s * 1000) % 1000 if letter == "S" else _NUMBERS[letter](at)
            value = value % 100 if part == ("y", 2) else value
            text += f"{value:0{width}}"
    return text


TOOL = ToolSpec(
    "kafka-consumer-perf-test",
    OPTIONS,
    run,
    "This tool is used to verify the consumer performance.",
)
