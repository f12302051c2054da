"""The control server's timeouts, and exceptions in routes; tests/e2e has the other tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.control import http_connection
from coordinator_server.control.http import ControlServer
from coordinator_server.control.lag_history import LagHistory
from coordinator_server.control.request import ControlRequest, ControlRoute, EventStream
from coordinator_server.control.route import Parameter
from coordinator_server.events.log import LOG

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
REQUEST = b"GET /answer HTTP/1.1\r\nHost: localhost\r\n"


class Served:
    """A server with two routes, and the events that it wrote."""

    def __init__(self) -> None:
        routes = [
            ControlRoute("GET", "/answer", self.get),
            ControlRoute("GET", "/bug", self.fail, (Parameter("key", "text", ""),)),
            ControlRoute("GET", "/half", self.begin),
        ]
        cluster = SimpleNamespace(brokers={}, clock=SimpleNamespace(now_ms=lambda: 0))
        self.server = ControlServer(cast(Any, cluster), routes)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.answer: dict[str, Any] = {"answer": 1}
        self.error: Exception = ZeroDivisionError("secret")

    async def connect(self) -> Streams:
        """Connect to the server and return the streams."""
        host, _, port = self.events[0][1]["address"].rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def get(self, _: ControlRequest) -> dict[str, Any]:
        """Return `answer`."""
        return self.answer

    async def fail(self, _: ControlRequest) -> dict[str, Any]:
        """Raise an error, like a bug in a route."""
        raise self.error

    async def begin(self, _: ControlRequest) -> EventStream:
        """Return a stream that raises an error after its first part."""

        async def parts() -> AsyncGenerator[bytes, None]:
            yield b"first"
            raise self.error

        return EventStream("text/plain", parts())


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """Start the server, and stop it after the test."""
    served = Served()

    def emit(_: object, event: str, **fields: Any) -> None:
        served.events.append((event, fields))

    monkeypatch.setattr(type(LOG), "emit", emit)
    monkeypatch.setattr(LagHistory, "start", lambda _: None)  # there is no cluster to sample
    await served.server.start("127.0.0.1", 0)
    yield served
    await served.server.stop()


@pytest.mark.parametrize("error", [ZeroDivisionError("secret"), OSError("secret"), TimeoutError()])
async def test_a_bug_costs_its_request(
    served: Served, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """An exception in a route gives status 500 without details and is logged once.

    The connection can still be used.
    """
    served.error = error
    reader, writer = await served.connect()
    writer.write(b"GET /bug?key=1 HTTP/1.1\r\nHost: localhost\r\n\r\n" + REQUEST)
    writer.write(b"Connection: close\r\n\r\n")
    first, second = (await reader.read()).split(b"HTTP/1.1 ")[1:]
    writer.close()
    assert (first[:3], second[:3]) == (b"500", b"200")
    text = f"GET /bug failed: {type(error).__name__}, see the broker's log"
    assert json.loads(first.partition(b"\r\n\r\n")[2]) == {"error": text}
    assert [event for event, _ in served.events] == ["control.listening", "control.failed"]
    assert served.events[1][1] == {"method": "GET", "path": "/bug", "exc_info": True}
    assert not caplog.records


async def test_a_bug_within_a_response_costs_its_connection(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in a stream truncates the response and is logged once."""
    reader, writer = await served.connect()
    writer.write(b"GET /half HTTP/1.1\r\nHost: localhost\r\n\r\n")
    received = await reader.read()
    writer.close()
    assert b"first" in received
    assert not received.endswith(b"0\r\n\r\n")
    assert [event for event, _ in served.events] == ["control.listening", "control.failed"]
    assert not caplog.records


async def test_an_answer_that_is_not_json_is_a_bug(served: Served) -> None:
    """A response that cannot be encoded as JSON gets status 500."""
    served.answer = {"answer": object()}
    reader, writer = await served.connect()
    writer.write(REQUEST + b"\r\n")
    assert (await reader.readline()).split()[1] == b"500"
    writer.close()


@pytest.mark.parametrize(
    "sent", [b"GET /ans", REQUEST, REQUEST + b"Content-Length: 9\r\n\r\nhalf"], ids=range(3)
)
async def test_a_request_that_does_not_end_is_408(
    served: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """A request whose head or body stays incomplete gets 408 at the timeout and is closed."""
    monkeypatch.setattr(http_connection, "IDLE_SECONDS", 0.05)
    reader, writer = await served.connect()
    writer.write(sent)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert head.split()[1] == b"408"
    assert b"Connection: close" in head
    assert json.loads(body) == {"error": "no whole request within 0.05 s"}
    writer.close()


async def test_an_idle_connection_is_closed_without_an_answer(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle connection is closed without a response, before or after its first request."""
    monkeypatch.setattr(http_connection, "IDLE_SECONDS", 0.05)
    reader, writer = await served.connect()
    assert await reader.read() == b""
    writer.close()
    reader, writer = await served.connect()
    writer.write(REQUEST + b"\r\n")
    assert (await reader.read()).count(b"HTTP/1.1") == 1
    writer.close()


async def test_an_answer_that_is_not_taken_ends_the_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that does not read its response is disconnected at the timeout."""
    served.answer = {"answer": "x" * (64 << 20)}
    monkeypatch.setattr(http_connection, "IDLE_SECONDS", 0.2)
    reader, writer = await served.connect()
    writer.write(REQUEST + b"\r\n")
    while not served.server._tasks:
        await asyncio.sleep(0)
    await asyncio.wait(served.server._tasks)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(64 << 20)
    writer.close()


async def test_a_stop_does_not_wait_for_the_clients(served: Served) -> None:
    """A stop closes connections that are idle or in the middle of a request."""
    clients = [await served.connect() for _ in range(2)]
    reader, writer = clients[0]
    writer.write(REQUEST + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await served.server.stop()
    for reader, writer in clients:
        assert await reader.read() == b""
        writer.close()
