"""Random frames: well-formed requests with random values, damaged requests, and garbage.

All frames follow from one seed. The client keeps many connections open, because a random request
may wait at the broker (a Fetch, a JoinGroup). The client gives up a connection that has no response
GIVE_UP_SECONDS after the broker has answered on another, new connection: thus a slow machine is not
mistaken for a waiting request.
"""

from __future__ import annotations

import asyncio
import random
import struct
from functools import partial
from typing import Any

from protocol.codec import encoder
from protocol.registry import SPECS, ApiSpec
from protocol.schema import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT16,
    UUID,
    ArrayType,
    Field,
    Message,
)
from tests.support import API_VERSIONS_REQUEST, frame

_INTEGERS = {INT8: 7, INT16: 15, UINT16: 15, INT32: 31, INT64: 63}
# With few names, requests use existing resources, and the broker's state stays small.
_NAMES = (
    "",
    "a",
    "b",
    "orders",
    "consumer",
    "range",
    "__consumer_offsets",
    "\u00e9\u4e2d",
    "x" * 300,
)

# UnregisterBroker is left out because it stops the broker.
HARMLESS = tuple(spec for spec in SPECS if spec.name != "UnregisterBroker")
CONNECTIONS = 256
FRAMES_PER_CONNECTION = 40
GIVE_UP_SECONDS = 0.3


class Generator:
    """Generates random request frames."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def frames(self, count: int) -> list[bytes]:
        """Return `count` frames: mostly well-formed, some damaged, a few garbage."""
        return [self._one() for _ in range(count)]

    def _one(self) -> bytes:
        kind = self._random.random()
        if kind < 0.02:
            return frame(self._random.randbytes(self._random.randint(1, 60)))
        spec = self._random.choice(HARMLESS)
        version = self._random.randint(spec.min_version, spec.max_version)
        payload = self._header(spec, version) + self._body(spec, version)
        if kind < 0.04:
            return frame(self._header(spec, version) + self._random.randbytes(30))
        if kind < 0.08:
            payload = self._damaged(payload)
        return frame(payload)

    def _header(self, spec: ApiSpec, version: int) -> bytes:
        head = struct.pack(">hhih", spec.key, version, self._random.getrandbits(31), 4) + b"fuzz"
        return head + (b"\x00" if spec.request_header_version(version) == 2 else b"")

    def _body(self, spec: ApiSpec, version: int) -> bytes:
        message = self._message(spec.request_type, version)
        if getattr(message, "acks", None) == 0:
            message.acks = 1  # acks=0 has no response, but the test counts one response per request
        return encoder(spec.request_type, version)(message)

    def _damaged(self, payload: bytes) -> bytes:
        position = self._random.randrange(len(payload))
        what = self._random.randrange(3)
        if what == 0:
            return payload[: max(position, 1)]
        damaged = bytearray(payload)
        if what == 1:
            damaged[position] = self._random.getrandbits(8)
        else:
            damaged[position:position] = self._random.randbytes(5)
        return bytes(damaged)

    def _message(self, message_type: type[Message], version: int) -> Any:
        message = message_type()
        for field in message_type.FIELDS:
            if field.in_version(version):
                setattr(message, field.name, self._value(field, version))
        return message

    def _value(self, field: Field, version: int) -> Any:
        if field.nullable_in(version) and self._random.random() < 0.3:
            return None
        return self._value_of_type(field.type, version)

    def _value_of_type(self, kind: Any, version: int) -> Any:
        pick = self._random
        if isinstance(kind, type):
            return self._message(kind, version)
        if isinstance(kind, ArrayType):
            count = pick.choice((0, 1, 1, 2))
            return [self._value_of_type(kind.element, version) for _ in range(count)]
        if kind is BOOL:
            return pick.random() < 0.5
        if kind is UUID:
            return bytes(16) if pick.random() < 0.5 else pick.randbytes(16)
        if kind in _INTEGERS:
            most = 2 ** _INTEGERS[kind] - 1
            least = 0 if kind is UINT16 else -1
            return pick.choice((0, 0, 1, 1, least, 3, 100, most, pick.randint(least, most)))
        if kind is FLOAT64:
            return pick.choice((0.0, -1.0, 0.5, 1e300, float("inf"), float("nan")))
        if kind.name in ("STRING", "PLAIN_STRING"):
            return pick.choice(_NAMES)
        return pick.randbytes(pick.choice((0, 1, 20, 100)))


class Fuzzer:
    """Sends random frames to a broker until enough frames were handled.

    `answered` counts answered frames, `closed` counts frames for which the broker closed the
    connection, and `given_up` counts connections without a response.
    """

    def __init__(self, address: tuple[str, int], seed: int) -> None:
        self._address = address
        self._random = random.Random(seed)
        self._pool = Generator(seed).frames(20_000)
        self.answered = 0
        self.closed = 0
        self.given_up = 0

    @property
    def handled(self) -> int:
        """Return the number of frames that the broker answered or refused."""
        return self.answered + self.closed

    async def run(self, frames: int) -> None:
        """Keep CONNECTIONS busy until `frames` frames were handled."""
        await asyncio.gather(*(self._keep_busy(frames) for _ in range(CONNECTIONS)))

    async def _round_trip(self) -> None:
        """Wait for a response on a new connection: the broker has then read all earlier frames."""
        reader, writer = await asyncio.open_connection(*self._address)
        writer.write(API_VERSIONS_REQUEST)
        await reader.readexactly(4)
        writer.transport.abort()

    async def _keep_busy(self, frames: int) -> None:
        loop = asyncio.get_running_loop()
        while self.handled < frames:
            sent = self._random.choices(self._pool, k=FRAMES_PER_CONNECTION)
            transport, connection = await loop.create_connection(
                partial(_Connection, len(sent)), *self._address
            )
            transport.write(b"".join(sent))
            before = -1
            while not connection.done.done() and connection.answers > before:
                before = connection.answers
                await self._round_trip()
                await asyncio.wait([connection.done], timeout=GIVE_UP_SECONDS)
            self.answered += connection.answers
            if connection.was_closed:
                self.closed += 1
            elif not connection.done.done():
                self.given_up += 1
            transport.abort()


class _Connection(asyncio.Protocol):
    """Counts responses; `done` is set once all have arrived or the broker closed the connection."""

    def __init__(self, expected: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answers = 0
        self.was_closed = False
        self._expected = expected
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        """Count the complete frames received."""
        data = self._rest + data
        position = 0
        while len(data) - position >= 4:
            end = position + 4 + int(struct.unpack_from(">i", data, position)[0])
            if end > len(data):
                break
            position = end
            self.answers += 1
        self._rest = data[position:]
        if self.answers >= self._expected and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the broker closed the connection before all responses had arrived."""
        if not self.done.done():
            self.was_closed = True
            self.done.set_result(None)
