"""HTTP of the control server at the level of bytes: accepted and refused requests."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Iterator
from select import select
from typing import Any, NamedTuple

import pytest

from coordinator_server.control.http import MOST_CONNECTIONS
from coordinator_server.control.http_connection import HEAD_BYTES, MOST_HELD_BYTES
from coordinator_server.control.request import MOST_TOKENS
from coordinator_server.control.route import BODY_BYTES, ControlRoute
from coordinator_server.control.routes import RECORDS_BODY_BYTES, ROUTES
from coordinator_server.control.schema import schema_of, shape_named
from tests.e2e.controls import Control
from tests.support import Broker, frame, wait_for

HOST = b"Host: localhost\r\n"
BROKERS = b"GET /brokers HTTP/1.1\r\n" + HOST
TOPIC = b"POST /topics/%s HTTP/1.1\r\n" + HOST
RECORDS = b"POST /topics/%s/records HTTP/1.1\r\n" + HOST


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
    data = bytes(RECORDS_BODY_BYTES + (1 << 20))
    with server.connect() as client:
        if is_chunked:
            client.send(RECORDS % b"long" + b"Transfer-Encoding: chunked\r\n\r\n")
            client.send(*chunks(data, 1 << 20))
        else:
            client.send(RECORDS % b"long" + b"Content-Length: %d\r\n\r\n" % len(data), data)
        assert client.response().status == 413
        assert client.is_closed()


def test_the_longest_body_is_served(server: Server) -> None:
    """The longest body of a route is accepted in one piece and in chunks."""
    for request, most_bytes, body in (
        (TOPIC, BODY_BYTES, b"{}"),
        (RECORDS, RECORDS_BODY_BYTES, b'{"records": [{"value": "eA=="}]}'),
    ):
        data = body + b" " * (most_bytes - len(body))
        with server.connect() as client:
            client.send(request % b"longest" + b"Content-Length: %d\r\n\r\n" % len(data), data)
            assert client.response().status == 200
            client.send(request % b"chunked" + b"Transfer-Encoding: chunked\r\n\r\n")
            client.send(*chunks(data, 1 << 20))
            assert client.response().status == 200


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


@pytest.mark.parametrize("encoding", [b"gzip", b"identity"])
def test_a_compressed_body_is_415(server: Server, encoding: bytes) -> None:
    """A body with a Content-Encoding is refused with the encoding; nothing is created."""
    head = TOPIC % b"packed" + b"Content-Encoding: %s\r\nContent-Length: 2\r\n\r\n"
    with server.connect() as client:
        client.send(head % encoding, b"{}")
        response = client.response()
        if encoding == b"identity":
            assert response.status == 200
        else:
            assert (response.status, response.headers["accept-encoding"]) == (415, "identity")
            assert b"Content-Encoding: gzip is not served" in response.body


@pytest.mark.parametrize("body", [b"[" * 60_000, b'{"a":' * 12_000, b"1" * 10_000, b"\xff"])
def test_a_hostile_body_is_400(server: Server, body: bytes) -> None:
    """JSON with too much nesting, too long a number or invalid UTF-8 gets 400."""
    with server.connect() as client:
        client.send(TOPIC % b"hostile" + b"Content-Length: %d\r\n\r\n" % len(body), body)
        response = client.response()
        assert response.status == 400
        assert re.match("the body is not JSON: ", response.error)
        client.send(BROKERS + b"\r\n")
        assert client.response().status == 200


ODD_VALUES: tuple[Any, ...] = (
    "", "\0", "a" * 300, "\ud800", -1, 1 << 62, 10**400, 1e308, None, [], {}, [None], {"": ""},
)  # fmt: skip
"""Values that a field of a body should not have, or that are at its limits."""

PLAIN_VALUES = {"string": "1", "integer": 1, "number": 1, "boolean": True}


def examples(schema: dict[str, Any], schemas: dict[str, Any]) -> Iterator[Any]:
    """Yield values of a JSON Schema: a plain one, then some with an odd value in one place."""
    kind = schema.get("type")
    if "$ref" in schema:
        fields = schemas[schema["$ref"].rpartition("/")[2]]["properties"]
        plain = {name: next(examples(field, schemas)) for name, field in fields.items()}
        yield plain
        for name, field in fields.items():
            yield from ({**plain, name: value} for value in examples(field, schemas))
            yield {known: value for known, value in plain.items() if known != name}
    elif kind == "array":
        yield from ([value] for value in examples(schema["items"], schemas))
    elif kind == "object":
        values = examples(schema["additionalProperties"], schemas)
        yield from ({"name": value} for value in values)
    elif "enum" in schema:
        yield schema["enum"][0]
    else:
        yield PLAIN_VALUES[kind if isinstance(kind, str) else "string"]
    yield from ODD_VALUES


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.body], ids=lambda route: str(route.verb)
)
def test_an_odd_body_is_no_bug(server: Server, route: ControlRoute) -> None:
    """Bodies with odd values in any place are accepted or refused, and never cause a bug."""
    definitions: dict[str, Any] = {}
    shape = schema_of(shape_named(route.body), definitions)
    path = route.path.replace("TOPIC", "odd").replace("GROUP", "odd")
    for body in examples(shape, definitions):
        status, answer = server.control.ask(route.method, path, body=json.dumps(body).encode())
        assert status != 500, (body, answer)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_a_number_that_is_not_finite_is_400(server: Server, text: str) -> None:
    """NaN and infinity, which are no JSON, and numbers that a double cannot have get 400."""
    body = b'{"entity": {"user": "a"}, "set": {"producer_byte_rate": %s}}' % text.encode()
    status, answer = server.control.ask("PATCH", "/quotas", body=body)
    assert (status, "double" in answer["error"] or text in answer["error"]) == (400, True)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (RECORDS % b"t" + b"Origin: http://elsewhere\r\n", 403),
        (b"POST /topics/t/records HTTP/1.1\r\nHost: elsewhere\r\n", 403),
        (b"POST /nowhere HTTP/1.1\r\n" + HOST, 404),
        (b"PUT /topics/t HTTP/1.1\r\n" + HOST, 405),
        (b"PUT /groups/%FF/offsets HTTP/1.1\r\n" + HOST, 400),
        (b"POST /topics/t/records?no=1 HTTP/1.1\r\n" + HOST, 400),
        (TOPIC % b"t", 413),
        (b"POST /login HTTP/1.1\r\n" + HOST, 413),
        (BROKERS, 413),
    ],
)
def test_a_request_is_refused_by_its_head(server: Server, head: bytes, status: int) -> None:
    """The response comes before the body, which the client has not even begun to send."""
    with server.connect() as client:
        client.send(head + b"Expect: 100-continue\r\nContent-Length: 16000000\r\n\r\n")
        response = client.response()
        assert (response.status, response.headers["connection"]) == (status, "close")
        assert client.is_closed()


@pytest.mark.parametrize("unit", [b"[],", b'"",', b"1,", b'{"a":1},', b'"\\\\\\"\\\\",'])
def test_json_of_many_values_is_refused_unread(server: Server, unit: bytes) -> None:
    """A body with many values, which would hold the event loop for a second, gets 413."""
    data = b'{"records": [' + unit * (RECORDS_BODY_BYTES // len(unit) - 10)
    with server.connect() as client:
        client.send(RECORDS % b"many" + b"Content-Length: %d\r\n\r\n" % len(data), data)
        response = client.response()
        assert (response.status, str(MOST_TOKENS) in response.error) == (413, True)
        client.send(BROKERS + b"\r\n")
        assert client.response().status == 200


@pytest.mark.parametrize("data", [b",[{" * 5_000_000, b"\\\\" * 7_000_000])
def test_json_of_one_long_string_is_read(server: Server, data: bytes) -> None:
    """Commas, brackets and escapes within strings do not count as values."""
    body = b'{"format": "text", "records": [{"value": "%s"}]}' % data
    with server.connect() as client:
        client.send(TOPIC % b"strings" + b"Content-Length: 52\r\n\r\n")
        client.send(b'{"configs": {"max.message.bytes": "20000000"}}      ')
        assert client.response().status == 200
        client.send(RECORDS % b"strings" + b"Content-Length: %d\r\n\r\n" % len(body), body)
        response = client.response()
        assert response.status == 200, response.error
        client.send(b"DELETE /topics/strings HTTP/1.1\r\n" + HOST + b"\r\n")
        assert client.response().status == 200


@pytest.mark.parametrize(
    "body", [{"a" * 60_000: 1}, {"count": "a" * 60_000}, {"count": ["a"] * 10_000}]
)
def test_an_error_does_not_repeat_a_long_value(server: Server, body: Any) -> None:
    """The error for a long value has its beginning only."""
    status, answer = server.control.ask(
        "POST", "/topics/t/partitions", body=json.dumps(body).encode()
    )
    assert (status, len(answer["error"]) < 500) == (400, True)


def test_bodies_that_wait_have_a_common_limit(server: Server) -> None:
    """Clients that send large bodies slowly do not fill the memory; the last one gets 503."""
    size_bytes = RECORDS_BODY_BYTES - 100
    clients = [server.connect() for _ in range(MOST_HELD_BYTES // size_bytes + 1)]
    head = RECORDS % b"t" + b"Content-Length: %d\r\n\r\n" % RECORDS_BODY_BYTES
    for client in clients:
        client.send(head, bytes(size_bytes))
    readable, _, _ = select([client.socket for client in clients], [], [], 30)
    refused = [client for client in clients if client.socket in readable]
    assert [client.response().status for client in refused] == [503]
    for client in clients:
        client.socket.close()
    assert server.control.ask("POST", "/topics/t/records", body=b"{}")[0] == 400


def test_connections_have_a_limit(server: Server) -> None:
    """A connection above the limit gets 503; the next is served once others have ended."""
    clients = [server.connect() for _ in range(MOST_CONNECTIONS)]
    clients[-1].send(BROKERS + b"\r\n")
    assert clients[-1].response().status == 200
    with server.connect() as late:
        late.send(BROKERS + b"\r\n")
        response = late.response()
        assert (response.status, str(MOST_CONNECTIONS) in response.error) == (503, True)
        assert late.is_closed()
    for client in clients:
        client.socket.close()
    wait_for(lambda: server.control.ask("GET", "/brokers")[0] == 200, "a connection that is served")
