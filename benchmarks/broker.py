"""The broker process under load: CPU per heartbeat, CPU until `listening`, memory.

    python -m benchmarks.broker

Each connection is a member of a group of its own, has joined and synced, and sends its next
heartbeat when the last one is answered: the closed loop of a busy test, through the whole way of a
request (socket, framing, codec, the group's task and back).
"""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from functools import partial
from typing import cast

import uvloop

from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol.apis.sync_group import SyncGroupRequest
from protocol.codec import decoder
from tests.faults.client import frame_of
from tests.support import Broker, Wire

CONNECTIONS = (1, 10, 100)
WARM_UP_SECONDS = 0.5
WINDOW_SECONDS = 2.0
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 3, 2, 4


def main() -> int:
    """Print the tables."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with Broker(settings) as broker:
        start_ms, idle_mb = broker.cpu_seconds() * 1000, broker.resident_mb()
        print(f"\nstart: {start_ms:.0f} ms of CPU until `listening`, {idle_mb:.0f} MB\n")
        print("connections  heartbeats/s  CPU us per heartbeat")
        for connections in CONNECTIONS:
            rate, cpu_us = uvloop.run(_heartbeats(broker, connections))
            print(f"{connections:11}  {rate:12.0f}  {cpu_us:20.1f}")
        broker.stop()
    return 0


async def _heartbeats(broker: Broker, connections: int) -> tuple[float, float]:
    """Heartbeats a second, and the broker's CPU for one in microseconds."""
    frames = [_heartbeat(broker, f"group-{connections}-{number}") for number in range(connections)]
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(partial(_Heart, beat), *broker.address))[1] for beat in frames
    ]
    await asyncio.sleep(WARM_UP_SECONDS)
    count, cpu, started = _sum(clients), broker.cpu_seconds(), time.monotonic()
    await asyncio.sleep(WINDOW_SECONDS)
    count, cpu = _sum(clients) - count, broker.cpu_seconds() - cpu
    seconds = time.monotonic() - started
    for client in clients:
        client.close()
    return count / seconds, cpu / count * 1e6


def _sum(clients: list[_Heart]) -> int:
    return sum(client.answers for client in clients)


def _heartbeat(broker: Broker, group: str) -> bytes:
    """The frame of the heartbeat of the only member of a new group."""
    member = joined_member(broker, group)
    beat = HeartbeatRequest(
        group_id=group, member_id=member.member_id, generation_id=member.generation_id
    )
    return frame_of(beat, HEARTBEAT_VERSION)


def joined_member(broker: Broker, group: str) -> JoinGroupResponse:
    """Join and sync as the only member of a group; returns the answer to the JoinGroup."""
    with broker.connect() as wire:
        joined = _joined(wire, group)
        sync = SyncGroupRequest(
            group_id=group, member_id=joined.member_id, generation_id=joined.generation_id
        )
        wire.ask(frame_of(sync, SYNC_VERSION))
    return joined


def _joined(wire: Wire, group: str) -> JoinGroupResponse:
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=300000,
        rebalance_timeout_ms=300000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    answer = wire.ask(frame_of(join, JOIN_VERSION))
    return decoder(JoinGroupResponse, JOIN_VERSION)(answer, 4)[0]


class _Heart(asyncio.Protocol):
    """Sends the next heartbeat when the last one is answered."""

    def __init__(self, beat: bytes) -> None:
        self._beat = beat
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._beat)

    def data_received(self, data: bytes) -> None:
        """An answer has 16 bytes and no error."""
        assert len(data) == 16, data
        assert struct.unpack_from(">h", data, 13)[0] == 0, data
        self.answers += 1
        self._transport.write(self._beat)

    def close(self) -> None:
        """End the loop."""
        self._transport.close()


if __name__ == "__main__":
    sys.exit(main())
