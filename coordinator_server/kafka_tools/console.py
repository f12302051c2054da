"""What the console producer and the console consumer share: ends by a signal, warnings."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
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
