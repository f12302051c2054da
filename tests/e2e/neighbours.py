"""Clients that run beside a fuzzer, and how long they wait for responses."""

from __future__ import annotations

import re
import statistics
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.machine import slowness, stolen_seconds
from tests.support import API_VERSIONS_REQUEST, Broker, Serve

NOTICEABLE_SECONDS = 2.0


MOST_RESIDENT_MB = 200


class Wait(NamedTuple):
    """The duration of one request, and the CPU time during it.

    `stolen_seconds` is the time that the host took from this machine's processors, in which neither
    client nor broker may have run. `cpu_seconds` is the broker's CPU time.
    """

    seconds: float
    stolen_seconds: float
    cpu_seconds: float


class Neighbour(threading.Thread):
    """A well-behaved client that sends requests all the time and records its waits."""

    def __init__(self, broker: Broker | Serve) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._over = threading.Event()
        self.waits: list[Wait] = []

    def run(self) -> None:
        """Send twenty requests a second."""
        with self._broker.connect() as wire:
            while not self._over.wait(0.05):
                before = self._now()
                wire.ask(API_VERSIONS_REQUEST)
                pairs = zip(self._now(), before, strict=True)
                self.waits.append(Wait(*(now - then for now, then in pairs)))

    def _now(self) -> Wait:
        return Wait(time.monotonic(), stolen_seconds(), self._broker.cpu_seconds())

    def end(self) -> None:
        """Stop sending."""
        self._over.set()
        self.join()


def first_bug(log: str) -> str:
    """Return the log from the first bug on, including its traceback; empty if there is none."""
    bug = re.search(
        r"^.*(request\.failed|group\.failed|authenticator\.failed|Traceback).*$", log, re.MULTILINE
    )
    return "" if bug is None else log[bug.start() : bug.start() + 8000]


def check_waits(waits: Sequence[Wait]) -> None:
    """Check that a neighbour was served all the time."""
    assert len(waits) > 10
    most = NOTICEABLE_SECONDS * slowness()
    assert max(wait.seconds - wait.stolen_seconds for wait in waits) < most
    assert max(wait.cpu_seconds for wait in waits) < most
    assert statistics.median(wait.seconds for wait in waits) < NOTICEABLE_SECONDS
