"""The helpers read and write the same data as real clients, and their failures are readable."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka as kafka_python
import pytest
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Place

from coordinator_server.testing import Broker, BrokerError, Record, TopicPartition, WaitTimeout
from tests.known_topics import know_topics
from tests.support import wait_for

EVERY_BYTE = bytes(range(256))


@contextmanager
def consumer(kafka: Broker, topic: str, **configs: Any) -> Iterator[kafka_python.KafkaConsumer]:
    """Run a kafka-python consumer that polls in a thread until the end of the block."""
    one = kafka_python.KafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", **configs
    )
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            one.poll(timeout_ms=500)
        one.close()

    know_topics(one)
    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield one
    finally:
        is_over.set()
        thread.join()


def test_what_is_produced_is_what_clients_read(kafka: Broker) -> None:
    """Two clients read bytes, null, UTF-8 text, headers and timestamp as `produce` wrote them."""
    kafka.create_topic("orders", 2)
    headers = [("trace", EVERY_BYTE), ("empty", b""), ("none", None), ("trace", "ü")]
    written = kafka.produce(
        "orders",
        EVERY_BYTE,
        None,
        "ü",
        b"",
        key=b"\xff\x00",
        partition=1,
        headers=headers,
        timestamp_ms=1234567890123,
    )
    told = (("trace", EVERY_BYTE), ("empty", b""), ("none", None), ("trace", "ü".encode()))
    values = [EVERY_BYTE, None, "ü".encode(), b""]
    assert written == [
        Record("orders", 1, offset, b"\xff\x00", value, told, 1234567890123)
        for offset, value in enumerate(values)
    ]
    assert kafka.consume("orders", 4) == written
    with kafka_python.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
    ) as reader:
        reader.assign([Place("orders", 1)])
        seen: list[Any] = []
        while len(seen) < 4:
            for records in reader.poll(timeout_ms=1000).values():
                seen += records
    assert [one.value for one in seen] == values
    assert {(one.key, one.timestamp) for one in seen} == {(b"\xff\x00", 1234567890123)}
    assert tuple(tuple(pair) for pair in seen[0].headers) == told


def test_what_clients_produce_is_what_is_consumed(kafka: Broker) -> None:
    """`consume` returns the records of compressed batches of librdkafka."""
    kafka.create_topic("orders", 3)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": "zstd"}
    )
    for number in range(300):
        producer.produce(
            "orders", str(number), key=b"k", partition=number % 3, headers={"n": EVERY_BYTE}
        )
    producer.flush(10)
    found = kafka.consume("orders", 300)
    assert sorted(int(one.value or b"") for one in found) == list(range(300))
    for partition in range(3):
        own = [one for one in found if one.partition == partition]
        assert [one.offset for one in own] == list(range(100))
    assert {one.headers for one in found} == {(("n", EVERY_BYTE),)}
    assert kafka.consume("orders", 2, partition=2, offset=98) == [
        one for one in found if one.partition == 2 and one.offset >= 98
    ]


def test_keys_go_where_clients_send_them(kafka: Broker) -> None:
    """Kafka's partitioner selects a key's partition; records without a key take turns."""
    kafka.create_topic("orders", 7)
    with kafka_python.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(20):
            key = f"key-{number}"
            sent = producer.send("orders", b"x", key.encode()).get(10)
            (written,) = kafka.produce("orders", "x", key=key)
            assert written.partition == sent.partition
    written_in_turn = kafka.produce("orders", *"abcdefgh")
    assert [one.partition for one in written_in_turn] == [0, 1, 2, 3, 4, 5, 6, 0]


def test_much_is_written_and_read(kafka: Broker) -> None:
    """Records beyond the size of one batch and one response are written and read."""
    values = [bytes([number % 256]) * 50_000 for number in range(100)]
    kafka.produce("orders", *values)
    assert [one.value for one in kafka.consume("orders", 100)] == values
    kafka.produce("small", *[str(number) for number in range(2500)])
    assert [one.offset for one in kafka.consume("small", None)] == list(range(2500))


def test_a_parked_fetch_is_woken(kafka: Broker) -> None:
    """A waiting consumer gets the records of `produce` at once, not when its fetch expires."""
    kafka.create_topic("orders")
    with kafka_python.KafkaConsumer(
        "orders", bootstrap_servers=kafka.bootstrap_servers, fetch_max_wait_ms=20_000
    ) as reader:
        while not reader.assignment():
            reader.poll(timeout_ms=50)
        reader.seek_to_beginning()
        reader.poll(timeout_ms=200)
        started = time.monotonic()
        kafka.produce("orders", "x")
        while not reader.poll(timeout_ms=5000):
            pass
    assert time.monotonic() - started < 10


def test_produce_says_what_is_wrong(kafka: Broker) -> None:
    """Each mistake is named with its value, and nothing is written."""
    kafka.create_topic("orders", 2, {"cleanup.policy": "compact"})
    mistakes: dict[str, Callable[[], object]] = {
        "topic orders has no partition 2, but 2": lambda: kafka.produce("orders", "x", partition=2),
        "orders-0": lambda: kafka.produce("orders", "no key"),
        "-5 is no timestamp": lambda: kafka.produce("orders", "x", key="k", timestamp_ms=-5),
        "__consumer_offsets": lambda: kafka.produce("__consumer_offsets", "x"),
        "a/b": lambda: kafka.create_topic("a/b"),
        "TOPIC_ALREADY_EXISTS: Topic 'orders' already": lambda: kafka.create_topic("orders"),
        "1 to 10000 partitions, not 0": lambda: kafka.create_topic("none", 0),
        "retention.ms": lambda: kafka.create_topic("none", 1, {"retention.ms": "long"}),
        "no partition 9, but 2": lambda: kafka.consume("orders", partition=9),
    }
    for words, do in mistakes.items():
        with pytest.raises(BrokerError, match=re.escape(words)):
            do()
    with pytest.raises(TypeError, match="not 5"):
        kafka.produce("orders", 5)  # type: ignore[arg-type]  # deliberately wrong argument
    assert kafka.consume("orders", None) == []


def test_topics_have_their_configs(kafka: Broker) -> None:
    """A client sees the configs that were passed to `create_topic`."""
    kafka.create_topic("orders", 4, {"retention.ms": 60_000, "cleanup.policy": "compact"})
    assert kafka.topics() == {"orders": 4}
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    resource = confluent_kafka.admin.ConfigResource("TOPIC", "orders")
    (future,) = admin.describe_configs([resource]).values()
    configs = future.result(10)
    assert configs["retention.ms"].value == "60000"
    assert configs["cleanup.policy"].value == "compact"


def test_consume_waits(kafka: Broker) -> None:
    """`consume` waits for later records, even if their topic does not exist yet."""
    timer = threading.Timer(0.2, lambda: kafka.produce("orders", "late"))
    timer.start()
    assert [one.value for one in kafka.consume("orders")] == [b"late"]
    timer.join()


def test_consume_tells_what_came_instead(kafka: Broker) -> None:
    """With too few records, the failure shows their number, the records, and the end offsets."""
    with pytest.raises(WaitTimeout, match=r"0 of 1 records .* there is no such topic"):
        kafka.consume("orders", timeout=0.05)
    kafka.produce("orders", "a", "b")
    with pytest.raises(
        WaitTimeout, match=r"2 of 3 records came in orders within 0\.05 s(.|\n)*0 ends at 2"
    ) as raised:
        kafka.consume("orders", 3, timeout=0.05)
    assert "value=b'b'" in str(raised.value)


@pytest.mark.real_time
def test_a_group_of_real_consumers(kafka: Broker) -> None:
    """The members, subscription, assignment and offsets of a group match those of its consumers."""
    kafka.create_topic("orders", 4)
    kafka.produce("orders", *"abcdefgh")
    assert kafka.group("app") is None
    assert kafka.committed("app") == {}
    with consumer(kafka, "orders", group_id="app", client_id="one", enable_auto_commit=False):
        alone = kafka.wait_for_group("app", members=1)
        assert alone.members[0].client_id == "one"
        assert alone.members[0].host == "/127.0.0.1"
        with consumer(
            kafka,
            "orders",
            group_id="app",
            group_instance_id="static",
            client_id="two",
            enable_auto_commit=False,
        ) as second:
            both = kafka.wait_for_group("app", members=2)
            assert both.generation > alone.generation
            assigned = {one.client_id: set(one.assignment) for one in both.members}
            assert set.union(*assigned.values()) == {("orders", index) for index in range(4)}
            assert not set.intersection(*assigned.values())
            assert {one.instance_id for one in both.members} == {None, "static"}
            assert {one.subscription for one in both.members} == {("orders",)}
            index = min(assigned["two"])[1]
            wait_for(second.assignment, "the second one has learnt of its partitions")
            second.commit({Place("orders", index): OffsetAndMetadata(2, "", -1)})
            assert kafka.committed("app") == {("orders", index): 2}
            assert kafka.committed("app")[TopicPartition("orders", index)] == 2
    kafka.clock.advance(60)  # the static member does not leave the group, but its session expires
    assert kafka.wait_for_group("app", state="Empty", members=0).members == ()
    assert kafka.groups() == {"app": "Empty"}


def test_waiting_for_a_state(kafka: Broker) -> None:
    """A wait for Empty, Dead or another valid state works; an unknown state is refused at once."""
    assert kafka.wait_for_group("app", state="Dead").members == ()
    kafka.create_topic("orders")
    with consumer(kafka, "orders", group_id="app", enable_auto_commit=False):
        kafka.wait_for_group("app")
        timer = threading.Timer(0.2, lambda: None)
        timer.start()
        assert kafka.wait_for_group("app", state=None, members=1).state == "Stable"
        timer.join()
    assert kafka.wait_for_group("app", state="Empty", members=0).group == "app"
    with pytest.raises(ValueError, match="'stable' is no state of a group, but Empty"):
        kafka.wait_for_group("app", state="stable")


def test_a_group_that_does_not_come_is_told_of(kafka: Broker) -> None:
    """The failure shows members with hosts and assignments, offsets, and the last rebalance."""
    kafka.create_topic("orders", 2)
    kafka.produce("orders", "a", "b")
    with consumer(kafka, "orders", group_id="app", client_id="worker") as one:
        kafka.wait_for_group("app")
        while not kafka.committed("app"):
            one.commit()
        with pytest.raises(WaitTimeout) as raised:
            kafka.wait_for_group("app", members=3, timeout=0.1)
        text = str(raised.value)
        assert "group 'app' was not Stable with 3 members within 0.1 s; it is Stable" in text
        member = r"worker-[-0-9a-f]{36} on /127\.0\.0\.1: subscribed to orders, assigned orders-0, "
        assert re.search(member + "orders-1", text), text
        assert re.search(r"committed: orders-\d at \d", text), text
        assert re.search(r"last rebalance: .*generation \d: .*worker", text), text
        with pytest.raises(WaitTimeout, match=r"'other' .* there is no such group, but app"):
            kafka.wait_for_group("other", timeout=0.01)


def test_any_name_is_the_name_of_a_group(kafka: Broker) -> None:
    """A group is found by any name, even with slashes, spaces and umlauts."""
    group = f"a/b c?d=e&ü%41#{uuid.uuid4()}"
    kafka.create_topic("orders")
    with consumer(kafka, "orders", group_id=group):
        assert kafka.wait_for_group(group, members=1).group == group
    assert group in kafka.groups()


async def test_helpers_can_be_awaited(kafka: Broker) -> None:
    """Each helper also exists as a coroutine with the same result."""
    aio = kafka.aio
    await aio.reset()
    await aio.create_topic("orders", 2, {"retention.ms": 60_000})
    assert await aio.topics() == {"orders": 2}
    (written,) = await aio.produce(
        "orders", "x", key="k", partition=1, headers={"h": b"1"}, timestamp_ms=5
    )
    assert written == Record("orders", 1, 0, b"k", b"x", (("h", b"1"),), 5)
    assert await aio.consume("orders", 1, partition=1, offset=0, timeout=5) == [written]
    assert await aio.groups() == {}
    assert await aio.group("app") is None
    assert await aio.committed("app") == {}
    assert (await aio.wait_for_group("app", state="Dead", members=0, timeout=1)).state == "Dead"
