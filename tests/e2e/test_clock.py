"""The clock of the real process: its control by HTTP, and its effect on raw requests."""

from __future__ import annotations

import fcntl
import struct
import termios
import time
from typing import TYPE_CHECKING

import pytest

from coordinator_server.testing import Broker, BrokerError
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.batch import Record, build_batch
from protocol.codec import decoder
from tests.faults.client import frame_of
from tests.support import API_VERSIONS_REQUEST, connect, wait_for

if TYPE_CHECKING:
    import socket

FETCH_VERSION, PRODUCE_VERSION = 11, 8
WEEK_SECONDS = 7 * 24 * 3600


@pytest.fixture
def broker(kafka: Broker) -> Broker:
    """The session's broker after a reset, which also resets the clock."""
    return kafka


def fetch_request(topic: str, max_wait_ms: int) -> bytes:
    """Return a Fetch request that waits for the first record."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    message = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1000,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    return frame_of(message, FETCH_VERSION)


def produce_request(topic: str) -> bytes:
    """Return a Produce request with one record."""
    records = build_batch([Record(0, 0, None, b"value")]).to_bytes()
    message = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=records)]
            )
        ],
    )
    return frame_of(message, PRODUCE_VERSION)


def test_time_advances_by_so_much(broker: Broker) -> None:
    """Advances accumulate exactly, including fractions of a second."""
    before = broker.clock.state()
    assert (before.frozen, before.offset_ms) == (False, 0)
    broker.clock.advance(300)
    after = broker.clock.advance(0.25)
    assert after.offset_ms == 300_250
    assert after.now_ms >= before.now_ms + 300_250
    assert broker.clock.advance(0).offset_ms == 300_250


def test_frozen_time_runs_on_from_where_it_stopped(broker: Broker) -> None:
    """A resumed clock continues from its frozen time; freeze and resume may be repeated."""
    clock = broker.clock
    frozen = clock.freeze()
    assert clock.freeze().now_ms == frozen.now_ms
    first, second = broker.produce("t", "a")[0], broker.produce("t", "b")[0]
    assert first.timestamp_ms == second.timestamp_ms == frozen.now_ms
    assert clock.advance(10).now_ms == frozen.now_ms + 10_000
    assert clock.is_frozen
    resumed = clock.resume()
    assert not resumed.frozen
    assert resumed.now_ms - (frozen.now_ms + 10_000) < 5_000
    assert clock.resume().now_ms >= resumed.now_ms
    assert not clock.is_frozen


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [
        ("-1", "seconds=-1 is negative: time does not go back"),
        ("nan", "seconds=nan is not a number"),
        ("soon", "seconds=soon is not a number"),
        ("", "seconds= is not a number"),
        ("inf", "seconds=inf is more than ten years"),
        ("1e300", "seconds=1e300 is more than ten years"),
        ("316224001", "seconds=316224001 is more than ten years"),
    ],
)
def test_times_that_cannot_be_are_refused(broker: Broker, seconds: str, reason: str) -> None:
    """An invalid time is refused with the value and the reason; the clock does not change."""
    with pytest.raises(BrokerError, match=reason) as raised:
        broker.control.call("POST", "/clock/advance", {"seconds": seconds})
    assert raised.value.status == 400
    assert broker.clock.state().offset_ms == 0


def test_how_far_has_to_be_said(broker: Broker) -> None:
    """An advance without seconds is refused, and so is an advance by GET."""
    with pytest.raises(BrokerError, match="the query parameter seconds=N is missing"):
        broker.control.call("POST", "/clock/advance")
    with pytest.raises(BrokerError, match="GET is not served, but POST") as raised:
        broker.control.call("GET", "/clock/advance", {"seconds": 1})
    assert raised.value.status == 405


def test_ten_years_pass_in_a_call(broker: Broker) -> None:
    """The longest advance, of ten years, takes less than 20 s."""
    broker.produce("t", "a")
    started_s = time.monotonic()
    assert broker.clock.advance(316_224_000).offset_ms == 316_224_000_000
    assert time.monotonic() - started_s < 20
    assert broker.consume("t", None) == []


def test_a_parked_fetch_is_answered_as_time_moves(broker: Broker) -> None:
    """A fetch that waits up to ten minutes returns as soon as the clock advances by ten minutes."""
    broker.create_topic("t", 1)
    with connect(broker.bootstrap_servers) as wire:
        wire.send(fetch_request("t", 600_000))
        broker.clock.advance(599)
        wire.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            wire.socket.recv(1)
        wire.socket.settimeout(10)
        broker.clock.advance(1)
        answer = wire.receive()
        assert answer is not None
        found = decoder(FetchResponse, FETCH_VERSION)(answer, 4)[0]
        assert found.responses[0].partitions[0].records == b""


def test_a_fetch_is_answered_though_time_is_frozen(broker: Broker) -> None:
    """A fetch timeout passes in real time while the clock is frozen."""
    broker.create_topic("t", 1)
    broker.clock.freeze()
    with connect(broker.bootstrap_servers) as wire:
        assert wire.ask(fetch_request("t", 50))
        assert wire.ask(API_VERSIONS_REQUEST)


def _unsent_bytes(sending: socket.socket) -> int:
    """Return the bytes in the sender's kernel buffer that the receiver has not acknowledged."""
    unsent: int = struct.unpack("i", fcntl.ioctl(sending, termios.TIOCOUTQ, bytes(4)))[0]
    return unsent


def test_what_was_sent_before_is_handled_before(broker: Broker) -> None:
    """Requests that arrived before an advance have timestamps from before it."""
    broker.create_topic("t", 1, {"message.timestamp.type": "LogAppendTime"})
    before_ms = broker.clock.freeze().now_ms
    with connect(broker.bootstrap_servers) as wire:
        # One event loop iteration cannot handle 600 requests.
        wire.send(*[produce_request("t")] * 600)
        wait_for(lambda: _unsent_bytes(wire.socket) == 0, "600 requests have arrived")
        broker.clock.advance(60)
        for _ in range(600):
            answer = wire.receive()
            assert answer is not None
            told = decoder(ProduceResponse, PRODUCE_VERSION)(answer, 4)[0]
            assert told.responses[0].partition_responses[0].log_append_time_ms == before_ms
    assert broker.produce("t", "after")[0].timestamp_ms == before_ms + 60_000


def test_old_records_go(broker: Broker) -> None:
    """An advance removes records older than retention.ms, and keeps younger ones."""
    broker.create_topic("t", 1, {"retention.ms": 3_600_000, "segment.ms": 600_000})
    broker.produce("t", "old")
    broker.clock.advance(1_800)
    broker.produce("t", "young")
    broker.clock.advance(1_800 + 320)  # the retention check interval, and a maintenance round
    assert [record.value for record in broker.consume("t", None)] == [b"young"]


def test_the_brokers_of_a_process_share_the_clock() -> None:
    """With broker.count=3, an advance ends the waiting fetches of every broker."""
    with Broker(broker_count=3) as broker:
        broker.create_topic("t", 3)
        wires = [connect(one) for one in broker.bootstrap_servers.split(",")]
        for wire in wires:
            wire.send(fetch_request("t", 600_000))
        broker.clock.advance(600)
        for wire in wires:
            assert wire.receive() is not None
            wire.socket.close()


async def test_coroutines_control_it_too(broker: Broker) -> None:
    """`broker.aio.clock` has the same methods as coroutines."""
    clock = broker.aio.clock
    assert (await clock.freeze()).frozen
    before = await clock.state()
    assert (await clock.advance(5)).now_ms == before.now_ms + 5_000
    assert not (await clock.resume()).frozen
