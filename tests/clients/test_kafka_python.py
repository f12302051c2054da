"""Everyday use of kafka-python: producing, consuming, offsets and times, in one process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import kafka
import pytest
from kafka.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    MessageSizeTooLargeError,
    NoOffsetForPartitionError,
)

from tests.clients.support import create_topic
from tests.known_topics import know_topics
from tests.support import wait_for

Open = Callable[..., Any]

POLL_MS = 500


@pytest.fixture
def clients(bootstrap: str) -> Iterator[ExitStack]:
    """A stack that closes the clients that a test opened."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def produce(bootstrap: str, clients: ExitStack) -> Open:
    """A function that opens a producer."""

    def start(**configs: object) -> Any:
        return clients.enter_context(kafka.KafkaProducer(bootstrap_servers=bootstrap, **configs))

    return start


@pytest.fixture
def consume(bootstrap: str, clients: ExitStack) -> Open:
    """A function that opens a consumer with offset reset earliest and a short metadata age."""

    def start(*topics: str, **configs: object) -> Any:
        quick = {
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 250,
            "fetch_max_wait_ms": 200,
        }
        consumer = kafka.KafkaConsumer(*topics, bootstrap_servers=bootstrap, **{**quick, **configs})
        return clients.enter_context(consumer)

    return start


def join(consumer: Any) -> None:
    """Poll until the consumer has an assignment."""
    know_topics(consumer)
    wait_for(lambda: consumer.poll(POLL_MS) or consumer.assignment(), "an assignment")


def take(consumer: Any, count: int) -> list[Any]:
    """Poll until `count` records have arrived, and check that no more follow."""
    know_topics(consumer)
    records: list[Any] = []

    def poll() -> bool:
        for batch in consumer.poll(timeout_ms=10_000).values():
            records.extend(batch)
        return len(records) >= count

    wait_for(poll, f"{count} records")
    for batch in consumer.poll(timeout_ms=0).values():
        records.extend(batch)
    assert len(records) == count
    return records


def values(records: list[Any]) -> list[bytes]:
    """Return the values of records."""
    return [record.value for record in records]


def send_all(producer: Any, topic: str, *payloads: bytes, **options: object) -> list[Any]:
    """Send values and wait for all acknowledgements."""
    futures = [producer.send(topic, payload, **options) for payload in payloads]
    producer.flush()
    return [future.get(timeout=30) for future in futures]


@pytest.mark.parametrize(
    "configs",
    [
        {"acks": 0, "enable_idempotence": False},
        {"acks": 1, "enable_idempotence": False},
        {"acks": "all", "enable_idempotence": False},
        {"acks": "all", "enable_idempotence": True},
        {"compression_type": "gzip", "linger_ms": 20},
    ],
    ids=["acks-0", "acks-1", "acks-all", "idempotent", "gzip"],
)
def test_records_arrive_as_they_were_sent(
    bootstrap: str, name: str, produce: Open, consume: Open, configs: dict[str, object]
) -> None:
    """Keys, values, headers, timestamps and order are kept at every level of acknowledgement."""
    create_topic(bootstrap, name)
    producer = produce(**configs)
    for number in range(50):
        producer.send(
            name,
            value=f"value {number}".encode() * 20,
            key=f"key {number}".encode(),
            headers=[("number", str(number).encode()), ("number", b"again"), ("empty", b"")],
            timestamp_ms=1_700_000_000_000 + number,
        )
    producer.send(name, key=b"tombstone")
    producer.flush()
    records = take(consume(name), 51)
    for number, record in enumerate(records[:50]):
        assert record.offset == number
        assert record.value == f"value {number}".encode() * 20
        assert record.key == f"key {number}".encode()
        assert record.headers[0] == ("number", str(number).encode())
        assert record.headers[1:] == [("number", b"again"), ("empty", b"")]
        assert (record.timestamp, record.timestamp_type) == (1_700_000_000_000 + number, 0)
    assert (records[50].key, records[50].value) == (b"tombstone", None)


def test_acknowledgements_name_the_place(bootstrap: str, name: str, produce: Open) -> None:
    """The producer gets topic, partition, offset and timestamp of the sent record."""
    create_topic(bootstrap, name, 2)
    sent = send_all(produce(), name, b"a", b"b", partition=1, timestamp_ms=5_000)
    places = [(one.topic, one.partition, one.offset, one.timestamp) for one in sent]
    assert places == [(name, 1, 0, 5_000), (name, 1, 1, 5_000)]


def test_log_append_time_is_the_brokers(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """With message.timestamp.type=LogAppendTime records have the broker's timestamp."""
    create_topic(bootstrap, name, 1, {"message.timestamp.type": "LogAppendTime"})
    before_ms = time.time() * 1000 - 2_000
    [sent] = send_all(produce(), name, b"a", timestamp_ms=5_000)
    [record] = take(consume(name), 1)
    assert record.timestamp_type == 1
    assert before_ms < record.timestamp < before_ms + 60_000
    assert sent.timestamp == record.timestamp


def test_positions_and_times(bootstrap: str, name: str, produce: Open, consume: Open) -> None:
    """seek, beginning and end offsets, position and offsets_for_times match the sent records."""
    create_topic(bootstrap, name, 2)
    first, second = kafka.TopicPartition(name, 0), kafka.TopicPartition(name, 1)
    producer = produce()
    for number in range(10):
        send_all(producer, name, str(number).encode(), partition=0, timestamp_ms=1_000 * number)
    consumer = consume()
    consumer.assign([first, second])
    assert consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
    assert consumer.end_offsets([first, second]) == {first: 10, second: 0}

    found = consumer.offsets_for_times({first: 3_500, second: 0})
    assert (found[first].offset, found[first].timestamp) == (4, 4_000)
    assert found[second] is None
    assert consumer.offsets_for_times({first: 9_001}) == {first: None}

    consumer.seek(first, 7)
    assert values(take(consumer, 3)) == [b"7", b"8", b"9"]
    assert consumer.position(first) == 10
    consumer.seek_to_beginning(first)
    assert consumer.position(first) == 0
    consumer.seek_to_end(first)
    assert consumer.position(first) == 10
    send_all(producer, name, b"10", partition=0)
    assert values(take(consumer, 1)) == [b"10"]


def test_a_paused_partition_waits(bootstrap: str, name: str, produce: Open, consume: Open) -> None:
    """A paused partition returns no records while others do, and all its records once resumed."""
    create_topic(bootstrap, name, 2)
    consumer = consume()
    quiet, loud = kafka.TopicPartition(name, 0), kafka.TopicPartition(name, 1)
    consumer.assign([quiet, loud])
    consumer.pause(quiet)
    producer = produce()
    send_all(producer, name, b"quiet", partition=0)
    send_all(producer, name, b"loud", partition=1)
    assert values(take(consumer, 1)) == [b"loud"]
    consumer.resume(quiet)
    assert values(take(consumer, 1)) == [b"quiet"]


def test_a_topic_appears_when_it_is_produced_to(name: str, produce: Open, consume: Open) -> None:
    """The first message to an unknown topic creates the topic and is not lost."""
    sent = send_all(produce(), name, b"first")
    assert (sent[0].partition, sent[0].offset) == (0, 0)
    assert values(take(consume(name), 1)) == [b"first"]


def test_a_topic_appears_when_it_is_subscribed_to(name: str, produce: Open, consume: Open) -> None:
    """A member that subscribes to an unknown topic creates the topic and gets its first record."""
    consumer = consume(name, group_id=name, metadata_max_age_ms=300)
    # kafka-python may get stuck if a poll ends during a second join (see know_topics). Each poll
    # lasts 3 s, which is longer than a join.
    wait_for(lambda: consumer.poll(3_000) or consumer.assignment(), "an assignment")
    send_all(produce(), name, b"first")
    assert values(take(consumer, 1)) == [b"first"]


def test_a_pattern_takes_in_new_topics(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """A pattern subscription owns all matching topics, including one that is created later."""
    create_topic(bootstrap, f"{name}-a")
    create_topic(bootstrap, f"other-{name}")
    consumer = consume(group_id=name, metadata_max_age_ms=300)
    consumer.subscribe(pattern=f"^{name}-.*")
    producer = produce()
    send_all(producer, f"other-{name}", b"no")
    send_all(producer, f"{name}-a", b"old")
    assert values(take(consumer, 1)) == [b"old"]
    consumer.commit()
    create_topic(bootstrap, f"{name}-b", 2)
    send_all(producer, f"{name}-b", b"new", partition=1)
    assert values(take(consumer, 1)) == [b"new"]
    assert {topic for topic, _ in consumer.assignment()} == {f"{name}-a", f"{name}-b"}


def test_commits_are_kept_with_their_metadata(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """committed() returns offset and metadata; the group's next consumer starts at the offset."""
    create_topic(bootstrap, name)
    place = kafka.TopicPartition(name, 0)
    send_all(produce(), name, *(str(number).encode() for number in range(6)))
    consumer = consume(name, group_id=name)
    assert len(take(consumer, 6)) == 6
    assert consumer.committed(place) is None
    consumer.commit({place: kafka.OffsetAndMetadata(4, "by hand: ü", -1)})
    assert consumer.committed(place) == 4
    assert consumer.committed(place, metadata=True).metadata == "by hand: ü"
    consumer.close()
    assert values(take(consume(name, group_id=name), 2)) == [b"4", b"5"]


def test_two_groups_read_one_topic(name: str, produce: Open, consume: Open) -> None:
    """Each group gets all records and has separate offsets."""
    send_all(produce(), name, b"a", b"b")
    one, two = consume(name, group_id=f"{name}-1"), consume(name, group_id=f"{name}-2")
    assert values(take(one, 2)) == values(take(two, 2)) == [b"a", b"b"]
    one.commit()
    place = kafka.TopicPartition(name, 0)
    assert (one.committed(place), two.committed(place)) == (2, None)


def test_auto_commit_on_close(name: str, produce: Open, consume: Open) -> None:
    """A consumer with auto commit commits its position when it closes."""
    producer = produce()
    send_all(producer, name, b"a", b"b")
    consumer = consume(name, group_id=name, enable_auto_commit=True)
    take(consumer, 2)
    consumer.close()
    send_all(producer, name, b"c")
    assert values(take(consume(name, group_id=name), 1)) == [b"c"]


def test_where_a_consumer_without_offsets_starts(name: str, produce: Open, consume: Open) -> None:
    """auto.offset.reset: latest reads later records, earliest all records; none is an error."""
    producer = produce()
    send_all(producer, name, b"old")
    place = kafka.TopicPartition(name, 0)
    latest = consume(group_id=f"{name}-latest", auto_offset_reset="latest")
    latest.assign([place])
    assert latest.position(place) == 1
    send_all(producer, name, b"new")
    assert values(take(latest, 1)) == [b"new"]
    assert values(take(consume(name, group_id=f"{name}-earliest"), 2)) == [b"old", b"new"]
    refusing = consume(group_id=f"{name}-none", auto_offset_reset="none")
    refusing.assign([place])
    with pytest.raises(NoOffsetForPartitionError):
        refusing.poll(timeout_ms=10_000)
    # The position is out of range, so the reset policy applies.
    latest.seek(place, 1_000)
    wait_for(lambda: latest.poll(POLL_MS) or latest.position(place) == 2, "a reset to the end")


def test_big_messages(bootstrap: str, name: str, produce: Open, consume: Open) -> None:
    """Records just below max.message.bytes arrive; the broker refuses a larger record."""
    create_topic(bootstrap, name)
    producer = produce(max_request_size=4_000_000, batch_size=0)
    payloads = [bytes([number]) * 1_000_000 for number in range(5)]
    send_all(producer, name, *payloads)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(name, b"x" * 1_100_000).get(timeout=30)
    # A fetch returns at least one record, even if the record is larger than the partition limit.
    consumer = consume(name, max_partition_fetch_bytes=1_000)
    assert values(take(consumer, 5)) == payloads


def test_topic_limit_on_message_size(bootstrap: str, name: str, produce: Open) -> None:
    """The topic's own max.message.bytes takes precedence over the broker's default."""
    create_topic(bootstrap, name, 1, {"max.message.bytes": "2000"})
    producer = produce()
    assert len(send_all(producer, name, b"x" * 1_500)) == 1
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(name, b"x" * 2_500).get(timeout=30)


def test_many_partitions(bootstrap: str, name: str, produce: Open, consume: Open) -> None:
    """A topic of 200 partitions is produced to, listed and consumed by a group of two."""
    create_topic(bootstrap, name, 200)
    producer = produce(linger_ms=50)
    for number in range(200):
        producer.send(name, str(number).encode(), partition=number)
    producer.flush()
    one, two = consume(name, group_id=name), consume(name, group_id=name)
    assert one.partitions_for_topic(name) == set(range(200))
    got: set[bytes] = set()

    def poll() -> bool:
        for consumer in (one, two):
            for batch in consumer.poll(timeout_ms=POLL_MS).values():
                got.update(values(batch))
        return len(got) == 200 and bool(one.assignment()) and bool(two.assignment())

    wait_for(poll, "200 records")
    assert {len(one.assignment()), len(two.assignment())} == {100}


def test_an_idempotent_producer_keeps_order_in_flight(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """With five requests in flight, the records of each of four threads stay in order."""
    create_topic(bootstrap, name)
    producer = produce(enable_idempotence=True, batch_size=200)

    def send(thread: int) -> None:
        for number in range(250):
            producer.send(name, f"{thread}:{number}".encode())

    threads = [threading.Thread(target=send, args=(thread,)) for thread in range(4)]
    for running in threads:
        running.start()
    for running in threads:
        running.join()
    producer.flush()
    records = take(consume(name), 1_000)
    for thread in range(4):
        mine = [value for value in values(records) if value.startswith(f"{thread}:".encode())]
        assert mine == [f"{thread}:{number}".encode() for number in range(250)]


@pytest.mark.real_time
def test_a_waiting_fetch_is_answered_when_records_come(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """A consumer whose fetch waits up to 20 seconds gets a new record at once."""
    create_topic(bootstrap, name)
    consumer = consume(fetch_max_wait_ms=20_000)
    consumer.assign([kafka.TopicPartition(name, 0)])
    consumer.poll(timeout_ms=300)
    producer = produce()
    started = time.monotonic()
    send_all(producer, name, b"now")
    assert values(take_first(consumer)) == [b"now"]
    assert time.monotonic() - started < 5


def take_first(consumer: Any) -> list[Any]:
    """Return the records of the first poll that is not empty."""
    batches = wait_for(lambda: consumer.poll(timeout_ms=1_000), "a record")
    return [record for batch in batches.values() for record in batch]


def test_iteration_ends_when_nothing_comes(name: str, produce: Open, consume: Open) -> None:
    """`for record in consumer` returns all records and ends after consumer_timeout_ms."""
    send_all(produce(), name, *(str(number).encode() for number in range(100)))
    consumer = consume(name, group_id=name, consumer_timeout_ms=1_000)
    assert [record.value for record in consumer] == [str(number).encode() for number in range(100)]


def test_topics_are_listed_without_internal_ones(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """topics() returns only user topics; the offsets topic can still be read by name."""
    create_topic(bootstrap, name)
    consumer = consume(name, group_id=name)
    join(consumer)
    consumer.commit({kafka.TopicPartition(name, 0): kafka.OffsetAndMetadata(7, "", -1)})
    assert name in consumer.topics()
    assert "__consumer_offsets" not in consumer.topics()
    offsets = consume(exclude_internal_topics=False)
    partitions = offsets.partitions_for_topic("__consumer_offsets")
    assert len(partitions) == 50
    offsets.assign([kafka.TopicPartition("__consumer_offsets", number) for number in partitions])
    keys: list[bytes] = []

    def found() -> bool:
        for batch in offsets.poll(timeout_ms=200).values():
            keys.extend(record.key for record in batch)
        return any(name.encode() in key for key in keys)

    wait_for(found, "a record of the group")


@pytest.mark.real_time
def test_a_member_that_does_not_poll_loses_its_place(
    bootstrap: str, name: str, consume: Open
) -> None:
    """A member that exceeds max_poll_interval_ms leaves, and its late commit is refused."""
    create_topic(bootstrap, name)
    slow = consume(name, group_id=name, max_poll_interval_ms=1_000, session_timeout_ms=6_000)
    join(slow)
    other = consume(name, group_id=name)
    join(other)
    with pytest.raises(CommitFailedError):
        slow.commit({kafka.TopicPartition(name, 0): kafka.OffsetAndMetadata(1, "", -1)})


@pytest.mark.real_time
def test_a_second_consumer_with_the_same_instance_fences_the_first(
    bootstrap: str, name: str, consume: Open
) -> None:
    """When another consumer takes over its group_instance_id, the old member cannot commit."""
    create_topic(bootstrap, name)
    old = consume(name, group_id=name, group_instance_id="me")
    join(old)
    new = consume(name, group_id=name, group_instance_id="me")
    join(new)
    assert new.group_metadata().generation_id == old.group_metadata().generation_id
    with pytest.raises(FencedInstanceIdError):
        old.commit({kafka.TopicPartition(name, 0): kafka.OffsetAndMetadata(1, "", -1)})
