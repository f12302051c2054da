"""Effect of other clients: p99 of heartbeats while others load the broker.

    python -m benchmarks.neighbours [--seconds 10] [--floods]

A separate process sends one member's heartbeats, each a millisecond after the previous response.
The loads follow one after the other, each after a quiet time. The ratio compares the p99 under load
with the p99 in the quiet time before. The floor's column shows the same probe of a bare server (see
`benchmarks.floor`) at the same time, which is the delay that the machine itself causes. Then the
floods of `tests.floods` are sent to another broker with TLS and SASL: the probe uses a plaintext
listener, as connections to the flooded listener would queue behind the flood.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks import load
from benchmarks.cells import CELL_BY_NAME, Rebalances
from benchmarks.floor import Floor
from benchmarks.load import ClosedLoop, Server
from benchmarks.probe import Probe, percentile
from tests.floods import FLOODS, flood
from tests.secured import SecuredBroker

REBALANCING_MEMBERS = 500
PIPELINES, IN_FLIGHT = 256, 40
SETTLE_SECONDS = 1.0

Load = Callable[[Server], AbstractAsyncContextManager[None]]


class Waits(NamedTuple):
    """Waiting times in milliseconds."""

    median: float
    p99: float
    longest: float


@asynccontextmanager
async def rebalances(broker: Server) -> AsyncIterator[None]:
    """Let a group rebalance continuously."""
    group = await asyncio.to_thread(Rebalances, broker, REBALANCING_MEMBERS)
    runs = True

    def cycle() -> None:
        while runs:
            group.cycle()

    cycling = asyncio.create_task(asyncio.to_thread(cycle))
    yield
    runs = False
    await cycling
    group.close()


@asynccontextmanager
async def commits(broker: Server) -> AsyncIterator[None]:
    """Commit 100 partitions as fast as the broker responds, so that compaction must run."""
    async with _closed_loop(broker, "commit of 100 partitions"):
        yield


@asynccontextmanager
async def reading(broker: Server) -> AsyncIterator[None]:
    """Read with a consumer, 1 MB at a time and five requests in flight."""
    async with _closed_loop(broker, "fetch of 1 MB"):
        yield


@asynccontextmanager
async def pipelines(broker: Server) -> AsyncIterator[None]:
    """Keep many requests in flight on several connections."""
    beat = load.heartbeat(await asyncio.to_thread(_member, broker, "pipelines"))
    answer = await asyncio.to_thread(load.asked, broker, beat)
    loops = [ClosedLoop([beat], answer, in_flight=IN_FLIGHT) for _ in range(PIPELINES)]
    async with _running(broker, loops):
        yield


LOADS: dict[str, Load] = {
    f"a group of {REBALANCING_MEMBERS} rebalances": rebalances,
    "commits of 100 partitions, and compaction": commits,
    "a consumer reads": reading,
    f"{PIPELINES} connections with {IN_FLIGHT} requests each": pipelines,
}


def _member(broker: Server, group: str) -> load.Member:
    with load.client_of(broker) as client:
        return load.only_member(client, group)


@asynccontextmanager
async def _closed_loop(broker: Server, name: str) -> AsyncIterator[None]:
    cell = CELL_BY_NAME[name]
    frames = await asyncio.to_thread(cell.prepare, broker)
    answer = await asyncio.to_thread(load.asked, broker, frames[0][0])
    async with _running(broker, cell.loops(frames, answer)):
        yield


@asynccontextmanager
async def _running(broker: Server, loops: list[ClosedLoop]) -> AsyncIterator[None]:
    """Run these loops; at the end, wait for all responses."""
    await load.connected(broker, loops)
    for one in loops:
        one.start()
    yield
    for one in loops:
        one.runs = False
    while not all(one.is_idle for one in loops):
        await asyncio.sleep(0.01)
    for one in loops:
        one.close()


async def _waits(probes: list[Probe], seconds: float) -> list[Waits]:
    """Return the waiting times that each probe measures in `seconds`."""
    for probe in probes:
        await asyncio.to_thread(probe.waits_ms)
    await asyncio.sleep(seconds)
    seen = [await asyncio.to_thread(probe.waits_ms) for probe in probes]
    return [Waits(percentile(one, 0.5), percentile(one, 0.99), one[-1]) for one in seen]


def _flood(name: str, secured: SecuredBroker) -> Load:
    @asynccontextmanager
    async def begin(_: Server) -> AsyncIterator[None]:
        with flood(name, secured) as done:
            while not done.value:
                await asyncio.sleep(0.1)
            began, before = time.monotonic(), done.value
            yield
            rate = (done.value - before) / (time.monotonic() - began)
        print(f"flood of {name}: {rate:,.0f} a second", file=sys.stderr)

    return begin


async def _measure(broker: Server, seconds: float, loads: Mapping[str, Load]) -> None:
    beat = load.heartbeat(await asyncio.to_thread(_member, broker, "probed"))
    answer = await asyncio.to_thread(load.asked, broker, beat)
    with Floor(answer) as floor, Probe(broker, beat) as probe, Probe(floor, beat) as floor_probe:
        for name, begin in loads.items():
            quiet, at_floor = await _waits([probe, floor_probe], seconds)
            _print("nothing else happens", quiet, quiet, at_floor)
            async with begin(broker):
                await asyncio.sleep(SETTLE_SECONDS)
                busy, at_floor = await _waits([probe, floor_probe], seconds)
            _print(name, busy, quiet, at_floor)
            await asyncio.sleep(SETTLE_SECONDS)


def _print(name: str, waits: Waits, quiet: Waits, at_floor: Waits) -> None:
    print(
        f"| {name} | {waits.median:.2f} | {waits.p99:.2f} | {waits.longest:.1f} "
        f"| {waits.p99 / quiet.p99:.1f} | {at_floor.p99:.2f} |",
        flush=True,
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description="Measure the p99 of heartbeats without and with other load."
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="duration of each load in seconds"
    )
    parser.add_argument("--floods", action="store_true", help="run only the TLS and SASL floods")
    options = parser.parse_args()
    print("| heartbeats while | median ms | p99 ms | longest ms | p99 / quiet | floor's p99 ms |")
    print("|---|---|---|---|---|---|")
    if not options.floods:
        with load.served(load.FORMING_SETTINGS) as broker:
            uvloop.run(_measure(broker, options.seconds, LOADS))
    with tempfile.TemporaryDirectory() as directory:
        secured = SecuredBroker(Path(directory), log_level="error")
        secured.start()
        try:
            floods = {f"a flood of {name}": _flood(name, secured) for name in FLOODS}
            uvloop.run(_measure(secured.serve, options.seconds, floods))
        finally:
            secured.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
