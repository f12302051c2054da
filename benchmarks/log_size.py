"""Size of the offsets log under commits, compared with the live data.

    python -m benchmarks.log_size --seconds 600 --rate 20000
    python -m benchmarks.log_size --seconds 600 --rate 0        # as fast as the broker answers

Groups commit 100 partitions repeatedly, one request per group. After the first round the live data
is constant, and compaction must remove everything else. `live` is the size of the log after the
first round. Sizes include all files of the topic, also indexes and incomplete files.
`benchmarks.neighbours` measures the heartbeats of other members meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import uvloop

from benchmarks.load import COMMIT_VERSION, PARTITIONS, TOPIC, client_of, ensure_topic
from protocol.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.faults.client import frame_of
from tests.support import Broker

ALTER_CONFIGS_VERSION = 1
OFFSET_MARK = 0x5ACE_0FF5_E75A_CE00
SAMPLE_SECONDS = 0.1
TICK_SECONDS = 0.005


class Sizes(NamedTuple):
    """The result of a run: bytes, seconds, and commits of single partitions."""

    live_bytes: int
    largest_bytes: int
    commits_per_second: float
    cpu_us_per_commit: float
    longest_answer_ms: float

    @property
    def worst_ratio(self) -> float:
        """The largest size of the log relative to its live data."""
        return self.largest_bytes / self.live_bytes


class Load:
    """Commits over several connections, at a given rate or as fast as the broker responds."""

    def __init__(self, broker: Broker, data: Path, groups: int, connections: int) -> None:
        self._broker = broker
        self._data = data
        self._groups = groups
        self._connections = connections
        self._committers: list[_Committer] = []
        self.live_bytes = 0

    async def begin(self) -> None:
        """Create the topic, connect, and commit every offset once, which gives the live data."""
        with client_of(self._broker) as asking:
            ensure_topic(asking)
        frames = [_commit_frame(f"group-{number}") for number in range(self._groups)]
        loop = asyncio.get_running_loop()
        for number in range(self._connections):
            own = frames[number :: self._connections]
            _, client = await loop.create_connection(
                partial(_Committer, own), *self._broker.address
            )
            self._committers.append(client)
        await self.commit_each()
        self.live_bytes = log_bytes(self._data, ".log")

    async def commit_each(self) -> None:
        """Commit every offset once, as fast as the broker responds."""
        for client in self._committers:
            client.allow(len(client.frames))
        while any(client.waiting for client in self._committers):
            await asyncio.sleep(TICK_SECONDS)

    async def run(self, seconds: float, rate: int) -> Sizes:
        """Commit for `seconds`, at `rate` offsets per second (0: no limit), and watch the log."""
        live, largest = self.live_bytes, 0
        answers, cpu = self._answers(), self._broker.cpu_seconds()
        for client in self._committers:
            client.longest_seconds = 0.0
        started = now = time.monotonic()
        next_sample, sent = started, 0
        turn = 0
        while now < started + seconds:
            if rate:
                due = int((now - started) * rate / PARTITIONS)
                for _ in range(due - sent):
                    self._committers[turn].allow(1)
                    turn = (turn + 1) % len(self._committers)
                sent = due
            else:
                for client in self._committers:
                    client.allow(max(0, 4 - client.waiting))
            if now >= next_sample:
                largest = max(largest, log_bytes(self._data))
                next_sample = now + SAMPLE_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
        commits = (self._answers() - answers) * PARTITIONS
        return Sizes(
            live,
            largest,
            commits / (now - started),
            (self._broker.cpu_seconds() - cpu) / max(commits, 1) * 1e6,
            max(client.longest_seconds for client in self._committers) * 1000,
        )

    async def end(self) -> None:
        """Close the connections."""
        for client in self._committers:
            client.close()

    def _answers(self) -> int:
        return sum(client.answers for client in self._committers)


class _Committer(asyncio.Protocol):
    """One connection that commits group after group, one request at a time."""

    def __init__(self, frames: list[bytes]) -> None:
        self.frames = frames
        self.answers = 0
        self.waiting = 0
        self.longest_seconds = 0.0
        self._received = b""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; nothing is sent before `allow`."""
        self._transport = cast("asyncio.Transport", transport)

    def allow(self, requests: int) -> None:
        """Allow this number of additional requests."""
        is_idle = not self.waiting
        self.waiting += requests
        if is_idle and self.waiting:
            self._send()

    def data_received(self, data: bytes) -> None:
        """Check that the response has no error, and send the next request."""
        self._received += data
        if len(self._received) < 4:
            return
        size = 4 + int.from_bytes(self._received[:4], "big")
        if len(self._received) < size:
            return
        assert len(self._received) == size == _ANSWER_BYTES, self._received
        assert not any(self._received[_FIRST_ERROR:size:_ERROR_STRIDE]), self._received
        self._received = b""
        self.longest_seconds = max(self.longest_seconds, time.monotonic() - self._sent_at)
        self.answers += 1
        self.waiting -= 1
        if self.waiting:
            self._send()

    def _send(self) -> None:
        frame = self.frames[self.answers % len(self.frames)]
        self._sent_at = time.monotonic()
        self._transport.write(frame.replace(_MARK, struct.pack(">q", self.answers)))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


_MARK = struct.pack(">q", OFFSET_MARK)
# The position of the low byte of the first error code. Before this byte: length 4, correlation id
# 4, tags 1, throttle time 4, topic count 1, topic name 6, partition count 1, index 4, high byte 1.
# Each partition takes 7 bytes: index 4, error code 2, tags 1. The tags of the topic and of the
# response follow.
_FIRST_ERROR = 4 + 4 + 1 + 4 + 1 + 6 + 1 + 5
_ERROR_STRIDE = 7
_ANSWER_BYTES = 4 + 4 + 1 + 4 + 1 + 6 + 1 + 7 * PARTITIONS + 2


def log_bytes(data: Path, suffix: str = "") -> int:
    """Return the size of all files of the offsets topic, or of those that end with `suffix`."""
    total = 0
    for directory in data.glob("__consumer_offsets-*"):
        try:
            entries = list(os.scandir(directory))
        except FileNotFoundError:
            continue
        for entry in entries:
            if entry.name.endswith(suffix):
                try:
                    total += entry.stat().st_size
                except FileNotFoundError:
                    continue  # compaction has removed the file
    return total


def _commit_frame(group: str) -> bytes:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=OFFSET_MARK, committed_metadata=""
        )
        for number in range(PARTITIONS)
    ]
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    return frame_of(
        OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=[topic]),
        COMMIT_VERSION,
    )


def switch_compaction(broker: Broker, *, on: bool) -> None:
    """Turn compaction of the offsets topic on, or keep every record."""
    values = {"cleanup.policy": "compact" if on else "delete", "retention.ms": "-1"}
    configs = [
        AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in values.items()
    ]
    resource = AlterConfigsResource(
        resource_type=2, resource_name="__consumer_offsets", configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    with broker.connect() as wire:
        wire.ask(frame_of(request, ALTER_CONFIGS_VERSION))


async def _sizes(load: Load, seconds: float, rate: int) -> None:
    await load.begin()
    print(f"live {load.live_bytes / 1e6:.2f} MB")
    header = "  until   commits/s  CPU us per commit   largest MB   ratio   longest answer ms"
    print(header)
    worst, elapsed = 0.0, 0.0
    while elapsed < seconds:
        window = min(30.0, seconds - elapsed)
        sizes = await load.run(window, rate)
        elapsed += window
        worst = max(worst, sizes.worst_ratio)
        print(
            f"{elapsed:7.0f}{sizes.commits_per_second:12.0f}{sizes.cpu_us_per_commit:19.2f}"
            f"{sizes.largest_bytes / 1e6:13.2f}{sizes.worst_ratio:8.2f}"
            f"{sizes.longest_answer_ms:20.0f}",
            flush=True,
        )
    print(f"worst ratio {worst:.2f}")
    await load.end()


def main() -> int:
    """Run the benchmark and print the table."""
    parser = argparse.ArgumentParser(
        description="Measure the size of the offsets log while groups commit."
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=20_000, help="offsets per second; 0: no limit")
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        settings = {"group.initial.rebalance.delay.ms": "0"}
        with Broker(settings, data_dir=data) as broker:
            load = Load(broker, data, arguments.groups, arguments.connections)
            uvloop.run(_sizes(load, arguments.seconds, arguments.rate))
            broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
