"""Time until every member is back in its group after a kill under load.

    python -m benchmarks.reconnecting

Members of many groups send heartbeats every few seconds, some in a closed loop. The broker is
killed and started again at the same port. Clients reconnect as those of Kafka do, with
`reconnect.backoff.ms` 50 and `reconnect.backoff.max.ms` 1000. A member is back when a heartbeat on
its new connection returns NONE: its group and its membership were restored.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from contextlib import suppress
from struct import unpack_from
from typing import NamedTuple

import uvloop

from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.codec import decoder
from tests.faults.client import frame_of
from tests.support import Broker

GROUPS, GROUP_SIZE, BUSY = 500, 10, 50
RUNS = 3
HEARTBEAT_INTERVAL_SECONDS = 3.0
BACKOFF_SECONDS, BACKOFF_MAX_SECONDS, BACKOFF_JITTER = 0.05, 1.0, 0.2
SETTINGS = {"group.initial.rebalance.delay.ms": "1000"}
LIMIT_SECONDS = 60.0
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 3, 2, 4
# Position of the error code: correlation id, tags and throttle time precede it.
_HEARTBEAT_ERROR = 9
_SYNC_ERROR = 8


class Reconnection(NamedTuple):
    """Seconds from the start of the new process until it listens, and until members are back."""

    listening_s: float
    median_s: float
    last_s: float
    lost: int
    """Members whose heartbeat was rejected, so that they would have to rejoin."""


def main() -> int:
    """Print a line per run; return 1 if a member took over five seconds or lost its membership."""
    print(f"\n{GROUPS} groups of {GROUP_SIZE} members, and {BUSY} members in a closed loop")
    print("run  listening s  median s  last s  lost")
    worst_s, lost = 0.0, 0
    for run in range(RUNS):
        result = measure(GROUPS, GROUP_SIZE, BUSY)
        print(
            f"{run + 1:3}  {result.listening_s:11.2f}  {result.median_s:8.2f}"
            f"  {result.last_s:6.2f}  {result.lost:4}"
        )
        worst_s, lost = max(worst_s, result.last_s), lost + result.lost
    return int(worst_s > 5 or lost > 0)


def measure(groups: int, group_size: int, busy: int) -> Reconnection:
    """Form the groups, kill and restart the broker, and wait for all members."""
    with (
        tempfile.TemporaryDirectory(prefix="reconnecting-") as directory,
        Broker(SETTINGS, data_dir=directory) as broker,
    ):
        return uvloop.run(_measure(broker, groups, group_size, busy))


async def _measure(broker: Broker, groups: int, group_size: int, busy: int) -> Reconnection:
    members = [_Member(broker.address, f"group-{n % groups}") for n in range(groups * group_size)]
    members += [_Member(broker.address, f"busy-{n}", 0.0) for n in range(busy)]
    async with asyncio.timeout(LIMIT_SECONDS), asyncio.TaskGroup() as tasks:
        for member in members:
            tasks.create_task(member.join())
    lives = [asyncio.create_task(member.live()) for member in members]
    # Wait until all members have sent heartbeats, spread over the interval.
    await asyncio.sleep(HEARTBEAT_INTERVAL_SECONDS)
    await asyncio.to_thread(broker.kill)
    await asyncio.sleep(BACKOFF_MAX_SECONDS)
    for member in members:
        member.back_s = None
    started_s = time.monotonic()
    await asyncio.to_thread(broker.start)
    listening_s = time.monotonic() - started_s
    async with asyncio.timeout(LIMIT_SECONDS):
        while any(member.back_s is None for member in members):
            await asyncio.sleep(0.02)
    for life in lives:
        life.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    times = sorted(member.back_s - started_s for member in members if member.back_s is not None)
    lost = sum(member.refused for member in members)
    return Reconnection(listening_s, times[len(times) // 2], times[-1], lost)


class _Member:
    """A group member.

    `back_s` is the time when the first heartbeat on its latest connection was answered.
    """

    def __init__(
        self,
        address: tuple[str, int],
        group_id: str,
        interval_s: float = HEARTBEAT_INTERVAL_SECONDS,
    ) -> None:
        self._address = address
        self._group_id = group_id
        self._interval_s = interval_s
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._heartbeat = b""
        self.back_s: float | None = None
        self.refused = False

    async def join(self) -> None:
        """Connect, join and sync."""
        await self._connect()
        join = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=30000,
            rebalance_timeout_ms=60000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        answer = await self._ask(frame_of(join, JOIN_VERSION))
        joined: JoinGroupResponse = decoder(JoinGroupResponse, JOIN_VERSION)(answer, 4)[0]
        assert not joined.error_code, joined
        sync = SyncGroupRequest(
            group_id=self._group_id,
            member_id=joined.member_id,
            generation_id=joined.generation_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"assigned")
                for member in joined.members
            ],
        )
        answer = await self._ask(frame_of(sync, SYNC_VERSION))
        assert unpack_from(">h", answer, _SYNC_ERROR)[0] == 0, answer
        heartbeat = HeartbeatRequest(
            group_id=self._group_id,
            member_id=joined.member_id,
            generation_id=joined.generation_id,
        )
        self._heartbeat = frame_of(heartbeat, HEARTBEAT_VERSION)

    async def live(self) -> None:
        """Send heartbeats, and reconnect if the connection is lost."""
        await asyncio.sleep(random.uniform(0, self._interval_s))
        backoff_s = BACKOFF_SECONDS
        while True:
            try:
                await self._beat()
            except (OSError, EOFError):
                self._writer.close()
            await asyncio.sleep(backoff_s * random.uniform(1, 1 + BACKOFF_JITTER))
            try:
                await self._connect()
            except OSError:
                backoff_s = min(backoff_s * 2, BACKOFF_MAX_SECONDS)
            else:
                backoff_s = BACKOFF_SECONDS

    async def _beat(self) -> None:
        """Send heartbeats until the connection is lost. Then raises OSError or EOFError."""
        while True:
            answer = await self._ask(self._heartbeat)
            if unpack_from(">h", answer, _HEARTBEAT_ERROR)[0]:
                self.refused = True
            if self.back_s is None:
                self.back_s = time.monotonic()
            if self._interval_s:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._interval_s):
                        # The broker sends nothing unasked, so this read ends only when the
                        # connection closes.
                        await self._reader.readexactly(1)

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._address)

    async def _ask(self, frame: bytes) -> bytes:
        if self._writer.is_closing():
            raise EOFError
        self._writer.write(frame)
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return await self._reader.readexactly(size)


if __name__ == "__main__":
    sys.exit(main())
