"""Hours of normal load: checks memory growth, event loop lag and late timers.

    python -m benchmarks.soak                        # an hour, 5 000 members
    python -m benchmarks.soak --minutes 10

Groups of ten members send heartbeats every three seconds and commit occasionally. Once per second,
in one group, a member leaves and a new one joins, so that the group rebalances. A producer writes
transactions. Any unexpected error ends the run. Probes in separate processes print each minute:

- lag: the waiting time of a heartbeat at the broker and, for comparison, at a bare server;
- late: the delay of the response to a Fetch without data, after its `max_wait_ms`.

The last line shows by how many MB per hour the memory use grew in the second half of the run.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from statistics import linear_regression
from typing import Any, NamedTuple

import uvloop

from benchmarks import load
from benchmarks.floor import Floor
from benchmarks.load import FETCH_VERSION, FORMING_SETTINGS, JOIN_VERSION, SYNC_VERSION, Member
from benchmarks.probe import Probe, percentile
from benchmarks.transactions import Side
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.leave_group import LeaveGroupRequest
from protocol.schema import Message
from tests.faults.client import frame_of
from tests.support import Serve

GROUP_SIZE = 10
HEARTBEAT_INTERVAL_SECONDS = 3.0
COMMIT_SHARE = 0.1
"""The share of heartbeats that are followed by a commit."""

COMMITTED_PARTITIONS = 10
REBALANCES_PER_SECOND = 1.0
TRANSACTIONS_PER_SECOND = 2.0
REPORT_SECONDS, LEAST_SAMPLES = 60.0, 10
PROBE_PAUSE_SECONDS = 0.02
FETCH_WAIT_MS = 100
LEAVE_VERSION = 2
MEMBERS_FORMING = 500
"""The number of members that join at the same time at the start."""

HEADER = (
    "minute  memory MB  CPU %  heartbeats/s  commits/s  rebalances  transactions  "
    "lag ms p50/p99/max  bare server's  late ms p50/p99/max"
)


class Sample(NamedTuple):
    """The memory use at one moment."""

    elapsed_s: float
    resident_mb: float


class Counts:
    """The operations done so far."""

    def __init__(self) -> None:
        self.heartbeats = self.commits = self.rebalances = self.transactions = 0


class Connection:
    """One member's connection, for one request at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self.member = Member("", "", -1)

    async def connect(self) -> None:
        """Open the connection."""
        self._reader, self._writer = await asyncio.open_connection(*self._address)

    async def ask_frame(self, frame: bytes) -> Any:
        """Send a frame and return the response. Asserts that it contains no error."""
        self._writer.write(frame)
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return load.decoded(frame, await self._reader.readexactly(size))

    async def ask(self, request: Message, version: int) -> Any:
        """Send a request and return the response."""
        return await self.ask_frame(frame_of(request, version))


class Group:
    """A group of ten members."""

    def __init__(self, address: tuple[str, int], group_id: str, counts: Counts) -> None:
        self._group_id = group_id
        self._members = [Connection(address) for _ in range(GROUP_SIZE)]
        self._counts = counts
        self._metadata = 0
        self._heartbeats: list[bytes] = []

    async def form(self) -> None:
        """Connect and join all members."""
        await asyncio.gather(*[one.connect() for one in self._members])
        await self._join()

    async def live(self, rebalances_share: float) -> None:
        """Send heartbeats and commits endlessly; rebalance after this share of the rounds."""
        await asyncio.sleep(random.uniform(0, HEARTBEAT_INTERVAL_SECONDS))
        while True:
            started_s = time.monotonic()
            await asyncio.gather(*[self._beat(number) for number in range(GROUP_SIZE)])
            if random.random() < rebalances_share:
                await self._rebalance()
            passed_s = time.monotonic() - started_s
            await asyncio.sleep(max(0.0, HEARTBEAT_INTERVAL_SECONDS - passed_s))

    async def _beat(self, number: int) -> None:
        connection = self._members[number]
        await connection.ask_frame(self._heartbeats[number])
        self._counts.heartbeats += 1
        if random.random() < COMMIT_SHARE:
            offset = self._counts.commits
            await connection.ask_frame(load.commit(connection.member, COMMITTED_PARTITIONS, offset))
            self._counts.commits += 1

    async def _rebalance(self) -> None:
        """Replace a member: one member leaves, a new member joins, and the others rejoin."""
        leaving = random.choice(self._members)
        leave = LeaveGroupRequest(group_id=self._group_id, member_id=leaving.member.member_id)
        await leaving.ask(leave, LEAVE_VERSION)
        leaving.member = Member("", "", -1)
        await self._join()
        self._counts.rebalances += 1

    async def _join(self) -> None:
        self._metadata += 1
        metadata = self._metadata.to_bytes(8, "big")
        # Members that the group already knows join last, because their joins complete the
        # rebalance.
        joining = sorted(self._members, key=lambda one: bool(one.member.member_id))
        tasks = []
        for one in joining:
            request = load.join_request(self._group_id, one.member.member_id, metadata)
            tasks.append(asyncio.create_task(one.ask(request, JOIN_VERSION)))
        joined = await asyncio.gather(*tasks)
        for one, answer in zip(joining, joined, strict=True):
            one.member = Member(self._group_id, answer.member_id, answer.generation_id)
        assert len({one.member.generation_id for one in joining}) == 1, "two generations"
        ids = [one.member.member_id for one in joining]
        leader = joined[0].leader
        syncs: list[Coroutine[Any, Any, Any]] = []
        for one in joining:
            assigned = ids if one.member.member_id == leader else ()
            syncs.append(one.ask(load.sync_request(one.member, assigned), SYNC_VERSION))
        await asyncio.gather(*syncs)
        self._heartbeats = [load.heartbeat(one.member) for one in self._members]


async def _transact(broker: Serve, counts: Counts) -> None:
    side = await asyncio.to_thread(Side, "ours", broker.bootstrap_servers, broker.cpu_seconds)
    while True:
        await asyncio.to_thread(side.run, 1, 1)
        counts.transactions += 1
        await asyncio.sleep(1 / TRANSACTIONS_PER_SECOND)


def empty_fetch() -> bytes:
    """Return a fetch that waits for data that never arrives."""
    partition = FetchPartition(partition=load.PARTITIONS - 1, partition_max_bytes=1)
    topic = FetchTopic(topic=load.TOPIC, partitions=[partition])
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=1, session_epoch=-1, topics=[topic]
    )
    return frame_of(request, FETCH_VERSION)


class Soak:
    """One run of the benchmark."""

    def __init__(self, broker: Serve, members: int, minutes: float) -> None:
        self._broker = broker
        self._seconds = minutes * 60
        self._counts = Counts()
        number = members // GROUP_SIZE
        self._groups = [Group(broker.address, f"soak-{one}", self._counts) for one in range(number)]
        self.samples: list[Sample] = []

    async def run(self) -> None:
        """Form the groups, run the load, and print a line each minute."""
        some = MEMBERS_FORMING // GROUP_SIZE
        for start in range(0, len(self._groups), some):
            await asyncio.gather(*[one.form() for one in self._groups[start : start + some]])
        share = REBALANCES_PER_SECOND * HEARTBEAT_INTERVAL_SECONDS / len(self._groups)
        lives = [group.live(share) for group in self._groups]
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(life) for life in lives]
            started.append(tasks.create_task(_transact(self._broker, self._counts)))
            await self._watch()
            for task in started:
                task.cancel()

    async def _watch(self) -> None:
        with ExitStack() as stack:
            beat = load.heartbeat(Member("nobody", "nobody", 1))
            floor = stack.enter_context(Floor((12).to_bytes(4, "big") + bytes(12)))
            lag = stack.enter_context(Probe(self._broker, beat, PROBE_PAUSE_SECONDS))
            bare = stack.enter_context(Probe(floor, beat, PROBE_PAUSE_SECONDS))
            late = stack.enter_context(Probe(self._broker, empty_fetch(), PROBE_PAUSE_SECONDS))
            print(HEADER, flush=True)
            started_s = time.monotonic()
            while (elapsed_s := time.monotonic() - started_s) < self._seconds:
                cpu_s, before = self._broker.cpu_seconds(), vars(self._counts).copy()
                seconds = min(REPORT_SECONDS, self._seconds / LEAST_SAMPLES)
                await asyncio.sleep(seconds)
                elapsed_s = time.monotonic() - started_s
                self.samples.append(Sample(elapsed_s, self._broker.resident_mb()))
                cpu_percent = (self._broker.cpu_seconds() - cpu_s) / seconds * 100
                done = {name: value - before[name] for name, value in vars(self._counts).items()}
                lags = [await asyncio.to_thread(probe.waits_ms) for probe in (lag, bare)]
                waits_ms = await asyncio.to_thread(late.waits_ms)
                print(
                    f"{elapsed_s / 60:6.1f}  {self.samples[-1].resident_mb:9.1f}"
                    f"  {cpu_percent:5.1f}  {done['heartbeats'] / seconds:12.0f}"
                    f"  {done['commits'] / seconds:9.0f}  {done['rebalances']:10}"
                    f"  {done['transactions']:12}  {_shown(lags[0]):>18}  {_shown(lags[1]):>13}"
                    f"  {_shown([one - FETCH_WAIT_MS for one in waits_ms]):>19}",
                    flush=True,
                )


def _shown(sorted_ms: list[float]) -> str:
    return "/".join(f"{percentile(sorted_ms, part):.1f}" for part in (0.5, 0.99, 1.0))


def memory_slope(samples: Sequence[Sample]) -> float:
    """Return the memory growth in MB per hour over the second half, by least squares."""
    half = samples[len(samples) // 2 :]
    slope, _ = linear_regression([one.elapsed_s for one in half], [one.resident_mb for one in half])
    return slope * 3600


def main() -> int:
    """Print a line per minute, and the slope."""
    parser = argparse.ArgumentParser(description="Measure memory, lag and timers over a long time.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--members", type=int, default=5000)
    options = parser.parse_args()
    with load.served(FORMING_SETTINGS) as broker:
        with load.client_of(broker) as client:
            load.ensure_topic(client)
        soak = Soak(broker, options.members, options.minutes)
        uvloop.run(soak.run())
        print(f"memory: {memory_slope(soak.samples):+.2f} MB an hour over the second half")
    return 0


if __name__ == "__main__":
    sys.exit(main())
