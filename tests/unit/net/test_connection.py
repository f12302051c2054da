"""Framing, order and back-pressure of a connection, without sockets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator

import pytest

from coordinator_server.net.connection import (
    FRAMES_PER_TURN,
    READ_AHEAD_BYTES,
    TURN_SECONDS,
    Connection,
)
from tests.support import frame
from tests.unit.net.fakes import FakeNetwork, FakeTransport
from tests.unit.reports import Reports


def test_a_frame_alone_is_handed_on_without_a_copy() -> None:
    """A frame that arrives in one read reaches the dispatcher without a copy."""
    network = FakeNetwork()
    connection, _ = network.connect()
    data = frame(b"one")
    connection.data_received(data)
    assert network.frames[0] is data


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 64])
def test_frames_in_pieces_of_any_size_come_out_whole(size: int) -> None:
    """However the stream is split, the dispatcher gets the same frames in the same order."""
    network = FakeNetwork()
    connection, _ = network.connect()
    sent = [frame(bytes([number]) * (number % 9 + 1)) for number in range(20)]
    stream = b"".join(sent)
    for start in range(0, len(stream), size):
        connection.data_received(stream[start : start + size])
        while connection.answer_is_due:
            connection.answer(b"", b".")
    assert network.frames == sent


def test_who_wants_to_know_is_told_of_lost_connections() -> None:
    """Listeners are called with a lost connection once it is closed."""
    network = FakeNetwork()
    told: list[tuple[Connection, bool]] = []
    network.connections.on_lost.append(lambda one: told.append((one, one.closed)))
    connection, _ = network.connect()
    connection.connection_lost(None)
    assert told == [(connection, True)]


def test_while_requests_are_held_they_wait() -> None:
    """While requests are held, responses are sent and new connections are held too.

    After the release all requests are handled in order.
    """
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(frame(b"one"))
    network.connections.hold()
    newcomer, _ = network.connect()
    connection.data_received(frame(b"two"))
    newcomer.data_received(frame(b"new"))
    connection.answer(b"1", b"a")
    assert transport.written == [b"1a"]
    assert network.frames == [frame(b"one")]
    network.connections.release()
    assert network.frames[0] == frame(b"one")
    assert sorted(network.frames[1:]) == [frame(b"new"), frame(b"two")]
    network.connect()[0].data_received(frame(b"later"))
    assert network.frames[3] == frame(b"later")


async def test_frames_that_wait_for_the_loop_alone_are_behind() -> None:
    """A connection with frames left for its next turn counts as behind."""
    network = FakeNetwork(dispatch=lambda connection, _: connection.answer(b"", b"."))
    connection, transport = network.connect()
    connection.data_received(frame(b".") * (FRAMES_PER_TURN + 1))
    was_behind = network.connections.is_behind
    await asyncio.sleep(0)
    assert (was_behind, network.connections.is_behind) == (True, False)
    assert transport.written == [b"." * FRAMES_PER_TURN, b"."]


def test_answers_of_one_turn_are_sent_together() -> None:
    """Frames of one read are answered in one write."""
    network = FakeNetwork(dispatch=lambda connection, data: connection.answer(b"", data[4:]))
    connection, transport = network.connect()
    connection.data_received(frame(b"one") + frame(b"two") + frame(b"three")[:5])
    assert transport.written == [b"onetwo"]
    connection.data_received(frame(b"three")[5:])
    assert transport.written == [b"onetwo", b"three"]


def test_a_large_answer_keeps_its_place_in_the_turn() -> None:
    """A large response keeps its place among the responses of a turn."""
    bodies: Iterator[bytes | list[bytes]] = iter([b"1", bytes(100_000), b"2", [b"3", b"4"]])
    network = FakeNetwork(dispatch=lambda connection, _: connection.answer(b"", next(bodies)))
    connection, transport = network.connect()
    connection.data_received(frame(b"x") * 4)
    assert transport.written == [b"1", bytes(100_000), b"2", b"34"]


def test_answers_of_a_turn_go_out_before_the_connection_is_closed() -> None:
    """A bad frame does not prevent the responses to the frames before it."""
    network = FakeNetwork(dispatch=lambda connection, _: connection.answer(b"", b"."))
    connection, transport = network.connect()
    connection.data_received(frame(b"x") * 2 + b"\xff\xff\xff\xff")
    assert (transport.written, transport.closed) == ([b".."], True)


def test_records_of_an_answer_are_not_copied() -> None:
    """The parts of a body go to the transport without a copy, the first one with the prefix."""
    network = FakeNetwork()
    connection, transport = network.connect()
    records, others = bytes(100_000), bytes(70_000)
    connection.data_received(frame(b"one"))
    connection.answer(b"prefix", [b"ab", records, b"cd", others, b"e"])
    assert transport.lines == [b"prefixab", records, b"cd", others, b"e"]
    assert transport.lines[1] is records
    assert transport.lines[3] is others
    connection.data_received(frame(b"two"))
    connection.answer(b"prefix", [b"small"])
    assert transport.lines == [b"prefixsmall"]


async def test_one_request_does_not_wait_for_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Connections with many requests take turns; a single request is served at once."""
    monkeypatch.setattr("coordinator_server.net.connections.TURNS_SECONDS", 0.0)
    handled: list[Connection] = []

    def dispatch(connection: Connection, _: bytes | bytearray) -> None:
        handled.append(connection)
        connection.answer(b"", b".")

    network = FakeNetwork(dispatch=dispatch)
    one, two, three = (network.connect()[0] for _ in range(3))
    count = 3 * FRAMES_PER_TURN
    one.data_received(frame(b"x") * count)
    two.data_received(frame(b"x") * count)
    assert handled == [one] * FRAMES_PER_TURN + [two] * FRAMES_PER_TURN
    three.data_received(frame(b"x"))
    assert handled[-1] is three
    for expected in (one, two, one, two):
        del handled[:]
        await asyncio.sleep(0)
        assert handled == [expected] * FRAMES_PER_TURN
    assert not network.connections.is_behind


def test_a_frame_waits_for_the_answer_of_the_one_before() -> None:
    """A connection handles one request at a time; the next frame waits for the response."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(frame(b"one") + frame(b"two"))
    connection.data_received(frame(b"three"))
    assert network.frames == [frame(b"one")]
    connection.answer(b"1", b"a")
    assert network.frames == [frame(b"one"), frame(b"two")]
    connection.answer(b"2", b"b")
    connection.answer(b"3", b"c")
    assert network.frames[2] == frame(b"three")
    assert transport.written == [b"1a", b"2b", b"3c"]


def test_a_request_without_an_answer_lets_the_next_one_in() -> None:
    """After acks=0 the next request is handled although no response was written."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(frame(b"one") + frame(b"two"))
    connection.answer_nothing()
    assert network.frames == [frame(b"one"), frame(b"two")]
    assert transport.written == []


@pytest.mark.parametrize("length", [0, -1, -(2**31), 104857601, 2**31 - 1])
def test_an_impossible_length_closes_with_one_line(length: int, reports: Reports) -> None:
    """A frame length of 0, below 0 or above the limit closes the connection, with one log line."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(struct.pack(">i", length) + b"abc")
    connection.data_received(b"more")
    assert transport.closed
    assert network.frames == []
    assert [event["event"] for event in reports.events] == ["connection.closed"]
    assert reports.events[0]["remote"] == "10.0.0.7:40000"
    assert str(length) in str(reports.events[0]["reason"])


def test_the_largest_length_is_waited_for() -> None:
    """A frame of exactly socket.request.max.bytes is accepted."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(struct.pack(">i", 104857600) + b"abc")
    assert not transport.closed


def test_what_comes_after_an_impossible_length_is_not_handled() -> None:
    """Frames before a frame with an invalid length are handled, later frames are not."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(frame(b"one") + struct.pack(">i", -1) + frame(b"two"))
    closed_before = transport.closed
    connection.answer(b"", b"a")
    assert (closed_before, transport.closed) == (False, True)
    assert network.frames == [frame(b"one")]


def test_a_big_frame_in_pieces_is_joined_once() -> None:
    """A frame far above the read-ahead limit arrives whole, without pausing the reads."""
    network = FakeNetwork()
    connection, transport = network.connect()
    sent = frame(bytes(4 * READ_AHEAD_BYTES))
    for start in range(0, len(sent), 60_000):
        connection.data_received(sent[start : start + 60_000])
        assert transport.reading
    assert network.frames == [sent]


def test_a_client_that_pipelines_while_parked_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads pause while too many bytes wait behind a parked request, and resume afterwards."""
    monkeypatch.setattr("coordinator_server.net.connection.TURN_SECONDS", 60.0)
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(frame(b"parked"))
    more = frame(bytes(1000))
    sent = 0
    while transport.reading:
        connection.data_received(more)
        sent += 1
    assert sent * len(more) <= READ_AHEAD_BYTES + len(more)
    while connection.answer_is_due:
        connection.answer(b"", b".")
    assert len(network.frames) == sent + 1
    assert transport.reading


def test_a_client_that_does_not_read_is_not_served() -> None:
    """While the transport's buffer is full, no further request is handled."""
    network = FakeNetwork()
    connection, _ = network.connect()
    connection.data_received(frame(b"one") + frame(b"two"))
    connection.pause_writing()
    connection.answer(b"", b"a")
    assert network.frames == [frame(b"one")]
    connection.resume_writing()
    assert network.frames == [frame(b"one"), frame(b"two")]


def test_a_client_that_neither_reads_nor_stops_is_not_read() -> None:
    """Input is also limited while the transport's write buffer is full."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.pause_writing()
    while transport.reading:
        connection.data_received(frame(bytes(5000)))
    connection.resume_writing()
    while connection.answer_is_due:
        connection.answer(b"", b".")
    assert transport.reading


async def test_one_connection_does_not_keep_the_loop() -> None:
    """After FRAMES_PER_TURN frames other connections get a turn."""
    handled = 0

    def answer_at_once(connection: Connection, data: bytes | bytearray) -> None:
        nonlocal handled
        handled += 1
        connection.answer(b"", b".")

    network = FakeNetwork(dispatch=answer_at_once)
    connection, transport = network.connect()
    connection.data_received(frame(b"x") * (3 * FRAMES_PER_TURN))
    assert handled == FRAMES_PER_TURN
    while handled < 3 * FRAMES_PER_TURN:
        await asyncio.sleep(0)
    assert transport.written == [b"." * FRAMES_PER_TURN] * 3


def test_answers_after_the_connection_is_lost_are_dropped() -> None:
    """A response to a lost connection is dropped without an error."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(frame(b"one") + frame(b"two"))
    connection.connection_lost(None)
    connection.answer(b"", b"late")
    connection.data_received(frame(b"ghost"))
    connection.resume_writing()
    assert transport.written == []
    assert network.frames == [frame(b"one")]
    assert len(network.connections) == 0


def test_a_long_answer_is_written_whole() -> None:
    """A response that is too large to be joined in memory is written after its header."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(frame(b"fetch"))
    connection.answer(b"header", bytes(200_000))
    assert b"".join(transport.written) == b"header" + bytes(200_000)


def test_addresses_are_written_as_kafka_does() -> None:
    """Client hosts have a leading slash, and IPv4-mapped addresses are shown as IPv4."""
    connection, _ = FakeNetwork().connect("::ffff:10.1.2.3")
    assert connection.client_host == "/10.1.2.3"
    assert connection.remote == "10.1.2.3:40000"
    assert connection.local_address == ("10.0.0.1", 9092)


def _idle(network: FakeNetwork, steps: int, step_ms: int) -> None:
    for _ in range(steps):
        network.clock.time_ms += step_ms
        network.connections.close_idle()


def test_a_silent_connection_is_closed_after_the_idle_time(reports: Reports) -> None:
    """A connection that is silent for connections.max.idle.ms is closed, with one log line.

    Any byte restarts the idle time.
    """
    network = FakeNetwork({"connections.max.idle.ms": "1000"})
    connection, transport = network.connect()
    _idle(network, 9, 100)
    connection.data_received(b"\x00")
    _idle(network, 10, 100)
    aborted_before = transport.aborted
    _idle(network, 2, 100)
    assert (aborted_before, transport.aborted) == (False, True)
    assert [event["event"] for event in reports.events] == ["connection.closed"]


def test_a_parked_request_is_no_silence() -> None:
    """A connection that waits for its response does not count as idle."""
    network = FakeNetwork({"connections.max.idle.ms": "1000"})
    connection, transport = network.connect()
    connection.data_received(frame(b"parked"))
    _idle(network, 30, 100)
    assert not transport.aborted


async def test_waiting_for_the_turn_is_no_silence() -> None:
    """A connection whose requests wait for their turn does not count as idle."""
    network = FakeNetwork(
        {"connections.max.idle.ms": "1000"},
        dispatch=lambda connection, _: connection.answer(b"", b"."),
    )
    connection, transport = network.connect()
    connection.data_received(frame(b".") * (FRAMES_PER_TURN + 1))
    _idle(network, 30, 100)
    assert not transport.aborted


def test_a_client_that_does_not_read_is_cut_off(reports: Reports) -> None:
    """A client that does not read its responses counts as idle, and the log says so."""
    network = FakeNetwork({"connections.max.idle.ms": "1000"})
    connection, transport = network.connect()
    connection.data_received(frame(b"one"))
    connection.answer(b"", b"a")
    connection.pause_writing()
    _idle(network, 12, 100)
    assert transport.aborted
    assert "took none of its answers" in str(reports.events[0]["reason"])


TWO_LISTENERS = {
    "listeners": "PLAINTEXT://:9092,OTHER://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
}


async def test_the_listener_between_brokers_displaces_others(reports: Reports) -> None:
    """Beyond max.connections the inter-broker listener displaces the most idle other connection."""
    network = FakeNetwork({**TWO_LISTENERS, "max.connections": "3"})
    others = []
    for _ in range(2):
        others.append(network.connect(listener="OTHER"))
        network.clock.time_ms += 10
    others.reverse()  # the connection that came last has been idle since it connected
    for connection, _ in others:
        connection.active = False
    others[1][0].idle_since_ms = network.clock.time_ms
    protected = [network.connect()[1] for _ in range(2)]
    await asyncio.sleep(0)
    assert [transport.aborted for _, transport in others] == [True, False]
    assert not any(transport.aborted for transport in protected)
    [event] = reports.events
    assert event["reason"] == "max.connections is 3, PLAINTEXT needs the place"
    others[0][0].connection_lost(None)
    network.connect()
    network.connect()
    await asyncio.sleep(0)
    assert others[1][1].aborted
    assert not any(transport.aborted for transport in protected)


@pytest.mark.parametrize("accepted", [0, 1])
async def test_who_is_refused_for_its_address_displaces_nobody(
    reports: Reports, accepted: int
) -> None:
    """A connection refused for its address displaces no other connection.

    A connection that is accepted in the same turn displaces exactly one connection.
    """
    overrides = {"max.connections": "2", "max.connections.per.ip.overrides": "10.0.0.8:0"}
    network = FakeNetwork({**TWO_LISTENERS, **overrides})
    others = [network.connect(listener="OTHER")[1] for _ in range(2)]
    for _ in range(accepted):
        network.connect()
    _, refused = network.connect("10.0.0.8")
    await asyncio.sleep(0)
    assert refused.aborted
    assert sum(transport.aborted for transport in others) == accepted
    assert [event["event"] for event in reports.events] == [
        "connection.refused",
        *["connection.closed"] * accepted,
    ]


async def test_without_a_listener_between_brokers_nobody_is_displaced(reports: Reports) -> None:
    """Without an inter-broker listener no connection is displaced; new connections wait."""
    settings = {"listeners": "A://:9092,B://:9093", "listener.security.protocol.map": "A:SSL,B:SSL"}
    network = FakeNetwork({**settings, "max.connections": "1"})
    transports = [network.connect(listener=name)[1] for name in "AB"]
    await asyncio.sleep(0)
    assert not any(transport.aborted for transport in transports)
    assert reports.events == []


def test_a_flood_of_reports_is_cut(reports: Reports) -> None:
    """2000 closings are logged one by one; further closings are counted in a later line."""
    network = FakeNetwork()
    for _ in range(2500):
        connection, _ = network.connect()
        connection.refuse("bad")
    assert len(reports.events) == 2000
    network.clock.time_ms += 100
    network.connect()[0].refuse("bad")
    network.connect()[0].refuse("bad")
    network.connect()[0].refuse("bad")
    assert len(reports.events) == 2002
    assert reports.events[2000]["unreported"] == 500


async def test_closing_waits_for_the_answers_and_then_cuts() -> None:
    """Closing all connections ends as soon as they are gone, before the time limit."""
    network = FakeNetwork()
    pairs = [network.connect() for _ in range(3)]

    async def lose() -> None:
        await asyncio.sleep(0)
        for connection, transport in pairs:
            assert transport.closed
            connection.connection_lost(None)

    await asyncio.gather(network.connections.close(), lose())
    assert len(network.connections) == 0


def test_refusing_twice_reports_once(reports: Reports) -> None:
    """A connection that is already being closed is logged once."""
    connection, transport = FakeNetwork().connect()
    connection.refuse("first")
    connection.refuse("second")
    assert len(reports.events) == 1
    assert isinstance(transport, FakeTransport)


def test_a_refused_client_that_does_not_read_is_cut_off() -> None:
    """A refused client that does not read is closed, despite its unanswered request."""
    network = FakeNetwork({"connections.max.idle.ms": "1000"})
    connection, transport = network.connect()
    connection.data_received(frame(b"one"))
    connection.refuse("a reason")
    _idle(network, 12, 100)
    assert transport.aborted


async def test_slow_requests_of_one_connection_do_not_keep_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After TURN_SECONDS other connections get a turn, even if only few requests ran."""
    seconds = 0.0
    handled = 0

    def answer_slowly(connection: Connection, data: bytes | bytearray) -> None:
        nonlocal handled, seconds
        handled += 1
        seconds += TURN_SECONDS / 2
        connection.answer(b"", b".")

    for module in ("connection", "turns"):
        monkeypatch.setattr(f"coordinator_server.net.{module}.perf_counter", lambda: seconds)
    monkeypatch.setattr("coordinator_server.net.connection.TURN_SECONDS", TURN_SECONDS)
    network = FakeNetwork(dispatch=answer_slowly)
    connection, _ = network.connect()
    connection.data_received(frame(b"x") * 5)
    assert handled == 2
    await asyncio.sleep(0)
    assert handled == 4
    await asyncio.sleep(0)
    assert handled == 5


def test_a_client_that_takes_its_answers_slowly_is_not_cut_off() -> None:
    """A slow reader is not idle if it reads some bytes between two checks, as in Kafka."""
    network = FakeNetwork({"connections.max.idle.ms": "1000"})
    connection, transport = network.connect()
    connection.data_received(frame(b"one"))
    connection.answer(b"", b"a")
    connection.pause_writing()
    for left in range(100, 0, -1):
        transport.unsent_bytes = left
        _idle(network, 1, 100)
    assert not transport.aborted
    _idle(network, 12, 100)
    assert transport.aborted


async def test_a_muted_connection_waits() -> None:
    """Requests of a muted connection wait for the end of the mute, then count as activity."""
    network = FakeNetwork({"connections.max.idle.ms": "1000"})
    connection, transport = network.connect()
    connection.data_received(frame(b"one"))
    connection.mute(20)
    connection.answer(b"", b"1")
    connection.data_received(frame(b"two"))
    assert transport.written == [b"1"]
    assert len(network.frames) == 1
    _idle(network, 8, 100)
    async with asyncio.timeout(10):
        while len(network.frames) < 2:
            await asyncio.sleep(0)
    connection.answer(b"", b"2")
    _idle(network, 8, 100)
    assert not transport.aborted


async def test_a_muted_connection_that_is_silent_is_closed() -> None:
    """A silent muted connection is closed, as in Kafka, however long its throttle lasts."""
    network = FakeNetwork({"connections.max.idle.ms": "1000"})
    connection, transport = network.connect()
    connection.data_received(frame(b"one"))
    connection.mute(2**31 - 1)
    connection.answer(b"", b"1")
    _idle(network, 9, 100)
    was_closed_early = transport.aborted
    _idle(network, 3, 100)
    assert (was_closed_early, transport.aborted) == (False, True)
    connection.connection_lost(None)


async def test_a_connection_is_muted_by_one_timer() -> None:
    """A connection is muted until its last throttle ends.

    The timer of an earlier throttle neither ends the mute nor outlives the connection.
    """
    loop = asyncio.get_running_loop()
    network = FakeNetwork()
    connection, _ = network.connect()
    connection.mute(0)
    connection.mute(60_000)
    ended = loop.create_future()
    loop.call_later(0.02, ended.set_result, None)
    await ended
    connection.data_received(frame(b"one"))
    assert network.frames == []
    connection.connection_lost(None)


async def test_a_connection_that_is_gone_is_muted_no_more() -> None:
    """A closed connection is not unmuted, whether it was muted before or after it was closed."""
    network = FakeNetwork()
    connection, _ = network.connect()
    connection.mute(0)
    connection.connection_lost(None)
    connection.mute(0)
    for _ in range(3):
        await asyncio.sleep(0)
    assert network.frames == []
