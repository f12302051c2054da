"""Shared parts of the console tools: signals, warnings, formatter options, output."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

from coordinator_server.client import ClientError
from coordinator_server.kafka_tools.formatters import DEFAULT, Formatter, make_formatter
from coordinator_server.kafka_tools.frame import (
    NETWORK_CLIENT,
    Failure,
    ToolError,
    print_stack_trace,
)
from coordinator_server.kafka_tools.java import log
from coordinator_server.kafka_tools.options import Option, Options, UsageError
from coordinator_server.kafka_tools.properties import file_properties, key_values
from protocol.errors import ErrorCode

T = TypeVar("T")

_PROPERTY_HELP = (
    "print.timestamp, print.key, print.offset, print.partition, print.headers, print.value,"
    " print.delivery, print.epoch (true or false), key.separator, line.separator,"
    " headers.separator, null.literal, key.deserializer, value.deserializer,"
    " headers.deserializer."
)
FORMATTER = Option(
    "formatter", "The class that formats records.", argument="class", default=DEFAULT
)
FORMATTER_PROPERTY = Option(
    "formatter-property", f"A formatter property: {_PROPERTY_HELP}", argument="prop"
)
PROPERTY = Option("property", "Deprecated name of --formatter-property.", argument="prop")
FORMATTER_CONFIG = Option(
    "formatter-config", "A properties file for the formatter.", argument="config file"
)
DESERIALIZERS = (
    Option("key-deserializer", "The deserializer class of keys.", argument="deserializer for key"),
    Option(
        "value-deserializer",
        "The deserializer class of values.",
        argument="deserializer for values",
    ),
)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """In this block, SIGTERM ends the tool as cleanly as Ctrl-C, with a shell's exit code (143)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    code = 128 + signal.SIGTERM
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(code))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Stop:
    """The signal, if any, that asked a tool to end."""

    def __init__(self) -> None:
        self.code = 0
        """The exit code after a signal, as a shell reports it; 0 without a signal."""


@contextmanager
def stopped_by_signals(act: Callable[[], None]) -> Iterator[Stop]:
    """Call `act` at the first Ctrl-C or SIGTERM in this block and continue.

    A second signal has its usual effect.

    `act` runs in the signal handler, possibly between any two instructions of the tool.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in signals]

    def restore() -> None:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)

    def handle(number: int, _: object) -> None:
        restore()
        stop.code = 128 + number
        act()

    for number in signals:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        restore()


def warn_topic(label: str, topic: str, error: ErrorCode) -> None:
    """Log that a topic is not available at the moment, as Java's clients do."""
    log(
        "WARN",
        f"{label} The metadata response from the cluster reported a recoverable issue with"
        f" correlation id 1 : {{{topic}={error.name}}}",
        NETWORK_CLIENT,
    )
    if error is ErrorCode.INVALID_TOPIC_EXCEPTION:
        log(
            "ERROR",
            f"{label} Metadata response reported invalid topics [{topic}]",
            "org.apache.kafka.clients.Metadata",
        )


def warn_replaced(options: Options, old: str, new: str) -> None:
    """Print the new name of an option if its old name is used."""
    if options.has(old):
        print(
            f"Option --{old} is deprecated and will be removed in a future version."
            f" Use --{new} instead."
        )


def read_formatter(options: Options) -> Formatter:
    """Return the formatter that the options select. Raises UsageError, ToolError, OptionsError."""
    properties = file_properties(options, "formatter-config")
    for side in ("key", "value"):
        if options.value(f"{side}-deserializer"):
            properties[f"{side}.deserializer"] = options.value(f"{side}-deserializer") or ""
    properties |= key_values(options.values("property") + options.values("formatter-property"))
    return make_formatter(options.value("formatter") or "", properties)


def log_error(message: str, error: Failure, logger: str) -> None:
    """Log an error with its stack trace, as Java's tools do."""
    log("ERROR", message, logger)
    print_stack_trace(error)


def next_record(receive: Callable[[], T], logger: str) -> T | None:
    """Return the result of `receive`; if it raises, log the error as Java does and return None."""
    try:
        return receive()
    except TimeoutError:
        error: Failure = ToolError("org.apache.kafka.common.errors.TimeoutException", "")
    except (ClientError, ToolError) as failure:
        error = failure
    log_error("Error processing message, terminating consumer process: ", error, logger)
    return None


def check_group_ids(groups: Collection[str], config: str) -> None:
    """Raise UsageError if the group ids from different places differ."""
    if len(set(groups)) > 1:
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via"
            f" '--consumer-property', or via '--{config}') do not match. Detected group ids:"
            f" {', '.join(repr(group) for group in sorted(set(groups)))}"
        )


def write_record(line: bytes) -> bool:
    """Write and flush a printed record; return False if the output is closed."""
    try:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Discard Python's buffered output, which would fail again when Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
