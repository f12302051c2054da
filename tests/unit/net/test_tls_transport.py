"""TLS between a socket and a connection, without sockets: order, back-pressure, short turns."""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from coordinator_server.config.config import Config
from coordinator_server.net import tls_transport
from coordinator_server.net.connection import Connection
from coordinator_server.net.tls_transport import (
    HANDSHAKE_SECONDS,
    PIECE_BYTES,
    STEP_BYTES,
    TlsTransport,
)
from coordinator_server.net.turns import Turns
from coordinator_server.security.listener_security import ListenerSecurity
from tests.certificates import Authority
from tests.support import frame
from tests.unit.net.fakes import FakeNetwork, FakeTransport

AUTHORITY = Authority()
BROKER = AUTHORITY.issue("broker")


class Socket(FakeTransport):
    """The TCP transport under the TLS transport; it accepts all data unless a test sets it full."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = asyncio.Event()

    def abort(self) -> None:
        super().abort()
        self.gone.set()

    def get_extra_info(self, name: str, default: object = None) -> tuple[str, int]:
        return super().get_extra_info(name)

    def is_closing(self) -> bool:
        return self.closed or self.aborted


class Client:
    """A client whose bytes are exchanged when `pump` is called."""

    def __init__(
        self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, secrets: Path | None = None
    ) -> None:
        context = ssl.create_default_context(cadata=AUTHORITY.pem().decode())
        context.minimum_version = context.maximum_version = version
        if secrets is not None:
            context.keylog_filename = str(secrets)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.received = b""

    def take(self, socket: Socket) -> None:
        """Take the bytes that the broker has written."""
        self.incoming.write(b"".join(socket.written))
        socket.written.clear()

    def read(self) -> bytes:
        """Return the decrypted bytes so far."""
        with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while data := self.session.read(1 << 20):
                self.received += data
        return self.received


def of_label(secret: bytes, label: str, length: int) -> bytes:
    """Return HKDF-Expand-Label of TLS 1.3 with SHA-384."""
    name = b"tls13 " + label.encode()
    info = length.to_bytes(2) + len(name).to_bytes() + name + b"\0"
    return HKDFExpand(hashes.SHA384(), length, info).derive(secret)


def key_updates(secret: bytes, count: int) -> bytes:
    """Return records that request new keys, from a client that has sent nothing yet."""
    records = []
    for _ in range(count):
        key, nonce = of_label(secret, "key", 32), of_label(secret, "iv", 12)
        # A KeyUpdate with update_requested, in a handshake record.
        content = bytes.fromhex("18 000001 01 16")
        head = bytes.fromhex("17 0303") + (len(content) + 16).to_bytes(2)
        records.append(head + AESGCM(key).encrypt(nonce, content, head))
        secret = of_label(secret, "traffic upd", 48)
    return b"".join(records)


class World:
    """Connections with TLS over fake sockets."""

    def __init__(self, **settings: str) -> None:
        given = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": BROKER.key_pem().decode(),
            "ssl.keystore.certificate.chain": BROKER.chain_pem().decode(),
            "listeners": "SSL://:9093",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        self.network = FakeNetwork(given)
        self.security = ListenerSecurity(Config(overrides=given), "SSL")
        self.turns = Turns(HANDSHAKE_SECONDS)
        self.reports: list[str] = []

    def connect(self) -> tuple[TlsTransport, Socket, Connection]:
        """Return a client's connection."""
        connection = Connection(self.network.connections, "SSL")
        transport = TlsTransport(
            connection,
            self.security,
            self.turns,
            lambda _, reason: self.reports.append(reason),
        )
        socket = Socket()
        transport.connection_made(cast(Any, socket))
        return transport, socket, connection

    async def established(
        self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, secrets: Path | None = None
    ) -> tuple[Client, TlsTransport, Socket, Connection]:
        """Return a connection after its handshake; the client's secrets are written to a file."""
        client = Client(version, secrets)
        transport, socket, connection = self.connect()
        for _ in range(4):
            with suppress(ssl.SSLWantReadError):
                client.session.do_handshake()
            if client.outgoing.pending:
                transport.data_received(client.outgoing.read())
            await asyncio.sleep(0)
            client.take(socket)
        client.read()  # read the session tickets of TLS 1.3
        return client, transport, socket, connection


async def test_requests_and_answers() -> None:
    """The dispatcher gets the frames that were sent, and the client gets the responses."""
    world = World()
    client, transport, socket, connection = await world.established()
    client.session.write(frame(b"one") + frame(b"two"))
    transport.data_received(client.outgoing.read())
    assert world.network.frames == [frame(b"one")]
    connection.answer(b"\0\0\0\1", b"1")
    assert world.network.frames == [frame(b"one"), frame(b"two")]
    connection.answer(b"\0\0\0\1", b"2")
    client.take(socket)
    assert client.read() == b"\0\0\0\0011\0\0\0\0012"
    assert connection.remote == "10.0.0.7:40000"


async def test_a_record_in_pieces() -> None:
    """However the stream is split, the frame arrives once and whole."""
    world = World()
    client, transport, _, _ = await world.established()
    client.session.write(frame(b"x" * 40_000)[:16_384])
    client.session.write(frame(b"x" * 40_000)[16_384:32_768])
    client.session.write(frame(b"x" * 40_000)[32_768:])
    sent = client.outgoing.read()
    for start in range(0, len(sent), 7_001):
        transport.data_received(sent[start : start + 7_001])
    assert world.network.frames == [frame(b"x" * 40_000)]


async def test_the_connection_counts_before_its_handshake() -> None:
    """A connection is counted before its handshake, for limits and for the broker's stop."""
    world = World(max_connections="1")
    world.connect()
    assert len(world.network.connections) == 1
    slots = world.network.connections.slots
    assert slots.refusal("SSL") == "max.connections of the listener is 1"


async def test_a_failed_handshake_sends_its_alert() -> None:
    """A failed handshake sends its alert and is logged once."""
    world = World()
    transport, socket, _ = world.connect()
    transport.data_received(b"\x16\x03\x01\x00\x05hello")
    await asyncio.sleep(0)
    assert socket.closed
    assert b"".join(socket.written)[0] == 0x15
    transport.data_received(b"more")
    await asyncio.sleep(0)
    transport.connection_lost(None)
    assert world.reports == ["the TLS handshake failed: unexpected message"]
    assert not len(world.network.connections)


async def test_a_client_that_goes_away_in_its_handshake() -> None:
    """A client that disconnects during its handshake is logged, but not if it sent no data."""
    world = World()
    transport, _, _ = world.connect()
    transport.connection_lost(None)
    assert world.reports == []
    transport, _, _ = world.connect()
    transport.data_received(b"\x16\x03\x01")
    transport.connection_lost(None)
    assert world.reports == ["the client closed the connection in the TLS handshake"]


async def test_a_handshake_that_takes_too_long() -> None:
    """A connection whose handshake takes longer than ssl.handshake.timeout.ms is closed."""
    world = World(ssl_handshake_timeout_ms="1")
    _, socket, _ = world.connect()
    await asyncio.wait_for(socket.gone.wait(), 10)
    assert world.reports == ["the TLS handshake was not done within 1 ms"]


async def test_handshakes_share_a_turn() -> None:
    """When the time of a turn is over, later handshakes wait for the next turn, in order."""
    turns, done = Turns(0.0), list[int]()
    for number in range(3):
        turns.await_turn(partial(done.append, number))
    seen = []
    for _ in range(4):
        await asyncio.sleep(0)
        seen.append(list(done))
    assert seen[-1] == [0, 1, 2]
    assert [0] in seen
    assert [0, 1] in seen


async def test_a_handshake_is_not_read_without_end() -> None:
    """Bytes that wait for their turn pause reading from the socket until the handshake fails."""
    world = World()
    transport, socket, _ = world.connect()
    transport.data_received(b"\x16\x03\x01\x00\x05" + bytes(100_000))
    assert not socket.reading
    await asyncio.sleep(0)
    assert socket.closed


async def test_a_long_answer_goes_out_in_steps() -> None:
    """A long response is written in steps while the socket accepts it; the connection waits."""
    world = World()
    client, transport, socket, connection = await world.established()
    client.session.write(frame(b"one") + frame(b"two"))
    transport.data_received(client.outgoing.read())
    body = bytes(range(256)) * 4096  # the response body has 1 MiB
    connection.answer(b"\0\x10\0\0", body)
    assert sum(map(len, socket.written)) <= STEP_BYTES * 1.1
    was_paused = connection.write_is_paused
    assert transport.get_write_buffer_size() >= len(body) - STEP_BYTES
    transport.pause_writing()
    for _ in range(10):
        await asyncio.sleep(0)
    assert sum(map(len, socket.written)) <= STEP_BYTES * 1.1
    assert world.network.frames == [frame(b"one")]
    transport.resume_writing()
    for _ in range(10):
        await asyncio.sleep(0)
    assert (was_paused, connection.write_is_paused) == (True, False)
    client.take(socket)
    assert client.read() == b"\0\x10\0\0" + body
    assert world.network.frames == [frame(b"one"), frame(b"two")]


async def test_answers_in_parts() -> None:
    """The parts of a response are written in order, and later writes follow them."""
    world = World()
    client, transport, socket, _ = await world.established()
    transport.pause_writing()
    transport.writelines([b"a", b"", memoryview(b"b" * 70_000)])
    transport.write(b"c")
    assert socket.written == []
    transport.resume_writing()
    client.take(socket)
    assert client.read() == b"a" + b"b" * 70_000 + b"c"


async def test_a_paused_connection_gets_nothing() -> None:
    """Input of a paused connection is not decrypted, and its socket is not read."""
    world = World()
    client, transport, socket, connection = await world.established()
    client.session.write(frame(b"one"))
    for _ in range(40):
        client.session.write(frame(bytes(16_000)))
    transport.data_received(client.outgoing.read())
    assert not socket.reading
    assert connection.answer_is_due
    while len(world.network.frames) < 41:
        if connection.answer_is_due:
            connection.answer(b"", b".")
        await asyncio.sleep(0)
    assert socket.reading


async def test_closing_sends_all_and_says_so() -> None:
    """Closing sends pending responses, then the close_notify alert, then closes the socket."""
    world = World()
    client, transport, socket, connection = await world.established()
    transport.pause_writing()
    transport.write(b"answer")
    connection.close()
    transport.write(b"too late")
    was_closed = socket.closed
    transport.resume_writing()
    assert (was_closed, socket.closed) == (False, True)
    client.take(socket)
    assert client.read() == b"answer"
    assert client.session.read(1) == b""


async def test_a_client_that_closes() -> None:
    """After close_notify the broker handles the requests before it, then closes the socket."""
    world = World()
    client, transport, socket, _ = await world.established()
    client.session.write(frame(b"one"))
    with suppress(ssl.SSLWantReadError):
        client.session.unwrap()
    transport.data_received(client.outgoing.read())
    assert world.network.frames == [frame(b"one")]
    assert socket.closed


async def test_bytes_that_are_no_tls_any_more() -> None:
    """Bytes that are not TLS close the connection, with a log line."""
    world = World()
    _, transport, socket, _ = await world.established()
    transport.data_received(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert socket.closed
    assert world.reports[0].startswith("TLS failed: ")


async def test_an_abort() -> None:
    """An abort closes the socket at once, and no data follows."""
    world = World()
    client, transport, socket, connection = await world.established()
    transport.resume_reading()
    connection.abort()
    client.session.write(frame(b"one"))
    transport.data_received(client.outgoing.read())
    await asyncio.sleep(0)
    assert socket.aborted
    assert world.network.frames == []


async def test_a_limit_on_the_suites_of_tls_13() -> None:
    """A client with a disabled TLS 1.3 suite is closed after the handshake.

    Python cannot refuse the suite earlier.
    """
    world = World(ssl_cipher_suites="TLS_AES_128_GCM_SHA256")
    _, _, socket, _ = await world.established()
    if hasattr(ssl.SSLContext, "set_ciphersuites"):
        return
    assert socket.closed
    assert "cipher suite TLS_AES_256_GCM_SHA384 is not in ssl.cipher.suites" in world.reports[0]


async def test_a_client_that_closes_and_sends_on() -> None:
    """After close_notify no input is read or stored, and pending responses are still sent."""
    world = World()
    client, transport, socket, _ = await world.established()
    transport.pause_writing()
    transport.write(b"answer")
    with suppress(ssl.SSLWantReadError):
        client.session.unwrap()
    transport.data_received(client.outgoing.read())
    assert not socket.reading
    for _ in range(10):
        transport.data_received(bytes(100_000))
    assert transport._incoming.pending == 0
    transport.resume_writing()
    await asyncio.sleep(0)
    assert (socket.closed, socket.reading) == (True, False)
    client.take(socket)
    assert client.read() == b"answer"


async def test_a_client_that_asks_for_keys_and_reads_nothing(tmp_path: Path) -> None:
    """A client that sends KeyUpdate requests but does not read is no longer read from.

    Reading resumes when the client has read the TLS replies.
    """
    world = World()
    _, transport, socket, _ = await world.established(secrets=tmp_path / "secrets")
    found = re.search(r"CLIENT_TRAFFIC_SECRET_0 \w+ (\w+)", (tmp_path / "secrets").read_text())
    assert found is not None
    records = key_updates(bytes.fromhex(found[1]), 100)
    half = len(records) // 2
    transport.data_received(records[:half])
    assert socket.reading
    assert len(socket.written) == 1
    transport.pause_writing()
    transport.data_received(records[half:])
    was_read = socket.reading
    transport.resume_writing()
    await asyncio.sleep(0)
    assert (was_read, socket.reading) == (False, True)
    assert not socket.closed


async def test_requests_for_keys_share_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large input is passed to OpenSSL in pieces; a request behind it arrives whole."""
    monkeypatch.setattr(tls_transport, "TURN_SECONDS", 0.0)
    world = World()
    _, transport, socket, _ = await world.established(secrets=tmp_path / "secrets")
    found = re.search(r"CLIENT_TRAFFIC_SECRET_0 \w+ (\w+)", (tmp_path / "secrets").read_text())
    assert found is not None
    records = key_updates(bytes.fromhex(found[1]), 2 * PIECE_BYTES // 27)
    answered: list[int] = []
    transport.data_received(records)
    while not socket.reading:
        answered.append(sum(map(len, socket.written)))
        await asyncio.sleep(0)
    assert answered[0] <= PIECE_BYTES
    assert answered == sorted(answered)
    assert sum(map(len, socket.written)) > len(records) * 0.9


async def test_a_handshake_in_pieces() -> None:
    """Pieces of data that arrive with the end of the handshake are all handled."""
    world = World()
    client = Client()
    transport, socket, _ = world.connect()
    with suppress(ssl.SSLWantReadError):
        client.session.do_handshake()
    transport.data_received(client.outgoing.read())
    await asyncio.sleep(0)
    client.take(socket)
    client.session.do_handshake()
    client.session.write(frame(bytes(3 * PIECE_BYTES)))
    transport.data_received(client.outgoing.read())
    assert not socket.reading
    while not world.network.frames:
        await asyncio.sleep(0)
    assert world.network.frames == [frame(bytes(3 * PIECE_BYTES))]
    assert socket.reading


async def test_records_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many records with a frame each take turns with other connections."""
    world = World()
    handled: list[str] = []

    def answer(connection: Connection, _: bytes | bytearray) -> None:
        handled.append(names[connection])
        connection.answer(b"", b".")

    monkeypatch.setattr(world.network.connections, "dispatch", answer)
    monkeypatch.setattr(tls_transport, "TURN_SECONDS", 0.0)
    world.turns = Turns(0.0)
    one, two = await world.established(), await world.established()
    names = {one[3]: "one", two[3]: "two"}
    for client, transport, socket, _ in (one, two):
        for _ in range(3):
            client.session.write(frame(b"request"))
        with suppress(ssl.SSLWantReadError):
            client.session.unwrap()
        transport.data_received(client.outgoing.read())
        assert not socket.reading
        transport.pause_reading()
        transport.resume_reading()
    assert handled == ["one", "two"]
    for _ in range(20):
        await asyncio.sleep(0)
    assert handled == ["one", "two"] * 3
    assert one[2].closed
    assert two[2].closed


async def test_an_error_where_the_client_gets_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in finding the client's principal aborts the connection and is logged."""
    world = World()

    def fail(_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(world.security, "principal", fail)
    raised: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
    client, transport, socket, _ = await world.established()
    assert socket.aborted
    assert isinstance(raised[0]["exception"], KeyError)
    assert world.reports == ["the client has no principal: KeyError('a bug')"]
    client.session.write(frame(b"one"))
    transport.data_received(client.outgoing.read())
    assert world.network.frames == []
