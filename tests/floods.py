"""Floods of clients that a broker must bear without slowing down its other clients.

Each flood runs in a separate process, so it does not slow down the process that measures:

    with flood("handshakes", secured) as done:
        ...
        done.value      # the number of handshakes so far
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from ctypes import c_int64
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import uvloop

from protocol.apis.sasl_authenticate import SaslAuthenticateRequest
from protocol.apis.sasl_handshake import SaslHandshakeRequest
from tests.faults.client import frame_of
from tests.scram import ServerFirst, final_message
from tests.secured import USER, Secured

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

CLIENTS = 200
STALLED = 1000
_MECHANISM = "SCRAM-SHA-256"

Address = tuple[str, int]


class Target(NamedTuple):
    """The broker's addresses and the credentials that a flood needs."""

    addresses: dict[str, Address]
    truststore: Path
    keystore: Path
    password: str

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of a client with a certificate."""
        made = ssl.create_default_context(cafile=self.truststore)
        made.load_cert_chain(self.keystore)
        return made


Count = Callable[[], None]


async def handshakes(target: Target, count: Count) -> None:
    """Complete full mutual TLS handshakes, CLIENTS at a time."""
    context = target.context()

    async def client() -> None:
        while True:
            async with _connected(target.addresses["MUTUAL"], context):
                count()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def logins(target: Target, count: Count, passwords: tuple[str, ...]) -> None:
    """Log in with SCRAM, CLIENTS at a time."""
    choice = itertools.cycle(passwords)

    async def client() -> None:
        while True:
            async with _connected(target.addresses["SASL"]) as (reader, writer):
                await _log_in(reader, writer, next(choice))
                count()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def stalled(target: Target, count: Count) -> None:
    """Hold STALLED connections that begin a TLS or SASL handshake and never finish it.

    Each connection is closed after one to three seconds and replaced by a new one.
    """
    outgoing = ssl.MemoryBIO()
    session = target.context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    hello = outgoing.read()
    shake = frame_of(SaslHandshakeRequest(mechanism=_MECHANISM), 1)
    beginnings = [
        ("MUTUAL", hello[:-1]),
        ("MUTUAL", hello),
        ("SASLTLS", hello[:100]),
        ("SASL", shake[:-1]),
        ("SASL", shake),
        ("SASL", b""),
    ]

    async def client(listener: str, beginning: bytes, seconds: float) -> None:
        while True:
            async with _connected(target.addresses[listener]) as (_, writer):
                writer.write(beginning)
                count()
                await asyncio.sleep(seconds)

    clients = zip(range(STALLED), itertools.cycle(beginnings), strict=False)
    await asyncio.gather(*(client(*one, 1 + number / 500) for number, one in clients))


FLOODS: dict[str, Callable[[Target, Count], Awaitable[None]]] = {
    "handshakes": handshakes,
    "right passwords": lambda target, count: logins(target, count, (target.password,)),
    "wrong passwords": lambda target, count: logins(target, count, ("wrong",)),
    "stalled": stalled,
}
"""Floods by name."""


@contextmanager
def flood(name: str, secured: Secured) -> Iterator[Synchronized[int]]:
    """Run a flood from FLOODS in another process; yield a counter of its completed operations."""
    target = Target(dict(secured.addresses), secured.truststore, secured.keystore, secured.password)
    context = multiprocessing.get_context("spawn")
    done = context.Value(c_int64)
    process = context.Process(target=_run, args=(name, target, done), daemon=True)
    process.start()
    try:
        yield done
        assert process.is_alive(), "the flood has ended"
    finally:
        process.kill()
        process.join()


def _run(name: str, target: Target, done: Synchronized[int]) -> None:
    def count() -> None:
        done.value += 1  # no lock is needed, because only this process writes the counter

    async def run() -> None:
        await FLOODS[name](target, count)

    uvloop.run(run())


@asynccontextmanager
async def _connected(
    address: Address, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    name = "127.0.0.1" if context else None
    reader, writer = await asyncio.open_connection(*address, ssl=context, server_hostname=name)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def _log_in(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, password: str
) -> None:
    async def ask(request: bytes) -> bytes:
        writer.write(request)
        size = struct.unpack(">i", await reader.readexactly(4))[0]
        return await reader.readexactly(size)

    await ask(frame_of(SaslHandshakeRequest(mechanism=_MECHANISM), 1))
    bare = f"n={USER},r=flood"
    first = await ask(frame_of(SaslAuthenticateRequest(auth_bytes=f"n,,{bare}".encode()), 1))
    server_first = ServerFirst.found_in(first)
    assert server_first is not None
    final = final_message("sha256", password, bare, server_first)
    answer = await ask(frame_of(SaslAuthenticateRequest(auth_bytes=final), 1))
    assert (b"v=" in answer) == (password != "wrong")
