"""Microseconds of CPU per stage of a request, in a normally running broker.

    python -m benchmarks.stages

The broker runs with the functions in BORDERS wrapped. Each of them begins a stage, which includes
the functions that it calls, up to the next border. The cost of the clocks is measured at the start
and subtracted. The last lines show the same requests in a broker without borders, and the floor
(`benchmarks.floor`).

A border that no longer exists ends the run with an error; a test checks this as well.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import uvloop

from benchmarks import load
from benchmarks.cells import CELL_BY_NAME, Cell
from benchmarks.floor import Floor
from coordinator_server.testing.process import COMMAND

OUTSIDE = "loop, reading the socket"
CALIBRATED = "calibrated"
CALIBRATION_CALLS = 20_000
WINDOW_SECONDS = 2.0
TABLE = (
    "heartbeat, 10 connections",
    "commit of 1 partition",
    "commit of 100 partitions",
    "fetch of 1 MB",
)

Steps: TypeAlias = Generator[Any, None, Any]


class Border(NamedTuple):
    """A function that begins a stage; with `makes`, a function that returns such functions."""

    stage: str
    module: str
    name: str
    makes: bool = False


BORDERS = (
    Border("frame", "coordinator_server.net.connection", "Connection.data_received"),
    Border("dispatch", "coordinator_server.net.dispatch", "Dispatcher.dispatch"),
    Border("decode", "protocol.codec", "decoder", makes=True),
    Border("handler", "coordinator_server.apis.heartbeat", "handle"),
    Border("handler", "coordinator_server.apis.offset_commit", "handle"),
    Border("handler", "coordinator_server.apis.fetch", "handle"),
    Border(
        "mailbox", "coordinator_server.coordinator.group_coordinator", "GroupCoordinator.submit"
    ),
    Border("mailbox", "coordinator_server.clock.broker_clock", "SystemClock.call_soon"),
    Border("group", "coordinator_server.coordinator.operations", "PendingRequest.apply"),
    Border(
        "records and batch",
        "coordinator_server.coordinator.offsets_partition",
        "OffsetsPartition.append",
    ),
    Border("log", "storage.partition_log", "PartitionLog.append_own"),
    Border("log", "storage.partition_log", "PartitionLog.read"),
    Border("file", "storage.posix_disk", "PosixFile.append"),
    Border("file", "storage.posix_disk", "PosixFile.pread"),
    Border("compaction", "coordinator_server.topics.manager", "TopicManager.maintenance_step"),
    Border("encode", "protocol.codec", "encoder", makes=True),
    Border("writing the socket", "coordinator_server.net.connection", "Connection.answer"),
)
STAGES = tuple(dict.fromkeys([OUTSIDE, *(border.stage for border in BORDERS)]))
# For this function, the callback that it schedules is measured.
_CALLBACKS = "SystemClock.call_soon"


class MissingBorderError(Exception):
    """A function in BORDERS does not exist."""


def owner_of(border: Border) -> tuple[Any, str]:
    """Return the module or class that holds a border, and the border's name in it.

    Raises MissingBorderError.
    """
    owner: Any = import_module(border.module)
    *way, name = border.name.split(".")
    for part in way:
        owner = getattr(owner, part, None)
    if not hasattr(owner, name):
        raise MissingBorderError(
            f"benchmarks/stages.py: {border.module} has no {border.name} any more; give the stage "
            f"{border.stage!r} another border"
        )
    return owner, name


# --- in the broker --------------------------------------------------------------------------------


class Stopwatch:
    """CPU time by stage; running code belongs to the stage that was entered last."""

    def __init__(self) -> None:
        self.spent_ns: Counter[str] = Counter()
        self.entered: Counter[str] = Counter()
        self.left_to: Counter[str] = Counter()
        """How often a stage continued after another stage that it had called."""

        self._stack = [OUTSIDE]
        self._thread = threading.get_ident()
        self._since_ns = time.thread_time_ns()

    def enter(self, stage: str) -> None:
        """Begin a stage."""
        now_ns = time.thread_time_ns()
        self.spent_ns[self._stack[-1]] += now_ns - self._since_ns
        self._stack.append(stage)
        self._since_ns = now_ns

    def leave(self) -> None:
        """End the stage and continue the previous stage."""
        now_ns = time.thread_time_ns()
        stage = self._stack.pop()
        self.spent_ns[stage] += now_ns - self._since_ns
        self.entered[stage] += 1
        self.left_to[self._stack[-1]] += 1
        self._since_ns = now_ns

    def wrapped(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as a border; each step of a generator is a border as well."""

        def parts(steps: Steps) -> Steps:
            while True:
                self.enter(stage)
                try:
                    value = next(steps)
                except StopIteration as end:
                    return end.value
                finally:
                    self.leave()
                yield value

        @wraps(function)
        def border(*arguments: Any, **keywords: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*arguments, **keywords)
            self.enter(stage)
            try:
                result = function(*arguments, **keywords)
            finally:
                self.leave()
            return parts(cast("Steps", result)) if inspect.isgenerator(result) else result

        return border

    def install(self, border: Border) -> None:
        """Wrap the function that a border names."""
        owner, name = owner_of(border)
        function = getattr(owner, name)
        if border.makes:

            def made(*arguments: Any) -> Any:
                return self.wrapped(border.stage, function(*arguments))

            setattr(owner, name, made)
        elif border.name == _CALLBACKS:

            def call_soon(clock: Any, callback: Callable[[], None], /) -> object:
                return function(clock, self.wrapped(border.stage, callback))

            setattr(owner, name, call_soon)
        else:
            setattr(owner, name, self.wrapped(border.stage, function))

    def calibrate(self) -> None:
        """Measure the cost of a border, within its own stage and within the surrounding one."""
        empty = self.wrapped(CALIBRATED, lambda: None)
        self.spent_ns.clear()
        for _ in range(CALIBRATION_CALLS):
            empty()
        self.enter(OUTSIDE)
        self.leave()
        self.inner_ns = self.spent_ns[CALIBRATED] / CALIBRATION_CALLS
        self.outer_ns = self.spent_ns[OUTSIDE] / CALIBRATION_CALLS

    def dump(self, path: Path) -> None:
        """Write the totals so far in nanoseconds, without the cost of the borders."""
        totals = {
            stage: self.spent_ns[stage]
            - self.entered[stage] * self.inner_ns
            - self.left_to[stage] * self.outer_ns
            for stage in STAGES
        }
        half = path.with_suffix(".half")
        half.write_text(json.dumps(totals))
        os.replace(half, path)


def serve(path: Path) -> None:
    """Run the broker with borders; at SIGUSR1 it writes the totals to `path`."""
    from coordinator_server.__main__ import run

    stopwatch = Stopwatch()
    stopwatch.calibrate()
    for border in BORDERS:
        stopwatch.install(border)
    signal.signal(signal.SIGUSR1, lambda *_: stopwatch.dump(path))
    run()


# --- in the benchmark -----------------------------------------------------------------------------


def measure(cell: Cell) -> tuple[dict[str, float], float, float]:
    """Return microseconds per stage, in total without borders, and of the floor."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "stages.json"
        command = (*COMMAND[:-1], "benchmarks.stages", str(path))
        stages = _run(cell, command, path)[0]
    _, plain_us, floor_us = _run(cell, COMMAND, None)
    return stages, plain_us, floor_us


def _run(
    cell: Cell, command: tuple[str, ...], path: Path | None
) -> tuple[dict[str, float], float, float]:
    async def run() -> tuple[dict[str, float], float, float]:
        loops = await load.connected(broker, cell.loops(frames, answer))
        at_floor = await load.connected(floor, cell.loops(frames, answer))
        await load.window(broker, loops, WINDOW_SECONDS / 4)
        await load.window(floor, at_floor, WINDOW_SECONDS / 4)
        before = {} if path is None else await _totals(broker.pid, path)
        answers, cpu_s = await load.window(broker, loops, WINDOW_SECONDS)
        after = {} if path is None else await _totals(broker.pid, path)
        floor_answers, floor_cpu_s = await load.window(floor, at_floor, WINDOW_SECONDS)
        stages = {stage: (after[stage] - before[stage]) / answers / 1000 for stage in after}
        return stages, cpu_s / answers * 1e6, floor_cpu_s / floor_answers * 1e6

    with load.served(command=command) as broker:
        frames = cell.prepare(broker)
        answer = load.asked(broker, frames[0][0])
        with Floor(answer) as floor:
            return uvloop.run(run())


async def _totals(pid: int, path: Path) -> dict[str, float]:
    """Let the broker write its totals and return them."""
    path.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    async with asyncio.timeout(10):
        while not path.exists():
            await asyncio.sleep(0.005)
    totals: dict[str, float] = json.loads(path.read_text())
    return totals


def main() -> int:
    """Print the table; return 2 if a border is missing."""
    try:
        for border in BORDERS:
            owner_of(border)
    except MissingBorderError as error:
        print(error, file=sys.stderr)
        return 2
    measured = [measure(CELL_BY_NAME[name]) for name in TABLE]
    print("| stage, us | " + " | ".join(TABLE) + " |\n|---|" + "---|" * len(TABLE))
    for stage in STAGES:
        cells = [f"{stages[stage]:.1f}" for stages, _, _ in measured]
        print(f"| {stage} | " + " | ".join(cells) + " |")
    sums = [f"{sum(stages.values()):.1f}" for stages, _, _ in measured]
    print("| all stages | " + " | ".join(sums) + " |")
    print("| a broker without borders | " + " | ".join(f"{us:.1f}" for _, us, _ in measured) + " |")
    print("| the floor | " + " | ".join(f"{us:.1f}" for _, _, us in measured) + " |")
    return 0


if __name__ == "__main__":
    if sys.argv[2:3] == ["serve"]:
        serve(Path(sys.argv.pop(1)))
    else:
        sys.exit(main())
