"""Hostile input to the real process: it stays up and small, and serves its other clients."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tests.support import API_VERSIONS_REQUEST, Broker, frame, request, send_until_refused, wait_for

NOTICEABLE_SECONDS = 1.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker for all tests with default settings."""
    with Broker() as one:
        yield one


def assert_healthy(broker: Broker) -> None:
    """Check that a new client gets a response quickly."""
    started = time.monotonic()
    with broker.connect() as wire:
        assert wire.ask(API_VERSIONS_REQUEST)
    assert time.monotonic() - started < NOTICEABLE_SECONDS


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", 0), "a frame of 0 bytes"),
        (struct.pack(">i", -1) + b"abc", "a frame of -1 bytes"),
        (struct.pack(">i", 104857601), "socket.request.max.bytes is 104857600"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "looks like HTTP, the listener PLAINTEXT"),
        (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", "looks like HTTP, the listener PLAINTEXT"),
        (bytes.fromhex("16030100a5010000a10303") + bytes(160), "looks like a TLS handshake"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "socket.request.max.bytes"),
        (frame(b"\x00"), "the frame ends inside the request header"),
        (request(999, 0, bytes(8)), "this API is not served"),
        (request(12, 99, bytes(8)), "this version is not served"),
        (request(12, 0, b"\x00\x05gr"), "Heartbeat"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
@pytest.mark.real_time
def test_what_is_no_request_closes_with_one_line(broker: Broker, data: bytes, reason: str) -> None:
    """An invalid request closes its connection with one log line, and the next client is served."""
    with broker.connect() as wire:
        remote = "{}:{}".format(*wire.socket.getsockname())
        wire.send(data)
        assert wire.is_closed()
        wait_for(lambda: broker.log_lines(remote), "a line about the connection")
    (line,) = broker.log_lines(remote)
    assert "connection.closed" in line
    assert reason in line
    assert_healthy(broker)


def test_good_requests_before_a_bad_one_are_answered(broker: Broker) -> None:
    """Valid requests before an invalid one are answered, then the connection closes."""
    with broker.connect() as wire:
        wire.send(API_VERSIONS_REQUEST, request(999, 0))
        assert wire.receive() is not None
        assert wire.is_closed()


def test_a_request_byte_by_byte_is_answered(broker: Broker) -> None:
    """A request that arrives in single bytes is answered."""
    with broker.connect() as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in API_VERSIONS_REQUEST:
            wire.send(bytes([byte]))
        assert wire.receive()


@pytest.mark.real_time
def test_an_announced_length_is_not_allocated(broker: Broker) -> None:
    """50 clients that announce 100 MB each and send nothing more use almost no memory."""
    before_mb = broker.resident_mb()
    wires = [broker.connect() for _ in range(50)]
    for wire in wires:
        wire.send(struct.pack(">i", 104857600) + bytes(100))
    assert_healthy(broker)
    assert broker.resident_mb() - before_mb < 10
    for wire in wires:
        wire.socket.close()


@pytest.mark.real_time
def test_a_thousand_silent_connections_are_closed() -> None:
    """Silent connections use little memory, delay no client, and are closed and logged."""
    with Broker({"connections.max.idle.ms": "2500"}) as broker:
        assert_healthy(broker)
        before_mb = broker.resident_mb()
        wires = [broker.connect() for _ in range(1000)]
        assert_healthy(broker)
        assert broker.resident_mb() - before_mb < 20
        assert all(wire.is_closed() for wire in wires)
        for wire in wires:
            wire.socket.close()
        wait_for(lambda: len(broker.log_lines("silent for 2500 ms")) == 1000, "a line for each")
        assert_healthy(broker)


@pytest.mark.real_time
def test_a_client_that_does_not_read_is_cut_off() -> None:
    """The broker stops reading from a client that reads no responses, and closes it once idle."""
    settings = {"connections.max.idle.ms": "3000"}
    with Broker(settings) as broker:
        assert_healthy(broker)
        before_mb = broker.resident_mb()
        wires = [broker.connect() for _ in range(5)]
        sent = send_until_refused(wires, API_VERSIONS_REQUEST)
        assert_healthy(broker)
        # A broker that continued to read would use more memory.
        assert broker.resident_mb() - before_mb < 15, f"sent {sent} bytes"
        wait_for(
            lambda: len(broker.log_lines("took none of its answers")) == len(wires),
            "a line for each",
        )
        assert_healthy(broker)
        for wire in wires:
            wire.socket.close()


def test_one_connection_too_many_waits() -> None:
    """Above max.connections the newest connection waits, with a log line; the others are served."""
    with Broker({"max.connections": "3"}) as broker:
        wires = [broker.connect() for _ in range(3)]
        for wire in wires:
            wire.ask(API_VERSIONS_REQUEST)
        late = [broker.connect() for _ in range(2)]
        late[0].send(API_VERSIONS_REQUEST)
        wait_for(lambda: broker.log_lines("connection.delayed"), "a line")
        assert all(wire.ask(API_VERSIONS_REQUEST) for wire in wires)
        wires.pop().socket.close()
        assert late[0].receive()
        wires.pop().socket.close()
        assert late[1].ask(API_VERSIONS_REQUEST)
        assert len(broker.log_lines("connection.delayed")) == 2
        wires += late
        for wire in wires:
            wire.socket.close()
