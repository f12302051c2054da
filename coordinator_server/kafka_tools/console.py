"""What the console producer and the console consumer share: ends by a signal, warnings."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coordinator_server.kafka_tools.frame import NETWORK_CLIENT
from coordinator_server.kafka_tools.java import log
from protocol.errors import ErrorCode


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
