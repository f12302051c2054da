"""Dispatch from frame to handler and back: arguments, refusals and exceptions."""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from coordinator_server.apis.handlers import handler_of
from coordinator_server.clock.broker_clock import SystemClock
from coordinator_server.clock.step_runner import StepRunner
from coordinator_server.events.log import LOG
from coordinator_server.net.call import Call
from coordinator_server.net.connection import READ_AHEAD_BYTES
from coordinator_server.net.dispatch import LARGE_REQUEST_BYTES, Dispatcher
from coordinator_server.steps import Steps
from protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support import request
from tests.unit.net.fakes import FakeNetwork, FakeTransport, no_broker

HEARTBEAT, API_VERSIONS = 12, 18
HEARTBEAT_V0 = b"\x00\x01g" + struct.pack(">i", 7) + b"\x00\x01m"

Handler = Callable[[Any, Call, HeartbeatRequest], Steps | None]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return a list that collects events instead of log lines."""
    found: list[dict[str, Any]] = []

    def emit(_: object, event: str, **fields: object) -> None:
        found.append({"event": event, **fields})

    monkeypatch.setattr(type(LOG), "emit", emit)
    return found


@pytest.fixture
def heartbeats(monkeypatch: pytest.MonkeyPatch) -> Callable[[Handler], None]:
    """Return a function that replaces the handler of Heartbeat."""

    def install(handle: Handler) -> None:
        module = ModuleType("coordinator_server.apis.heartbeat")
        module.handle = handle  # type: ignore[attr-defined]  # a fake module
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return install


def send(*frames: bytes) -> FakeTransport:
    """Send frames on a new connection; return its transport."""
    network = FakeNetwork(
        dispatch=Dispatcher(no_broker(), StepRunner(SystemClock()), handler_of).dispatch
    )
    connection, transport = network.connect()
    for one in frames:
        connection.data_received(one)
    return transport


def test_a_request_reaches_its_handler(heartbeats: Callable[[Handler], None]) -> None:
    """The handler gets the decoded request and the caller; the response has the correlation id."""
    seen: list[tuple[Call, HeartbeatRequest]] = []

    def handle(_: object, call: Call, heartbeat: HeartbeatRequest) -> None:
        seen.append((call, heartbeat))
        call.reply(HeartbeatResponse(error_code=25))

    heartbeats(handle)
    transport = send(request(HEARTBEAT, 0, HEARTBEAT_V0, correlation_id=77))
    call, heartbeat = seen[0]
    assert (heartbeat.group_id, heartbeat.generation_id, heartbeat.member_id) == ("g", 7, "m")
    assert (call.api_name, call.api_version, call.client_id) == ("Heartbeat", 0, "test")
    assert call.caller.client_host == "/10.0.0.7"
    assert transport.written == [struct.pack(">iih", 6, 77, 25)]


def test_a_parked_request_is_answered_later(heartbeats: Callable[[Handler], None]) -> None:
    """A handler may keep the call; until its reply the connection's next request waits."""
    parked: list[Call] = []
    heartbeats(lambda _, call, request: parked.append(call))
    transport = send(
        request(HEARTBEAT, 0, HEARTBEAT_V0, correlation_id=1)
        + request(HEARTBEAT, 0, HEARTBEAT_V0, correlation_id=2)
    )
    assert len(parked) == 1
    parked[0].reply(HeartbeatResponse())
    parked[1].reply(HeartbeatResponse())
    assert [struct.unpack(">i", one[4:8])[0] for one in transport.written] == [1, 2]


def test_two_answers_are_a_bug(heartbeats: Callable[[Handler], None]) -> None:
    """A second reply to a call is an error."""
    parked: list[Call] = []
    heartbeats(lambda _, call, request: parked.append(call))
    send(request(HEARTBEAT, 0, HEARTBEAT_V0))
    parked[0].reply(HeartbeatResponse())
    with pytest.raises(AssertionError):
        parked[0].reply(HeartbeatResponse())


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(999, 0), (32767, 0), (-1, 0), (HEARTBEAT, 5), (HEARTBEAT, -1), (0, 2), (11, 32767)],
)
def test_what_is_not_served_closes_with_one_line(
    api_key: int, version: int, events: list[dict[str, Any]]
) -> None:
    """Unknown APIs and versions close the connection, as in Kafka; the log line names both."""
    transport = send(request(api_key, version, bytes(8)))
    assert transport.closed
    assert transport.written == []
    assert [event["event"] for event in events] == ["connection.closed"]
    assert events[0]["version"] == version


@pytest.mark.parametrize("version", [6, 99, 32767, -1])
def test_api_versions_of_the_future_is_answered_as_version_0(version: int) -> None:
    """A future ApiVersions version gets error 35 in a v0 body with the single range [18, 0, 5].

    The connection stays open.
    """
    transport = send(
        request(API_VERSIONS, version, b"\x05conf\x021\x00", correlation_id=9, flexible=True)
    )
    assert transport.written == [struct.pack(">iihihhh", 16, 9, 35, 1, 18, 0, 5)]
    assert not transport.closed


@pytest.mark.parametrize("cut", range(1, len(HEARTBEAT_V0)))
def test_a_truncated_body_closes_with_one_line(
    cut: int, events: list[dict[str, Any]], heartbeats: Callable[[Handler], None]
) -> None:
    """A truncated body reaches no handler; the log line has API, version and reason."""
    heartbeats(lambda *_: pytest.fail("handled"))
    transport = send(request(HEARTBEAT, 0, HEARTBEAT_V0[:-cut]))
    assert transport.closed
    assert [event["event"] for event in events] == ["connection.closed"]
    assert (events[0]["api"], events[0]["version"]) == ("Heartbeat", 0)
    assert events[0]["reason"]


@pytest.mark.parametrize("size", range(1, 14))
def test_a_truncated_header_closes(size: int, events: list[dict[str, Any]]) -> None:
    """A frame that ends within the header closes the connection, with one log line."""
    whole = request(HEARTBEAT, 0)[4:]
    transport = send(struct.pack(">i", size) + whole[:size])
    assert transport.closed
    assert len(events) == 1


def test_trailing_bytes_are_ignored(heartbeats: Callable[[Handler], None]) -> None:
    """Bytes after the body are ignored, as in Kafka."""
    heartbeats(lambda _, call, request: call.reply(HeartbeatResponse()))
    transport = send(request(HEARTBEAT, 0, HEARTBEAT_V0 + b"abc"))
    assert len(transport.written) == 1


def test_a_bug_in_a_handler_harms_one_request_only(
    heartbeats: Callable[[Handler], None], events: list[dict[str, Any]]
) -> None:
    """A bug in a handler is logged and returns UNKNOWN_SERVER_ERROR; the connection stays."""

    def handle(_: object, call: Call, heartbeat: HeartbeatRequest) -> None:
        if heartbeat.generation_id == 7:
            raise ValueError("a bug")
        call.reply(HeartbeatResponse())

    heartbeats(handle)
    healthy = HEARTBEAT_V0.replace(b"\x07", b"\x08")
    transport = send(request(HEARTBEAT, 0, HEARTBEAT_V0), request(HEARTBEAT, 0, healthy))
    errors = [struct.unpack(">h", one[8:10])[0] for one in transport.written]
    assert errors == [-1, 0]
    assert [event["event"] for event in events] == ["request.failed"]
    assert events[0]["api"] == "Heartbeat"


def test_a_bug_after_the_answer_is_only_logged(
    heartbeats: Callable[[Handler], None], events: list[dict[str, Any]]
) -> None:
    """A handler that raises after its reply is only logged."""

    def handle(_: object, call: Call, heartbeat: HeartbeatRequest) -> None:
        call.reply(HeartbeatResponse())
        raise ValueError("a bug")

    heartbeats(handle)
    transport = send(request(HEARTBEAT, 0, HEARTBEAT_V0))
    assert len(transport.written) == 1
    assert [event["event"] for event in events] == ["request.failed"]


def test_no_answer_was_wanted(heartbeats: Callable[[Handler], None]) -> None:
    """reply_nothing ends the request without a response, and the next request is handled."""
    calls: list[Call] = []

    def handle(_: object, call: Call, heartbeat: HeartbeatRequest) -> None:
        calls.append(call)
        call.reply_nothing()

    heartbeats(handle)
    transport = send(request(HEARTBEAT, 0, HEARTBEAT_V0) * 2)
    assert len(calls) == 2
    assert transport.written == []


# --- large requests -------------------------------------------------------------------------------


PADDING = bytes(LARGE_REQUEST_BYTES)
"""Bytes after the body are ignored, so any request can be made large."""


def large_heartbeat(body: bytes = HEARTBEAT_V0 + PADDING) -> bytes:
    """Return a frame that is handled in steps."""
    return request(HEARTBEAT, 0, body, correlation_id=77)


def test_a_large_request_is_served_like_any_other(heartbeats: Callable[[Handler], None]) -> None:
    """A large request is decoded, handled and answered in steps.

    A short request needs no additional turn of the event loop.
    """
    seen: list[tuple[str, bool]] = []

    def handle(_: object, call: Call, heartbeat: HeartbeatRequest) -> None:
        seen.append((heartbeat.member_id, call.is_large))
        call.reply(HeartbeatResponse(error_code=25))

    heartbeats(handle)
    assert send(large_heartbeat()).written == [struct.pack(">iih", 6, 77, 25)]
    assert seen == [("m", True)]


async def test_long_work_lets_other_connections_go_on(
    heartbeats: Callable[[Handler], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a handler works in steps, another connection gets its response."""
    monkeypatch.setattr("coordinator_server.clock.step_runner.SLICE_MS", 0)
    order: list[str] = []

    def handle(_: object, call: Call, heartbeat: HeartbeatRequest) -> Steps | None:
        if call.connection is slow:
            return long(call)
        order.append("short")
        call.reply(HeartbeatResponse())
        return None

    def long(call: Call) -> Steps:
        for _ in range(5):
            yield
        order.append("long")
        call.reply(HeartbeatResponse())

    heartbeats(handle)
    network = FakeNetwork(
        dispatch=Dispatcher(no_broker(), StepRunner(SystemClock()), handler_of).dispatch
    )
    slow, slow_transport = network.connect()
    other, other_transport = network.connect()
    slow.data_received(request(HEARTBEAT, 0, HEARTBEAT_V0))
    other.data_received(request(HEARTBEAT, 0, HEARTBEAT_V0))
    assert len(other_transport.written) == 1
    while not slow_transport.written:
        await asyncio.sleep(0)
    assert order == ["short", "long"]


def test_a_bug_in_a_step_harms_one_request_only(
    heartbeats: Callable[[Handler], None], events: list[dict[str, Any]]
) -> None:
    """A bug in a step is logged once and returns UNKNOWN_SERVER_ERROR."""

    def handle(_: object, call: Call, heartbeat: HeartbeatRequest) -> Steps:
        yield
        raise KeyError(heartbeat.member_id)

    heartbeats(handle)
    transport = send(request(HEARTBEAT, 0, HEARTBEAT_V0, correlation_id=77))
    assert transport.written == [struct.pack(">iih", 6, 77, -1)]
    assert [event["event"] for event in events] == ["request.failed"]


def test_a_large_request_that_does_not_parse_closes(events: list[dict[str, Any]]) -> None:
    """A large request that cannot be decoded closes the connection, with one log line."""
    transport = send(large_heartbeat(b"\x7f\xff" + PADDING[:-40_000] + b"\x7f\xff"))
    assert transport.closed
    assert [event["event"] for event in events] == ["connection.closed"]


def test_a_bug_in_a_large_decode_closes(
    events: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in decoding a large request closes the connection."""

    def broken(*_: object) -> Any:
        def decode(*_: object) -> Steps:
            yield
            raise KeyError("a bug")

        return decode

    monkeypatch.setattr("protocol.codec.step_decoder", broken)
    transport = send(request(HEARTBEAT, 0, HEARTBEAT_V0 + bytes(LARGE_REQUEST_BYTES)))
    assert transport.closed
    assert [event["event"] for event in events] == ["request.failed"]


def test_a_large_frame_in_pieces(heartbeats: Callable[[Handler], None]) -> None:
    """A frame above READ_AHEAD_BYTES may arrive in pieces, with the next frame right after it."""
    seen: list[str] = []

    def handle(_: object, call: Call, heartbeat: HeartbeatRequest) -> None:
        seen.append(heartbeat.member_id)
        call.reply(HeartbeatResponse())

    heartbeats(handle)
    frames = large_heartbeat(HEARTBEAT_V0 + bytes(3 * READ_AHEAD_BYTES)) + request(
        HEARTBEAT, 0, HEARTBEAT_V0[:-1] + b"n"
    )
    pieces = [frames[start : start + 50_000] for start in range(0, len(frames), 50_000)]
    size = struct.calcsize(">iih")  # a response has a length, a correlation id and an error code
    assert len(b"".join(send(*pieces).written)) == 2 * size
    assert seen == ["m", "n"]
