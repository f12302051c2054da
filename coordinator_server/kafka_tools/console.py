"""What the console tools share: ends by a signal, warnings, options of formatters, the output."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coordinator_server.kafka_tools.formatters import DEFAULT, Formatter, make_formatter
from coordinator_server.kafka_tools.frame import NETWORK_CLIENT, Failure, print_stack_trace
from coordinator_server.kafka_tools.java import log
from coordinator_server.kafka_tools.options import Option, Options
from coordinator_server.kafka_tools.properties import file_properties, key_values
from protocol.errors import ErrorCode

_PROPERTY_HELP = (
    "print.timestamp, print.key, print.offset, print.partition, print.headers, print.value,"
    " print.delivery, print.epoch (true or false), key.separator, line.separator,"
    " headers.separator, null.literal, key.deserializer, value.deserializer,"
    " headers.deserializer."
)
FORMATTER = Option("formatter", "The class that prints records.", argument="class", default=DEFAULT)
FORMATTER_PROPERTY = Option(
    "formatter-property", f"How it prints: {_PROPERTY_HELP}", argument="prop"
)
PROPERTY = Option("property", "Old name of --formatter-property.", argument="prop")
FORMATTER_CONFIG = Option(
    "formatter-config", "A file of formatter properties.", argument="config file"
)
DESERIALIZERS = (
    Option("key-deserializer", "The class that reads keys.", argument="deserializer for key"),
    Option(
        "value-deserializer", "The class that reads values.", argument="deserializer for values"
    ),
)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within it SIGTERM ends the tool in order, as Ctrl-C does, with the code that a shell has."""
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
    """Whether, and by which signal, a tool was asked to end."""

    def __init__(self) -> None:
        self.code = 0
        """What the tool then ends with, as a shell has it; 0 before."""


@contextmanager
def stopped_by_signals(act: Callable[[], None]) -> Iterator[Stop]:
    """Within it the first Ctrl-C or SIGTERM calls `act` and goes on; a second one ends the tool.

    `act` runs between any two steps of the tool.
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
    """Log that a topic is not to be had at the moment, as Java's clients do."""
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
    """Print that an option has a new name, if the old one is given."""
    if options.has(old):
        print(
            f"Option --{old} is deprecated and will be removed in a future version."
            f" Use --{new} instead."
        )


def read_formatter(options: Options) -> Formatter:
    """Return the formatter that the options name. Raises UsageError, ToolError, OptionsError."""
    properties = file_properties(options, "formatter-config")
    for side in ("key", "value"):
        if options.value(f"{side}-deserializer"):
            properties[f"{side}.deserializer"] = options.value(f"{side}-deserializer") or ""
    properties |= key_values(options.values("property") + options.values("formatter-property"))
    return make_formatter(options.value("formatter") or "", properties)


def log_error(message: str, error: Failure, logger: str) -> None:
    """Log an error with its exception, as Java's tools do."""
    log("ERROR", message, logger)
    print_stack_trace(error)


def write_record(line: bytes) -> bool:
    """Write a printed record at once; return False when nothing reads the output any more."""
    try:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # What Python still holds would fail once more when it is written at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
