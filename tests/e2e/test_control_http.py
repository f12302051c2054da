"""HTTP of the control server at the level of bytes: accepted and refused requests."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from coordinator_server.control.http import BODY_BYTES, HEAD_BYTES, SHORT_BODY_BYTES
from tests.e2e.controls import Control
from tests.support import Broker, frame

HOST = b"Host: localhost\r\n"
BROKERS = b"GET /brokers HTTP/1.1\r\n" + HOST
TOPIC = b"POST /topics/%s HTTP/1.1\r\n" + HOST


class Response(NamedTuple):
    """A response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        """Return the error text."""
        return str(json.loads(self.body)["error"])


class Server:
    """A process with a control server that accepts raw connections."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.control = Control(broker.control.address)

    def connect(self) -> Client:
        """Open a raw connection."""
        return Client(socket.create_connection(self.control.address, 30))


class Client:
    """A raw connection that is closed at the end of the block."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._received = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        """Send bytes, even if the server has already closed the connection."""
        for part in parts:
            self.socket.sendall(part)

    def end(self) -> None:
        """Close the sending side only."""
        self.socket.shutdown(socket.SHUT_WR)

    def response(self, *, has_body: bool = True) -> Response:
        """Return the next response."""
        while b"\r\n\r\n" not in self._received:
            self._read()
        head, _, rest = self._received.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", "0")) if has_body else 0
        self._received = rest
        while len(self._received) < length:
            self._read()
        body, self._received = self._received[:length], self._received[length:]
        return Response(int(first.split(" ")[1]), headers, body)

    def is_closed(self) -> bool:
        """Wait for the end of the connection; return False if more data arrives."""
        return not self._received and self.socket.recv(1) == b""

    def _read(self) -> None:
        part = self.socket.recv(1 << 16)
        assert part, f"closed after {self._received!r}"
        self._received += part


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A process for all tests of this module, which checks that no test triggered a bug."""
    with Broker() as broker:
        yield Server(broker)
    assert not broker.log_lines("control.failed")


def chunks(data: bytes, size_bytes: int) -> Iterator[bytes]:
    """Return a body in chunked encoding."""
    for start in range(0, len(data), size_bytes):
        part = data[start : start + size_bytes]
        yield b"%x\r\n%s\r\n" % (len(part), part)
    yield b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400, "illegal request line"),
        (b"GET\r\n\r\n", 400, "illegal request line"),
        (b"\r\n\r\n", 400, "no request line"),
        (b"GET /caf\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n", 400, "illegal request line"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, "Host"),
        (BROKERS + b"no header\r\n\r\n", 400, "illegal header line"),
        (BROKERS + b"A: \x00\r\n\r\n", 400, "illegal header line"),
        (BROKERS + b"Content-Length: -4\r\n\r\n", 400, "Content-Length"),
        (BROKERS + b"Content-Length: 4, 5\r\n\r\n", 400, "Content-Length"),
        (BROKERS + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400, "Content-Length"),
        (BROKERS + b"Content-Length: %d\r\n\r\n" % (BODY_BYTES + 1), 413, str(BODY_BYTES)),
        (BROKERS + b"Transfer-Encoding: gzip\r\n\r\n", 501, "chunked"),
        (BROKERS + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "illegal chunk header"),
        (BROKERS + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc", 400, "malformed chunk"),
        (
            BROKERS + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * HEAD_BYTES,
            431,
            str(HEAD_BYTES),
        ),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431, str(HEAD_BYTES)),
        (b"GET /" + b"a" * 20_000, 431, str(HEAD_BYTES)),
        (BROKERS + b"A: " + b"a" * 20_000, 431, str(HEAD_BYTES)),
        (BROKERS + b"A: b\r\n" * 10_000 + b"\r\n", 431, str(HEAD_BYTES)),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/2.0"),
        (frame(b"\x00\x12\x00\x00") + b"\r\n\r\n", 400, "illegal request line"),
    ],
    ids=range(22),
)
def test_what_is_not_http_is_answered_and_the_connection_closed(
    server: Server, sent: bytes, status: int, words: str
) -> None:
    """Invalid input gets one response with status and reason, and the next client is served."""
    with server.connect() as client:
        client.send(sent)
        response = client.response()
        assert (response.status, response.headers["connection"]) == (status, "close")
        assert words in response.error
        assert len(response.error) < 1000
        assert client.is_closed()
    assert server.control.ask("GET", "/brokers")[0] == 200


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_too_long_does_not_lose_its_answer(server: Server, is_chunked: bool) -> None:
    """A client that sends its whole body before it reads still gets the 413."""
    data = bytes(BODY_BYTES + (1 << 20))
    with server.connect() as client:
        if is_chunked:
            client.send(TOPIC % b"long" + b"Transfer-Encoding: chunked\r\n\r\n")
            client.send(*chunks(data, 1 << 20))
        else:
            client.send(TOPIC % b"long" + b"Content-Length: %d\r\n\r\n" % len(data), data)
        assert client.response().status == 413
        assert client.is_closed()


def test_the_longest_body_is_served(server: Server) -> None:
    """A JSON body of 1 MiB, with records of 16 MiB, is accepted in one piece and in chunks."""
    records = b'{"records": []' + b" " * (BODY_BYTES - 15) + b"}"
    data = b"{" + b" " * (SHORT_BODY_BYTES - 2) + b"}"
    with server.connect() as client:
        client.send(TOPIC % b"longest" + b"Content-Length: %d\r\n\r\n" % len(data), data)
        assert client.response().status == 200
        client.send(TOPIC % b"chunked" + b"Transfer-Encoding: chunked\r\n\r\n")
        client.send(*chunks(data, 1 << 18))
        assert client.response().status == 200
        produce = (TOPIC % b"longest").replace(b" HTTP", b"/records HTTP")
        client.send(produce + b"Content-Length: %d\r\n\r\n" % len(records), records)
        assert client.response().status == 200
        client.send(TOPIC % b"longer" + b"Content-Length: %d\r\n\r\n" % (len(data) + 1), data, b" ")
        assert client.response().status == 413


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /bro", 400),
        (BROKERS, 400),
        (TOPIC % b"half" + b"Content-Length: 100\r\n\r\n{", 400),
        (TOPIC % b"half" + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", 400),
        (BROKERS + b"\r\n", 200),
    ],
)
def test_a_half_closed_connection_is_answered(server: Server, sent: bytes, status: int) -> None:
    """After a half-close, half a request gets 400 and a whole one is served."""
    with server.connect() as client:
        client.send(sent)
        client.end()
        assert client.response().status == status
        assert client.is_closed()


def test_a_connection_without_a_request_is_closed_in_silence(server: Server) -> None:
    """A connection without a pending request is closed without a response."""
    with server.connect() as client:
        client.end()
        assert client.is_closed()
    with server.connect() as client:
        client.send(BROKERS + b"\r\n")
        assert client.response().status == 200
        client.end()
        assert client.is_closed()


@pytest.mark.parametrize("sent", [b"", b"GET /bro", BROKERS + b"\r\n", BROKERS + b"bad\r\n\r\n"])
def test_a_client_that_vanishes_harms_nobody(server: Server, sent: bytes) -> None:
    """A connection reset at any moment affects no other connection."""
    client = server.connect()
    client.send(sent)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
    assert server.control.ask("GET", "/brokers")[0] == 200


def test_a_connection_serves_many_requests(server: Server) -> None:
    """An HTTP/1.1 connection stays open, even after a refused request, until the client closes."""
    with server.connect() as client:
        for _ in range(3):
            client.send(b"POST /brokers/1/start HTTP/1.1\r\n" + HOST)
            client.send(b"Content-Length: 1000\r\n\r\n" + b"x" * 1000)
            response = client.response()
            assert response.status == 200
            assert "connection" not in response.headers
            client.send(b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n")
            assert client.response().status == 404
        client.send(BROKERS + b"Connection: close\r\n\r\n")
        assert client.response().headers["connection"] == "close"
        assert client.is_closed()


def test_pipelined_requests_are_answered_in_their_order(server: Server) -> None:
    """Pipelined requests are answered in order; requests after an invalid one are ignored."""
    with server.connect() as client:
        client.send(
            BROKERS + b"\r\n",
            b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n",
            BROKERS + b"\r\nbad\r\n\r\n" + BROKERS + b"\r\n",
        )
        statuses = [client.response().status for _ in range(4)]
        assert statuses == [200, 404, 200, 400]
        assert client.is_closed()


def test_a_request_may_come_byte_by_byte(server: Server) -> None:
    """A request may arrive in any number of packets."""
    request = TOPIC % b"slow" + b'Content-Length: 16\r\n\r\n{"partitions":2}'
    with server.connect() as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for position in range(len(request)):
            client.send(request[position : position + 1])
        response = client.response()
        assert response.status == 200
        assert len(json.loads(response.body)["partitions"]) == 2


def test_a_client_that_waits_is_bidden_to_go_on(server: Server) -> None:
    """`Expect: 100-continue` gets a 100 before the body, but not if the body is too long."""
    head = TOPIC % b"expected" + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    with server.connect() as client:
        client.send(head % 2)
        assert client.response() == Response(100, {}, b"")
        client.send(b"{}")
        assert client.response().status == 200
        client.send(head % (BODY_BYTES + 1))
        assert client.response().status == 413
        assert client.is_closed()


def test_a_chunked_body_is_put_together(server: Server) -> None:
    """A body in chunks of any size with trailers is accepted, and the connection stays open."""
    with server.connect() as client:
        client.send(TOPIC % b"pieces" + b"Transfer-Encoding: chunked\r\n\r\n")
        *parts, _ = chunks(b'{"partitions": 3}', 5)
        client.send(*parts, b"0\r\nTrailer: x\r\n\r\n")
        response = client.response()
        assert response.status == 200
        assert len(json.loads(response.body)["partitions"]) == 3
        client.send(BROKERS + b"\r\n")
        assert client.response().status == 200


def test_head_is_get_without_the_body(server: Server) -> None:
    """HEAD returns the headers of GET, and 405 where GET is not supported."""
    with server.connect() as client:
        client.send(b"HEAD /clock HTTP/1.1\r\n" + HOST + b"\r\n")
        response = client.response(has_body=False)
        assert (response.status, response.body) == (200, b"")
        assert int(response.headers["content-length"]) > 0
        client.send(b"HEAD /brokers/1/stop HTTP/1.1\r\n" + HOST + b"\r\n")
        response = client.response(has_body=False)
        assert (response.status, response.headers["allow"]) == (405, "POST")
        client.send(b"PUT /clock HTTP/1.1\r\n" + HOST + b"\r\n")
        response = client.response()
        assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")


def test_http_1_0_is_answered_and_closed(server: Server) -> None:
    """An HTTP/1.0 request needs no Host, and its connection is closed after the response."""
    with server.connect() as client:
        client.send(b"GET /brokers HTTP/1.0\r\n\r\n")
        response = client.response()
        assert (response.status, response.headers["connection"]) == (200, "close")
        assert client.is_closed()


@pytest.mark.parametrize("body", [b"[" * 1_000_000, b'{"a":' * 100_000, b"1" * 10_000, b"\xff"])
def test_a_hostile_body_is_400(server: Server, body: bytes) -> None:
    """JSON with too much nesting, too long a number or invalid UTF-8 gets 400."""
    with server.connect() as client:
        client.send(TOPIC % b"hostile" + b"Content-Length: %d\r\n\r\n" % len(body), body)
        response = client.response()
        assert response.status == 400
        assert re.match("the body is not JSON: ", response.error)
        client.send(BROKERS + b"\r\n")
        assert client.response().status == 200
