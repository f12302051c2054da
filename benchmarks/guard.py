"""`make bench`: compares the cost of each kind of request with the stored figures.

    make bench                     # measure, compare, exit 1 if any cost has increased
    make bench-keep                # measure and store these figures
    python -m benchmarks.guard --only heartbeat

A figure is the CPU time per operation of the broker, divided by the CPU time of the floor
(`benchmarks.floor`) for the same requests and responses. Each figure is the median of several
pairs of alternating turns in one run. Rebalances are compared with small requests to the floor;
start-up and memory are compared with the floor's start-up and memory. An increase is measured
again before it is reported. The figures apply to one version of Python.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import uvloop

from benchmarks import load
from benchmarks.cells import CELLS, Cell, Rebalances
from benchmarks.floor import Floor
from benchmarks.load import ClosedLoop, Server
from tests.support import API_VERSIONS_REQUEST, Serve

FIGURES = Path(__file__).with_name("figures.json")
TOLERANCE = 0.35
WARM_UP_ROUNDS, ROUNDS = 2, 9
WINDOW_SECONDS = 0.2
REBALANCES = (10, 100)
STARTS = 5
ATTEMPTS = 3


class Figure(NamedTuple):
    """One line of the table; both costs have the same unit, and `ratio` is cost over floor."""

    name: str
    unit: str
    cost: float
    floor: float
    ratio: float


class Measurement(NamedTuple):
    """A function that returns one or more figures."""

    names: tuple[str, ...]
    measure: Callable[[], list[Figure]]


Turn = Callable[[], Awaitable[float]]
"""Runs operations and returns the CPU of one in microseconds."""


def measurements() -> Iterator[Measurement]:
    """Yield all measurements of the table."""
    for cell in CELLS:
        yield Measurement((cell.name,), partial(_cell, cell))
    for size in REBALANCES:
        name = f"rebalance of {size} members"
        yield Measurement((name,), partial(_rebalance, name, size))
    yield Measurement(("start", "memory when idle"), _start)


def _cell(cell: Cell) -> list[Figure]:
    async def measure() -> Figure:
        turn = await _turn(broker, cell.loops(frames, answer))
        return await _in_turn(cell.name, turn, await _turn(floor, cell.loops(frames, answer)))

    with load.served() as broker:
        frames = cell.prepare(broker)
        answer = load.asked(broker, frames[0][0])
        with Floor(answer) as floor:
            return [uvloop.run(measure())]


def _rebalance(name: str, size: int) -> list[Figure]:
    """Measure CPU per member and rebalance; the floor answers small requests on ten connections."""

    async def measure() -> Figure:
        loops = [ClosedLoop([API_VERSIONS_REQUEST], answer) for _ in range(10)]
        return await _in_turn(name, cycles, await _turn(floor, loops))

    async def cycles() -> float:
        number, cpu_s = 0, broker.cpu_seconds()
        end_s = time.monotonic() + WINDOW_SECONDS
        while time.monotonic() < end_s:
            rebalances.cycle()
            number += 1
        return (broker.cpu_seconds() - cpu_s) / number / size * 1e6

    with load.served(load.FORMING_SETTINGS) as broker:
        answer = load.asked(broker, API_VERSIONS_REQUEST)
        rebalances = Rebalances(broker, size)
        with Floor(answer) as floor:
            figure = uvloop.run(measure())
        rebalances.close()
    return [figure]


async def _turn(server: Server, loops: list[ClosedLoop]) -> Turn:
    """Return a turn that sends requests over these connections."""
    await load.connected(server, loops)

    async def turn() -> float:
        answers, cpu_s = await load.window(server, loops, WINDOW_SECONDS)
        return cpu_s / answers * 1e6

    return turn


async def _in_turn(name: str, broker: Turn, floor: Turn) -> Figure:
    """Measure broker and floor alternately, so that disturbances affect both."""
    for _ in range(WARM_UP_ROUNDS):
        await broker()
        await floor()
    pairs = [(await broker(), await floor()) for _ in range(ROUNDS)]
    costs, floors = zip(*pairs, strict=True)
    ratio = median(cost / least for cost, least in pairs)
    return Figure(name, "us", median(costs), median(floors), ratio)


def _start() -> list[Figure]:
    """Measure the CPU until the first response; the floor starts only Python and uvloop."""
    costs: list[list[float]] = []
    for _ in range(STARTS):
        with ExitStack() as stack:
            broker: Serve = stack.enter_context(load.served())
            floor = stack.enter_context(Floor(load.asked(broker, API_VERSIONS_REQUEST)))
            load.asked(floor, API_VERSIONS_REQUEST)
            costs.append(
                [
                    broker.cpu_seconds() * 1000,
                    floor.cpu_seconds() * 1000,
                    broker.resident_mb(),
                    floor.resident_mb(),
                ]
            )
    cpu_ms, floor_ms, memory_mb, floor_mb = (min(one) for one in zip(*costs, strict=True))
    return [
        Figure("start", "ms", cpu_ms, floor_ms, cpu_ms / floor_ms),
        Figure("memory when idle", "MB", memory_mb, floor_mb, memory_mb / floor_mb),
    ]


# --- comparing ------------------------------------------------------------------------------------


def has_got_worse(ratio: float, kept: float) -> bool:
    """Return whether a ratio exceeds the stored ratio by more than the tolerance."""
    return ratio > kept * (1 + TOLERANCE)


def measured(measurement: Measurement, kept: dict[str, float]) -> list[Figure]:
    """Return the best figures; a measurement that seems worse is repeated."""
    best = measurement.measure()
    for _ in range(ATTEMPTS - 1):
        if not any(has_got_worse(one.ratio, kept.get(one.name, one.ratio)) for one in best):
            break
        pairs = zip(best, measurement.measure(), strict=True)
        best = [min(pair, key=lambda one: one.ratio) for pair in pairs]
    return best


def line(figure: Figure, kept: float | None) -> str:
    """Return one line of the table."""
    text = f"{figure.name:28}{figure.cost:10.1f} {figure.unit}{figure.floor:10.1f} {figure.unit}"
    text = f"{text:56}{figure.ratio:8.2f}"
    if kept is None:
        return f"{text}       -  new"
    verdict = "WORSE" if has_got_worse(figure.ratio, kept) else ""
    if figure.ratio * (1 + TOLERANCE) < kept:
        verdict = "better"
    return f"{text}{kept:8.2f}  {verdict}".rstrip()


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 1 if any cost has increased."""
    parser = argparse.ArgumentParser(
        description="Measure CPU per operation and compare it with the stored figures."
    )
    parser.add_argument("--keep", action="store_true", help="store the figures of this run")
    parser.add_argument("--only", default="", help="run only cells whose names contain this text")
    options = parser.parse_args(arguments)
    content = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"ratios": {}}
    kept: dict[str, float] = content["ratios"]
    python = platform.python_version().rpartition(".")[0]
    if kept and content["python"] != python and not options.keep:
        print(f"the figures were taken with Python {content['python']}, this is {python}")
    print(f"{'':28}{'CPU or memory':>13}{'floor':>13}{'ratio':>10}{'kept':>8}", flush=True)
    worse, ratios = [], dict(kept)
    for measurement in measurements():
        if not any(options.only in name for name in measurement.names):
            continue
        for figure in measured(measurement, {} if options.keep else kept):
            was = kept.get(figure.name)
            print(line(figure, was), flush=True)
            ratios[figure.name] = round(figure.ratio, 2)
            if was is not None and has_got_worse(figure.ratio, was):
                worse.append(figure.name)
    if options.keep:
        FIGURES.write_text(json.dumps({"python": python, "ratios": ratios}, indent=2) + "\n")
        return 0
    if worse:
        print(f"\nworse by more than {TOLERANCE:.0%}: " + "; ".join(worse))
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
