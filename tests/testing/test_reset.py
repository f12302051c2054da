"""A reset removes everything of the previous test, even if its clients are still active."""

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
    """Create a topic, records, and a group with a committed offset; return the group's member."""
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
    """One call removes topics, groups, offsets, internal topics and connections."""
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
    time.sleep(0.2)  # long enough for a late explanation of the last rebalance to be written
    assert kafka.topics() == {}
    one.close(autocommit=False)
    kafka.reset()  # the reset updates the address in the fixture


def test_the_same_names_begin_anew(kafka: Broker) -> None:
    """A topic and a group of the same names have no state from before the reset."""
    for _ in range(5):
        one = fill(kafka)
        assert kafka.topics()["orders"] == 3
        assert [record.offset for record in kafka.consume("orders", 3)] == [0, 0, 0]
        found = kafka.group("app")
        assert found is not None
        assert found.generation <= 6  # each call of `fill` creates two generations
        assert len(found.last_rebalance) >= 1
        kafka.reset()
        one.close(autocommit=False)


def test_connections_of_before_are_cut(kafka: Broker) -> None:
    """Idle connections, and those with half a frame or a waiting request, are closed."""
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
    """A waiting JoinGroup ends with its connection, and leaves no group behind."""
    with (
        Broker({"group.initial.rebalance.delay.ms": 1000}) as broker,
        connect(broker.bootstrap_servers) as wire,
    ):
        join = (
            b"\x00\x05group" + (10_000).to_bytes(4, "big") * 2 + b"\x00\x00" + b"\x00\x08consumer"
        )
        join += b"\x00\x00\x00\x01" + b"\x00\x05range" + b"\x00\x00\x00\x00"
        # This request creates the offsets topic.
        assert wire.ask(request(10, 1, b"\x00\x05group\x00"))
        wire.send(request(11, 2, join))
        wait_for(lambda: broker.groups() == {"group": "PreparingRebalance"}, "the parked request")
        broker.reset()
        assert wire.is_closed()
        broker.clock.advance(2)  # longer than the rebalance delay
        assert broker.groups() == {}
        assert broker.topics() == {}


def test_clients_of_before_do_not_come_back(kafka: Broker) -> None:
    """The broker has a new address, and clients with the old one are refused."""
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
    """A broker with a fixed port keeps it, and a producer that stays connected meets no error.

    The broker has no sequence numbers after the reset, so it accepts the producer's next ones.
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
    """A reset also removes the data on disk, so a crash does not bring it back."""
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
    """Each broker gets a new port and reports the other brokers' new ports; leaders are found."""
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
    """A producer id from before the reset is not allocated again."""
    ids = []
    for _ in range(2):
        with connect(kafka.bootstrap_servers) as wire:
            answer = wire.ask(request(22, 0, b"\xff\xff" + (1000).to_bytes(4, "big")))
        ids.append(int.from_bytes(answer[10:18], "big"))
        kafka.reset()
    assert ids[0] != ids[1]


@pytest.mark.real_time
def test_resets_under_load_leave_a_sound_broker(kafka: Broker) -> None:
    """Repeated resets while clients work cause no error in the log and leave no state."""
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
                continue  # resets have closed all connections of this client
            for _ in range(5):
                try:
                    producer.send(f"topic-{number}", b"x" * 1000)
                    one.poll(timeout_ms=20)
                except kafka_python.errors.KafkaError:
                    pass  # a reset removed the producer's topic
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
    """A reset undoes an advanced and frozen clock."""
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
    """Each test finds an empty broker and leaves a topic, a group and an offset behind."""
    assert kafka.topics() == {}
    assert kafka.groups() == {}
    kafka.produce("orders", *"abc")
    with connect(kafka.bootstrap_servers) as wire:
        assert wire.ask(request(10, 1, b"\x00\x05group\x00"))


@pytest.mark.alone
def test_a_reset_costs_milliseconds(kafka: Broker) -> None:
    """A reset with something to remove takes under 20 ms of CPU time on average."""
    cost = 0.0
    for _ in range(100):
        kafka.produce("orders", *"abc")
        with connect(kafka.bootstrap_servers) as wire:
            assert wire.ask(request(10, 1, b"\x00\x05group\x00"))
            started = cpu_seconds(kafka.pid) + time.process_time()
            kafka.reset()
            cost += cpu_seconds(kafka.pid) + time.process_time() - started
    assert cost / 100 < 0.02 * slowness()
