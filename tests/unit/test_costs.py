"""The cost of a request, counted: calls of our functions, memory used and memory kept.

A clock is unreliable on a shared machine. These counts are the same in every run, so that a change
that adds work to a hot path fails here and needs a reason. `make bench` measures CPU time.

The requests take the whole path, from the bytes that a connection receives to those that it writes:
only the socket is fake. No timer fires, so that other work is not counted.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, cast

import pytest

from benchmarks import load
from benchmarks.load import Member
from coordinator_server.apis.handlers import handler_of
from coordinator_server.clock.step_runner import StepRunner
from coordinator_server.composition import compose
from coordinator_server.config.config import Config
from coordinator_server.counting.connections import CountedConnection
from coordinator_server.counting.counts import Counts
from coordinator_server.counting.traffic import Traffic
from coordinator_server.net.connection import Connection
from coordinator_server.net.connections import Connections
from coordinator_server.net.dispatch import Dispatcher
from protocol.schema import Message
from storage.local_disk import LocalDisk
from tests.faults.client import frame_of
from tests.harness.clock import START_MS
from tests.unit.net.fakes import FakeTransport

ROOT = Path(__file__).parents[2]
OURS = tuple(str(ROOT / name) for name in ("coordinator_server", "protocol", "storage"))
# Python 3.12 inlines comprehensions into the enclosing function.
COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>"}
WARM_UP, COUNTED, MANY = 20, 50, 1000


class Bound(NamedTuple):
    """The maximum cost of one request."""

    calls: float
    """Calls of our functions, including resumed generators."""

    peak_bytes: int
    """Peak memory above the memory before the request, including its frame and response."""


BOUNDS = {
    "heartbeat": Bound(26, 1_300),
    "commit of 1 partition": Bound(89, 4_600),
    "commit of 100 partitions": Bound(96, 56_000),
    "offset fetch of 1 partition": Bound(49, 8_500),
    "offset fetch of 100 partitions": Bound(49, 12_500),
    "produce of 16 KB": Bound(69, 20_000),
    "fetch of 16 KB": Bound(85, 55_000),
}
"""Lower a bound when a request costs less. Raise it only for a reason that the commit gives."""

REBALANCE_CALLS = 291
"""Calls of a whole rebalance of one member, including those of the test's requests."""

YEAR_SECONDS = 365 * 24 * 3600.0

GROUPS, GROUP_BYTES = 300, 5_000
"""The memory of one of this many groups, each with a member and no committed offsets."""

KEPT_BLOCKS = 1
"""Blocks of memory that a request may leave behind; a record kept as an object needs more."""


class TimelessClock:
    """A clock that stands still, with as few calls as possible; its timers never fire."""

    def now_ms(self) -> int:
        return START_MS

    def call_soon(self, callback: Callable[[], None], /) -> object:
        return asyncio.get_running_loop().call_soon(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay + YEAR_SECONDS, callback)

    call_maintenance = call_later


class Counted:
    """A connection to a broker in this process."""

    async def start(self, directory: Path) -> None:
        """Start the broker, with a topic and a group member."""
        config = Config(
            overrides={
                **load.SETTINGS,
                "log.dirs": str(directory),
                "group.events.enable": "false",
            }
        )
        clock = TimelessClock()
        # With a constant timer, work on a slow machine is not split into slices.
        step_runner = StepRunner(clock, timer_s=lambda: 0.0)
        self.cluster = compose(config, clock, LocalDisk(), step_runner=step_runner)
        self.cluster.start()
        (broker,) = self.cluster.brokers.values()
        dispatcher = Dispatcher(broker, self.cluster.step_runner, handler_of)
        self.shared = Connections(config, clock, dispatcher.dispatch)
        self.connect(Connection(self.shared, "PLAINTEXT"))
        self.cluster.topics.create(load.TOPIC, load.PARTITIONS, {})
        self.cluster.offsets_topic.ensure()
        while broker.groups.is_loading:
            await asyncio.sleep(0)
        self.member = await self.rebalance("group")

    def connect(self, connection: Connection) -> None:
        """Use another connection from now on."""
        self.connection, self.transport = connection, FakeTransport()
        connection.connection_made(cast("Any", self.transport))

    def count(self, traffic: Traffic) -> CountedConnection:
        """Return a connection that counts its requests, and use it from now on."""
        (broker,) = self.cluster.brokers.values()
        step_runner = self.cluster.step_runner
        dispatcher = Dispatcher(broker, step_runner, handler_of, counter=traffic)
        self.shared.dispatch = dispatcher.dispatch
        connection = CountedConnection(self.shared, "PLAINTEXT")
        self.connect(connection)
        return connection

    async def rebalance(self, group: str, member_id: str = "") -> Member:
        """Let the only member of a group join or rejoin, and sync; return the member."""
        request = load.join_request(group, member_id)
        joined = await self.ask(request, load.JOIN_VERSION)
        member = Member(group, joined.member_id, joined.generation_id)
        await self.ask(load.sync_request(member, [joined.member_id]), load.SYNC_VERSION)
        return member

    async def ask(self, request: Message, version: int) -> Any:
        """Return the response to a request, and check that it has no error."""
        frame = frame_of(request, version)
        return load.decoded(frame, await self.answer(frame))

    async def answer(self, frame: bytes) -> bytes:
        """Let the connection receive a frame; return the written bytes."""
        written = self.transport.written
        self.connection.data_received(frame)
        for _ in range(100):
            if written:
                return written.pop()[4:]
            await asyncio.sleep(0)
        raise AssertionError("no answer")


class Calls:
    """A profile function that counts calls of our code."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if file.startswith((*OURS, "<")) and name not in COMPREHENSIONS:
            self.number += 1


async def counted_calls(ask: Callable[[], Awaitable[object]]) -> float:
    """Return the calls of our functions per request, the lowest of three means.

    On a busy machine steps take more turns of the loop, each with its own calls.
    """
    means = []
    for _ in range(3):
        calls = Calls()
        sys.setprofile(calls)
        try:
            for _ in range(COUNTED):
                await ask()
        finally:
            sys.setprofile(None)
        means.append(calls.number / COUNTED)
    return min(means)


async def peak_bytes(ask: Callable[[], Awaitable[object]]) -> int:
    """Return the lowest memory peak of some requests; a single peak may include a growing table."""
    tracemalloc.start()
    try:
        peaks = []
        for _ in range(COUNTED):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            await ask()
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return min(peaks)


async def kept_blocks(ask: Callable[[], Awaitable[object]]) -> float:
    """Return the blocks that a request leaves behind, averaged over many."""
    gc.collect()
    gc.disable()
    try:
        before = sys.getallocatedblocks()
        for _ in range(MANY):
            await ask()
        return (sys.getallocatedblocks() - before) / MANY
    finally:
        gc.enable()


def measured_frame(name: str, member: Member) -> bytes:
    """Return the frame of a request in the table."""
    partitions = 100 if "100" in name else 1
    if name.startswith("commit"):
        return load.commit(member, partitions, 1000)
    if name.startswith("offset fetch"):
        return load.offset_fetch(member, partitions)
    return {
        "heartbeat": lambda: load.heartbeat(member),
        "produce of 16 KB": lambda: load.produce(0, START_MS),
        "fetch of 16 KB": lambda: load.fetch(1),
    }[name]()


@pytest.mark.parametrize("name", BOUNDS)
async def test_a_request_costs_no_more_than_its_bounds(name: str, tmp_path: Path) -> None:
    """Calls and memory of each request on a hot path stay within the table of bounds."""
    broker = Counted()
    await broker.start(tmp_path / "data")
    for before in (load.produce(1, START_MS), load.commit(broker.member, load.PARTITIONS, 1000)):
        await broker.answer(before)
    frame = measured_frame(name, broker.member)

    async def ask() -> None:
        await broker.answer(frame)

    for _ in range(WARM_UP):
        load.decoded(frame, await broker.answer(frame))
    calls = await counted_calls(ask)
    peak = await peak_bytes(ask)
    kept = await kept_blocks(ask)
    await broker.cluster.stop()
    assert calls <= BOUNDS[name].calls
    assert peak <= BOUNDS[name].peak_bytes
    assert kept <= KEPT_BLOCKS


async def test_metrics_cost_no_calls(tmp_path: Path) -> None:
    """A heartbeat has the same bounds if metrics are counted; see benchmarks/metrics.py.

    Each heartbeat is counted once for the metrics and once for the connection.
    """
    broker = Counted()
    await broker.start(tmp_path / "data")
    counts = Counts().of(1)
    connection = broker.count(counts.traffic)
    frame = measured_frame("heartbeat", broker.member)

    async def ask() -> None:
        await broker.answer(frame)

    for _ in range(WARM_UP):
        load.decoded(frame, await broker.answer(frame))
    calls = await counted_calls(ask)
    peak = await peak_bytes(ask)
    kept = await kept_blocks(ask)
    await broker.cluster.stop()
    connection.settle()
    (heartbeats,) = counts.traffic.apis()
    (use,) = connection.uses.values()
    assert use.requests == heartbeats.answers == WARM_UP + 4 * COUNTED + MANY
    assert calls <= BOUNDS["heartbeat"].calls
    assert peak <= BOUNDS["heartbeat"].peak_bytes
    assert kept <= KEPT_BLOCKS


async def test_a_rebalance_costs_no_more_calls_than_its_bound(tmp_path: Path) -> None:
    """JoinGroup and SyncGroup of a group's only member stay within the bound of calls.

    The record in the log and the rebalance record are included.
    """
    broker = Counted()
    await broker.start(tmp_path / "data")
    group, member_id, _ = broker.member

    async def rebalance() -> None:
        await broker.rebalance(group, member_id)

    for _ in range(WARM_UP):
        await rebalance()
    calls = await counted_calls(rebalance)
    await broker.cluster.stop()
    assert calls <= REBALANCE_CALLS


async def bytes_taken(directory: Path) -> int:
    """Return the number of bytes that GROUPS idle groups use."""
    broker = Counted()
    await broker.start(directory)
    for number in range(WARM_UP):
        await broker.rebalance(f"before-{number}")
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(GROUPS):
        await broker.rebalance(f"group-{number}")
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    await broker.cluster.stop()
    return taken


def taken_by_groups(directory: Path) -> int:
    """Return the result of `bytes_taken`, measured in another process."""
    return asyncio.run(bytes_taken(directory))


def test_a_group_takes_no_more_memory_than_its_bound(tmp_path: Path) -> None:
    """An idle Stable group of one member stays within the memory bound.

    The bound includes the rebalance record. The memory is measured in another process, because
    clients of earlier tests use memory, too.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        taken = pool.submit(taken_by_groups, tmp_path / "data").result()
    assert taken / GROUPS <= GROUP_BYTES
