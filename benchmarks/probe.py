"""Waiting times of requests, measured by a separate process.

    with Probe(broker, frame) as probe:
        ...
        probe.waits_ms()    # waiting times since the last call

A probe in the benchmark's process would be delayed by the load.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

from benchmarks.load import Server
from tests.support import Wire


class Probe:
    """A process that sends a frame repeatedly, with a pause after each response."""

    def __init__(self, server: Server, frame: bytes, pause_seconds: float = 0.001) -> None:
        host, port = server.address
        self._arguments = [host, str(port), frame.hex(), str(pause_seconds)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "benchmarks.probe", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.waits_ms()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def waits_ms(self) -> list[float]:
        """Return the sorted waiting times since the last call, at least one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        waits: list[float] = json.loads(self._process.stdout.readline())
        return sorted(waits)


def percentile(sorted_values: list[float], part: float) -> float:
    """Return a percentile of sorted values; `part` is between 0 and 1."""
    return sorted_values[round((len(sorted_values) - 1) * part)]


def main(arguments: list[str]) -> int:
    """Send until standard input ends; each input line requests the waiting times so far."""
    host, port, frame, pause_seconds = arguments
    waits_ms: list[float] = []
    with Wire(socket.create_connection((host, int(port)))) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            started_s = time.perf_counter()
            wire.ask(bytes.fromhex(frame))
            waits_ms.append((time.perf_counter() - started_s) * 1000)
            if select.select([sys.stdin], [], [], float(pause_seconds))[0]:
                if not sys.stdin.readline():
                    return 0
                print(json.dumps(waits_ms), flush=True)
                waits_ms.clear()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
