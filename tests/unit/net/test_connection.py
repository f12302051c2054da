"""Framing, order and back-pressure of one connection, without sockets."""

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
    """A whole frame in one read reaches the dispatcher as the very bytes that came in."""
    network = FakeNetwork()
    connection, _ = network.connect()
    data = frame(b"one")
    connection.data_received(data)
    assert network.frames[0] is data


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 64])
def test_frames_in_pieces_of_any_size_come_out_whole(size: int) -> None:
    """However the stream is cut, the dispatcher sees the same frames in the same order."""
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
    """With the connection, once it cannot be answered any more."""
    network = FakeNetwork()
    told: list[tuple[Connection, bool]] = []
    network.connections.on_lost.append(lambda one: told.append((one, one.closed)))
    connection, _ = network.connect()
    connection.connection_lost(None)
    assert told == [(connection, True)]


def test_while_requests_are_held_they_wait() -> None:
    """Answers go out, new connections are held as well; then everything is handled in order."""
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
    """A connection that had its turn is behind until it has its next one."""
    network = FakeNetwork(dispatch=lambda connection, _: connection.answer(b"", b"."))
    connection, transport = network.connect()
    connection.data_received(frame(b".") * (FRAMES_PER_TURN + 1))
    was_behind = network.connections.is_behind
    await asyncio.sleep(0)
    assert (was_behind, network.connections.is_behind) == (True, False)
    assert transport.written == [b"." * FRAMES_PER_TURN, b"."]


def test_answers_of_one_turn_are_sent_together() -> None:
    """Frames that came in one read are answered in one write."""
    network = FakeNetwork(dispatch=lambda connection, data: connection.answer(b"", data[4:]))
    connection, transport = network.connect()
    connection.data_received(frame(b"one") + frame(b"two") + frame(b"three")[:5])
    assert transport.written == [b"onetwo"]
    connection.data_received(frame(b"three")[5:])
    assert transport.written == [b"onetwo", b"three"]


def test_a_large_answer_keeps_its_place_in_the_turn() -> None:
    """What is answered before a large answer is sent before it, what is answered after it after."""
    bodies: Iterator[bytes | list[bytes]] = iter([b"1", bytes(100_000), b"2", [b"3", b"4"]])
    network = FakeNetwork(dispatch=lambda connection, _: connection.answer(b"", next(bodies)))
    connection, transport = network.connect()
    connection.data_received(frame(b"x") * 4)
    assert transport.written == [b"1", bytes(100_000), b"2", b"34"]


def test_answers_of_a_turn_go_out_before_the_connection_is_closed() -> None:
    """A bad frame after good ones takes nothing away from them."""
    network = FakeNetwork(dispatch=lambda connection, _: connection.answer(b"", b"."))
    connection, transport = network.connect()
    connection.data_received(frame(b"x") * 2 + b"\xff\xff\xff\xff")
    assert (transport.written, transport.closed) == ([b".."], True)


def test_records_of_an_answer_are_not_copied() -> None:
    """The parts of a body go to the transport as they are, the first one with the prefix."""
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
    """Connections with many requests take turns, a few each; one alone is served at once."""
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
    """One request at a time: the second frame is dispatched when the first is answered."""
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
    """After acks=0 the connection goes on although nothing was written."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(frame(b"one") + frame(b"two"))
    connection.answer_nothing()
    assert network.frames == [frame(b"one"), frame(b"two")]
    assert transport.written == []


@pytest.mark.parametrize("length", [0, -1, -(2**31), 104857601, 2**31 - 1])
def test_an_impossible_length_closes_with_one_line(length: int, reports: Reports) -> None:
    """A frame length of 0, below 0 or above the limit ends the connection and is reported once."""
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
    """A frame of exactly socket.request.max.bytes is legal, so the connection stays open."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(struct.pack(">i", 104857600) + b"abc")
    assert not transport.closed


def test_what_comes_after_an_impossible_length_is_not_handled() -> None:
    """Frames before the bad one are handled, those behind it are not."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(frame(b"one") + struct.pack(">i", -1) + frame(b"two"))
    closed_before = transport.closed
    connection.answer(b"", b"a")
    assert (closed_before, transport.closed) == (False, True)
    assert network.frames == [frame(b"one")]


def test_a_big_frame_in_pieces_is_joined_once() -> None:
    """A frame far above the read-ahead bound comes out whole, and reading is never paused."""
    network = FakeNetwork()
    connection, transport = network.connect()
    sent = frame(bytes(4 * READ_AHEAD_BYTES))
    for start in range(0, len(sent), 60_000):
        connection.data_received(sent[start : start + 60_000])
        assert transport.reading
    assert network.frames == [sent]


def test_a_client_that_pipelines_while_parked_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound of waiting bytes reading stops, and goes on once they are handled."""
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
    """While the transport's buffer is full no further request is handled."""
    network = FakeNetwork()
    connection, _ = network.connect()
    connection.data_received(frame(b"one") + frame(b"two"))
    connection.pause_writing()
    connection.answer(b"", b"a")
    assert network.frames == [frame(b"one")]
    connection.resume_writing()
    assert network.frames == [frame(b"one"), frame(b"two")]


def test_a_client_that_neither_reads_nor_stops_is_not_read() -> None:
    """Bytes that wait behind a full transport are bounded, too."""
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
    """After FRAMES_PER_TURN frames answered at once the other connections get their turn."""
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
    """A parked answer that comes too late does nothing and does not raise."""
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
    """An answer above the size that is joined in memory goes out header first."""
    network = FakeNetwork()
    connection, transport = network.connect()
    connection.data_received(frame(b"fetch"))
    connection.answer(b"header", bytes(200_000))
    assert b"".join(transport.written) == b"header" + bytes(200_000)


def test_addresses_are_written_as_kafka_does() -> None:
    """The client host has a leading slash, and IPv4 inside IPv6 is shown as IPv4."""
    connection, _ = FakeNetwork().connect("::ffff:10.1.2.3")
    assert connection.client_host == "/10.1.2.3"
    assert connection.remote == "10.1.2.3:40000"
    assert connection.local_address == ("10.0.0.1", 9092)


def _idle(network: FakeNetwork, steps: int, step_ms: int) -> None:
    for _ in range(steps):
        network.clock.time_ms += step_ms
        network.connections.close_idle()


def test_a_silent_connection_is_closed_after_the_idle_time(reports: Reports) -> None:
    """Silence of connections.max.idle.ms closes with one line; any byte starts it anew."""
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
    """A connection whose answer is due stays open however long it takes."""
    network = FakeNetwork({"connections.max.idle.ms": "1000"})
    connection, transport = network.connect()
    connection.data_received(frame(b"parked"))
    _idle(network, 30, 100)
    assert not transport.aborted


async def test_waiting_for_the_turn_is_no_silence() -> None:
    """A connection whose requests wait for the loop alone is not closed, however busy that is."""
    network = FakeNetwork(
        {"connections.max.idle.ms": "1000"},
        dispatch=lambda connection, _: connection.answer(b"", b"."),
    )
    connection, transport = network.connect()
    connection.data_received(frame(b".") * (FRAMES_PER_TURN + 1))
    _idle(network, 30, 100)
    assert not transport.aborted


def test_a_client_that_does_not_read_is_cut_off(reports: Reports) -> None:
    """Answers that nobody takes do not count as activity, and the line says so."""
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
    """Beyond max.connections, the one of another listener that was silent longest is closed."""
    network = FakeNetwork({**TWO_LISTENERS, "max.connections": "3"})
    others = []
    for _ in range(2):
        others.append(network.connect(listener="OTHER"))
        network.clock.time_ms += 10
    others.reverse()  # the last one has been silent since it came
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
    """It is gone at once; one that is taken in, in the same turn, displaces one and not two."""
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
    """All listeners are alike then: who is beyond the limit waits for a slot instead."""
    settings = {"listeners": "A://:9092,B://:9093", "listener.security.protocol.map": "A:SSL,B:SSL"}
    network = FakeNetwork({**settings, "max.connections": "1"})
    transports = [network.connect(listener=name)[1] for name in "AB"]
    await asyncio.sleep(0)
    assert not any(transport.aborted for transport in transports)
    assert reports.events == []


def test_a_flood_of_reports_is_cut(reports: Reports) -> None:
    """2000 closings are told one by one; beyond, they are counted and told in sum."""
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
    """Closing all connections ends when they are gone, without waiting for the time limit."""
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
    """A connection that is already being closed says nothing more."""
    connection, transport = FakeNetwork().connect()
    connection.refuse("first")
    connection.refuse("second")
    assert len(reports.events) == 1
    assert isinstance(transport, FakeTransport)


def test_a_refused_client_that_does_not_read_is_cut_off() -> None:
    """Its request is answered no more, so it is no reason to keep the connection."""
    network = FakeNetwork({"connections.max.idle.ms": "1000"})
    connection, transport = network.connect()
    connection.data_received(frame(b"one"))
    connection.refuse("a reason")
    _idle(network, 12, 100)
    assert transport.aborted


async def test_slow_requests_of_one_connection_do_not_keep_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After TURN_SECONDS the other connections get their turn, however few requests it were."""
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
    """Something of them taken between two looks is activity, as in Kafka's Selector."""
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
    """What follows waits and goes on afterwards, which is a sign of life."""
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
    """However long its throttle would last: Kafka's Selector expires muted channels."""
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
    """That of the last throttle; the one before does not end it, nor outlive the connection."""
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
    """Whether it ends before or after."""
    network = FakeNetwork()
    connection, _ = network.connect()
    connection.mute(0)
    connection.connection_lost(None)
    connection.mute(0)
    for _ in range(3):
        await asyncio.sleep(0)
    assert network.frames == []
