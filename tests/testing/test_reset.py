"""Reset: nothing of the test before is left, whatever its clients still do."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka as kafka_python
import pytest

from coordinator_server.testing import Broker
from tests.known_topics import know_topics
from tests.machine import slowness
from tests.support import API_VERSIONS_REQUEST, connect, cpu_seconds, request, wait_for


def fill(kafka: Broker) -> kafka_python.KafkaConsumer:
    """Topics, records, a group with a member and an offset; the member."""
    kafka.create_topic("orders", 3, {"retention.ms": 60_000})
    kafka.produce("orders", *"abc")
    one = kafka_python.KafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="app",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    know_topics(one)
    assert one.poll(timeout_ms=30_000)
    one.commit()
    assert kafka.committed("app")
    return one


def test_nothing_is_left(kafka: Broker) -> None:
    """Topics, groups, offsets, the broker's own topics, connections: all gone, in one call."""
    one = fill(kafka)
    wait_for(lambda: "__group_events" in kafka.topics(), "the topic of explained rebalances")
    told = kafka.control.call("POST", "/reset", {"move": "true"})
    assert told["topics"] == 3
    assert told["groups"] == 1
    assert told["connections"] >= 1
    assert kafka.topics() == {}
    assert kafka.groups() == {}
    assert kafka.group("app") is None
    (broker,) = kafka.control.call("GET", "/brokers")["brokers"]
    assert (broker["groups"], broker["partitions_led"]) == (0, 0)
    time.sleep(0.2)  # the story of the last rebalance is written late, if it were written
    assert kafka.topics() == {}
    one.close(autocommit=False)
    kafka.reset()  # which tells the fixture's user where the broker is


def test_the_same_names_begin_anew(kafka: Broker) -> None:
    """A topic and a group of the same names know nothing of those before."""
    for _ in range(5):
        one = fill(kafka)
        assert kafka.topics()["orders"] == 3
        assert [record.offset for record in kafka.consume("orders", 3)] == [0, 0, 0]
        found = kafka.group("app")
        assert found is not None
        assert found.generation <= 6  # two for each try of `fill`
        assert len(found.last_rebalance) >= 1
        kafka.reset()
        one.close(autocommit=False)


def test_connections_of_before_are_cut(kafka: Broker) -> None:
    """Idle, in the middle of a frame, or waiting for an answer: the socket is closed."""
    idle, half, parked = (
        connect(kafka.bootstrap_servers),
        connect(kafka.bootstrap_servers),
        connect(kafka.bootstrap_servers),
    )
    for wire in (idle, parked):
        assert wire.ask(API_VERSIONS_REQUEST)
    half.socket.sendall(API_VERSIONS_REQUEST[:7])
    kafka.create_topic("orders")
    kafka.reset()
    for wire in (idle, half, parked):
        with wire:
            assert wire.is_closed()
    with connect(kafka.bootstrap_servers) as wire:
        assert wire.ask(API_VERSIONS_REQUEST)


def test_parked_requests_are_not_answered_later(kafka: Broker) -> None:
    """A JoinGroup that waits for others ends with its connection, and leaves no group behind."""
    with (
        Broker({"group.initial.rebalance.delay.ms": 1000}) as broker,
        connect(broker.bootstrap_servers) as wire,
    ):
        join = (
            b"\x00\x05group" + (10_000).to_bytes(4, "big") * 2 + b"\x00\x00" + b"\x00\x08consumer"
        )
        join += b"\x00\x00\x00\x01" + b"\x00\x05range" + b"\x00\x00\x00\x00"
        assert wire.ask(request(10, 1, b"\x00\x05group\x00"))  # makes the offsets topic
        wire.send(request(11, 2, join))
        wait_for(lambda: broker.groups() == {"group": "PreparingRebalance"}, "the parked request")
        broker.reset()
        assert wire.is_closed()
        time.sleep(1.2)
        assert broker.groups() == {}
        assert broker.topics() == {}


def test_clients_of_before_do_not_come_back(kafka: Broker) -> None:
    """The broker has another address; who knows only the old one is refused there."""
    before = kafka.bootstrap_servers
    old = confluent_kafka.Producer(
        {"bootstrap.servers": before, "enable.idempotence": True, "log_level": 0}
    )
    old.produce("orders", "x")
    assert old.flush(10) == 0
    kafka.reset()
    old.produce("orders", "late")
    assert kafka.bootstrap_servers != before
    with pytest.raises(ConnectionRefusedError):
        connect(before)
    assert old.flush(1) == 1
    assert kafka.topics() == {}
    address = kafka.bootstrap_servers
    kafka.restart()
    assert kafka.bootstrap_servers == address


def test_a_port_of_its_own_is_kept() -> None:
    """A broker that was given a port stays there; a producer that stays meets no error.

    Its sequence numbers are known to nobody after the reset, so it may go on with them.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Broker(port=port) as broker:
        address = broker.bootstrap_servers
        assert address == f"127.0.0.1:{port}"
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0}
        )
        errors: list[Any] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                errors.append(error)

        for _ in range(3):
            producer.produce("orders", "x", on_delivery=delivered)
            assert producer.flush(20) == 0
            assert len(broker.consume("orders", None)) == 1
            broker.reset()
            assert broker.bootstrap_servers == address
        assert not errors


def test_a_reset_outlives_a_crash(tmp_path: Path) -> None:
    """What was reset is gone from the disk too and does not come back with it."""
    settings = {"log.flush.interval.messages": 1}
    with Broker(settings, data_dir=tmp_path / "data") as broker:
        for _ in range(2):
            broker.produce("orders", *"abc")
            with connect(broker.bootstrap_servers) as wire:
                assert wire.ask(request(10, 1, b"\x00\x05group\x00"))
            assert broker.topics() == {"orders": 1, "__consumer_offsets": 50}
            broker.reset()
            broker.kill()
            broker.start()
            assert broker.topics() == {}
        broker.produce("orders", "d")
        broker.reset()
        broker.restart()
        assert broker.topics() == {}


def test_several_brokers_move_together() -> None:
    """Each gets a new port and tells the new ones of the others; leaders are found."""
    with Broker(broker_count=3) as broker:
        before = set(broker.bootstrap_servers.split(","))
        broker.reset()
        after = broker.bootstrap_servers.split(",")
        assert len(after) == 3
        assert not before & set(after)
        broker.create_topic("orders", 6)
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": after[2]})
        told = admin.list_topics(timeout=10).brokers.values()
        assert {f"{one.host}:{one.port}" for one in told} == set(after)
        producer = confluent_kafka.Producer({"bootstrap.servers": after[0]})
        for partition in range(6):
            producer.produce("orders", "x", partition=partition)
        assert producer.flush(10) == 0
        assert len(broker.consume("orders", 6)) == 6


def test_producer_ids_are_not_given_twice(kafka: Broker) -> None:
    """A producer of before that comes back cannot be taken for a new one."""
    ids = []
    for _ in range(2):
        with connect(kafka.bootstrap_servers) as wire:
            answer = wire.ask(request(22, 0, b"\xff\xff" + (1000).to_bytes(4, "big")))
        ids.append(int.from_bytes(answer[10:18], "big"))
        kafka.reset()
    assert ids[0] != ids[1]


@pytest.mark.real_time
def test_resets_under_load_leave_a_sound_broker(kafka: Broker) -> None:
    """Clients at work while the broker is reset again and again: no error in its log, all clean."""
    before = kafka.log_size
    is_over = threading.Event()

    def work(number: int) -> None:
        while not is_over.is_set():
            try:
                one = kafka_python.KafkaConsumer(
                    f"topic-{number}",
                    bootstrap_servers=kafka.bootstrap_servers,
                    bootstrap_timeout_ms=2000,
                    group_id="app",
                )
                producer = kafka_python.KafkaProducer(
                    bootstrap_servers=kafka.bootstrap_servers,
                    bootstrap_timeout_ms=2000,
                    max_block_ms=2000,
                )
            except kafka_python.errors.KafkaTimeoutError:
                continue  # each of its connections was taken from it
            for _ in range(5):
                try:
                    producer.send(f"topic-{number}", b"x" * 1000)
                    one.poll(timeout_ms=20)
                except kafka_python.errors.KafkaError:
                    pass  # as its topic was taken from it
            producer.close(timeout=0)
            one.close(autocommit=False)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            kafka.reset()
            time.sleep(0.05)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    kafka.reset()
    assert kafka.topics() == {}
    assert kafka.groups() == {}
    wrong = [line for line in kafka.log_since(before).splitlines() if "[error" in line]
    assert not wrong, wrong[:3]
    assert "Traceback" not in kafka.log_since(before)


def test_a_reset_resets_the_clock(kafka: Broker) -> None:
    """A test that advanced the clock by a month and froze it leaves none of that."""
    kafka.clock.advance(30 * 24 * 3600)
    kafka.clock.freeze()
    kafka.reset()
    now_ms = time.time() * 1000
    state = kafka.clock.state()
    assert (state.frozen, state.offset_ms) == (False, 0)
    assert abs(state.now_ms - now_ms) < 5000
    assert kafka.produce("orders", "x")[0].timestamp_ms >= state.now_ms
    time.sleep(1.5)
    assert len(kafka.consume("orders", None)) == 1


@pytest.mark.parametrize("number", range(100))
def test_a_hundred_clean_tests(kafka: Broker, number: int) -> None:
    """Each finds an empty broker and leaves a topic, a group and an offset of the same names."""
    assert kafka.topics() == {}
    assert kafka.groups() == {}
    kafka.produce("orders", *"abc")
    with connect(kafka.bootstrap_servers) as wire:
        assert wire.ask(request(10, 1, b"\x00\x05group\x00"))


@pytest.mark.alone
def test_a_reset_costs_milliseconds(kafka: Broker) -> None:
    """With something to be removed each time, under 20 ms of CPU on both sides in the mean."""
    cost = 0.0
    for _ in range(100):
        kafka.produce("orders", *"abc")
        with connect(kafka.bootstrap_servers) as wire:
            assert wire.ask(request(10, 1, b"\x00\x05group\x00"))
            started = cpu_seconds(kafka.pid) + time.process_time()
            kafka.reset()
            cost += cpu_seconds(kafka.pid) + time.process_time() - started
    assert cost / 100 < 0.02 * slowness()
