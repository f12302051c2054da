"""`make profile`: profiles the broker under each kind of load with a sampling profiler.

    make profile
    python -m benchmarks.profiling --only commit --seconds 10 --output profiles

py-spy samples the broker's stack from outside 1000 times per second, so the measured code is
unchanged. Each load produces a flame graph. The table shows its file and the cost of an operation,
including py-spy's pauses; `make bench` measures without them.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks import load
from benchmarks.cells import CELL_BY_NAME, Cell, Rebalances
from benchmarks.transactions import Side
from coordinator_server.testing.process import COMMAND
from tests.support import Serve

SAMPLES_PER_SECOND = 1000
START_SECONDS = 3
WARM_UP_SECONDS = 0.5
MEMBERS = 100
TRANSACTION_PARTITIONS = 10


class ProfilerError(Exception):
    """The profiler is not installed, or must not access the process."""


class Scenario(NamedTuple):
    """A load: `run(seconds, record)` profiles a broker and returns operations and CPU seconds."""

    name: str
    run: Callable[[float, Profiler], tuple[int, float]]


class Profiler:
    """py-spy and its output file."""

    def __init__(self, output: Path) -> None:
        command = shutil.which("py-spy", path=str(Path(sys.executable).parent))
        command = command or shutil.which("py-spy")
        if command is None:
            raise ProfilerError("py-spy is not installed: `make profile` installs it")
        self._command = [command, "record", "--rate", str(SAMPLES_PER_SECOND), "--output"]
        self._command.append(str(output))

    def attach(self, pid: int, seconds: float) -> subprocess.Popen[bytes]:
        """Start sampling a process for this time."""
        return self._begin(["--duration", f"{seconds:.0f}", "--pid", str(pid)])

    def launch(self, command: list[str], seconds: float) -> subprocess.Popen[bytes]:
        """Start a process and sample it from its start."""
        return self._begin(["--duration", f"{seconds:.0f}", "--", *command])

    def _begin(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    @staticmethod
    def wait(process: subprocess.Popen[bytes]) -> None:
        """Wait until the profiler has written its file. Raises ProfilerError."""
        _, said = process.communicate()
        if process.returncode:
            words = said.decode(errors="replace").strip()
            raise ProfilerError(f"py-spy ended with {process.returncode}: {words}")


def scenarios() -> Iterator[Scenario]:
    """Yield all loads."""
    for name in ("heartbeat, 10 connections", "heartbeat, 1000 connections"):
        yield Scenario(name, partial(_closed_loop, CELL_BY_NAME[name]))
    yield Scenario(f"rebalance of {MEMBERS} members", _joins)
    for name, cell in CELL_BY_NAME.items():
        if not name.startswith("heartbeat"):
            yield Scenario(name, partial(_closed_loop, cell))
    yield Scenario("transactions", _transactions)
    yield Scenario("start", _start)


def _closed_loop(cell: Cell, seconds: float, profiler: Profiler) -> tuple[int, float]:
    async def run() -> tuple[int, float]:
        loops = await load.connected(broker, cell.loops(frames, answer))
        await load.window(broker, loops, WARM_UP_SECONDS)
        process = profiler.attach(broker.pid, seconds)
        result = await load.window(broker, loops, seconds)
        await asyncio.to_thread(profiler.wait, process)
        return result

    with load.served() as broker:
        frames = cell.prepare(broker)
        answer = load.asked(broker, frames[0][0])
        return uvloop.run(run())


def _joins(seconds: float, profiler: Profiler) -> tuple[int, float]:
    """Profile rebalances; an operation is one member in one rebalance."""
    with load.served(load.FORMING_SETTINGS) as broker:
        rebalances = Rebalances(broker, MEMBERS)

        def cycle() -> int:
            rebalances.cycle()
            return MEMBERS

        result = _repeated(broker, cycle, seconds, profiler)
        rebalances.close()
        return result


def _transactions(seconds: float, profiler: Profiler) -> tuple[int, float]:
    with load.served() as broker:
        side = Side("ours", broker.bootstrap_servers, broker.cpu_seconds)

        def run() -> int:
            side.run(10, TRANSACTION_PARTITIONS)
            return 10

        return _repeated(broker, run, seconds, profiler)


def _repeated(
    broker: Serve, run: Callable[[], int], seconds: float, profiler: Profiler
) -> tuple[int, float]:
    """Profile repeated calls of `run`, which returns its number of operations."""
    run()
    process = profiler.attach(broker.pid, seconds)
    done, cpu_s, end_s = 0, broker.cpu_seconds(), time.monotonic() + seconds
    while time.monotonic() < end_s:
        done += run()
    cpu_s = broker.cpu_seconds() - cpu_s
    profiler.wait(process)
    return done, cpu_s


def _start(_: float, profiler: Profiler) -> tuple[int, float]:
    """Profile the start of a broker until it is idle; the profiler ends the broker."""
    with load.served() as broker:
        cpu_s = broker.cpu_seconds()
    # The broker inherits the profiler's standard input and ends when this input is closed.
    arguments = ["serve", "--ephemeral", "--listener", "127.0.0.1:0", "--watch-stdin"]
    profiler.wait(profiler.launch([*COMMAND, *arguments], START_SECONDS))
    return 1, cpu_s


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 2 if there is no profiler."""
    parser = argparse.ArgumentParser(description="Write flame graphs of the broker under load.")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="duration of each load in seconds"
    )
    parser.add_argument("--only", default="", help="run only loads whose names contain this text")
    parser.add_argument("--output", type=Path, default=Path(".profiles"))
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    print(f"{'load':32}{'CPU us each':>12}  flame graph", flush=True)
    for scenario in scenarios():
        if options.only not in scenario.name:
            continue
        file = options.output / (scenario.name.replace(",", "").replace(" ", "-") + ".svg")
        try:
            done, cpu_s = scenario.run(options.seconds, Profiler(file))
        except ProfilerError as error:
            print(error, file=sys.stderr)
            return 2
        print(f"{scenario.name:32}{cpu_s / done * 1e6:12.1f}  {file}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
