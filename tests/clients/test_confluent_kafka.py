"""Everyday use of confluent-kafka (librdkafka): producing, consuming, offsets and groups."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.clients.support import create_topic
from tests.support import wait_for

Open = Callable[..., Any]


@pytest.fixture
def produce(bootstrap: str) -> Open:
    """A function that opens a producer with settings given with `_` for `.`."""

    def start(**settings: object) -> Any:
        # Log nothing: a confluent-kafka producer has no `close`, so a producer that an exception
        # refers to may outlive the broker and log errors.
        return confluent_kafka.Producer({**configuration(bootstrap, settings), "log_level": 0})

    return start


@pytest.fixture
def consume(bootstrap: str) -> Iterator[Open]:
    """A function that opens a consumer with offset reset earliest and a short metadata age."""
    with ExitStack() as stack:

        def start(*topics: str, **settings: object) -> Any:
            quick = {
                "group_id": "nobody",
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "heartbeat_interval_ms": 250,
                "fetch_wait_max_ms": 200,
                "topic_metadata_refresh_interval_ms": 300,
            }
            consumer = confluent_kafka.Consumer(configuration(bootstrap, {**quick, **settings}))
            stack.callback(consumer.close)
            if topics:
                consumer.subscribe(list(topics))
            return consumer

        yield start


def configuration(bootstrap: str, settings: dict[str, object]) -> dict[str, object]:
    """Return the settings in librdkafka's form."""
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": bootstrap, **dotted}


def send_all(producer: Any, topic: str, *payloads: bytes, **options: object) -> list[Any]:
    """Send values, wait for all acknowledgements, and return the delivered messages."""
    delivered: list[Any] = []

    def on_delivery(error: Any, message: Any) -> None:
        if error is not None:
            raise KafkaException(error)
        delivered.append(message)

    for payload in payloads:
        producer.produce(topic, payload, on_delivery=on_delivery, **options)
    assert producer.flush(20) == 0
    return delivered


def take(consumer: Any, count: int) -> list[Any]:
    """Return exactly `count` messages; fail if there are more."""
    messages: list[Any] = []

    def poll() -> bool:
        for message in consumer.consume(count, 0.1):
            if message.error() is None:
                messages.append(message)
            else:
                assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        return len(messages) >= count

    wait_for(poll, f"{count} messages")
    assert not consumer.consume(1, 0.05)
    return messages


def values(messages: list[Any]) -> list[bytes]:
    """Return the values of messages."""
    return [message.value() for message in messages]


def owned(consumer: Any) -> set[tuple[str, int]]:
    """Poll, so that rebalances progress, and return the assignment."""
    consumer.poll(0.05)
    return {(place.topic, place.partition) for place in consumer.assignment()}


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": 0},
        {"acks": 1},
        {"acks": "all"},
        {"enable_idempotence": True},
        {"compression_type": "gzip"},
        {"compression_type": "snappy"},
        {"compression_type": "lz4"},
        {"compression_type": "zstd"},
    ],
    ids=lambda settings: "-".join(str(value) for value in settings.values()),
)
def test_records_arrive_as_they_were_sent(
    bootstrap: str, name: str, produce: Open, consume: Open, settings: dict[str, object]
) -> None:
    """Keys, values, headers, timestamps and order are kept with every codec and acks setting."""
    create_topic(bootstrap, name)
    producer = produce(**settings)
    for number in range(50):
        producer.produce(
            name,
            value=f"value {number}".encode() * 20,
            key=f"key {number}".encode(),
            headers=[("number", str(number).encode()), ("null", None)],
            timestamp=1_700_000_000_000 + number,
        )
    producer.produce(name, key=b"tombstone")
    assert producer.flush(20) == 0
    messages = take(consume(name), 51)
    for number, message in enumerate(messages[:50]):
        assert message.offset() == number
        assert message.value() == f"value {number}".encode() * 20
        assert message.key() == f"key {number}".encode()
        assert message.headers() == [("number", str(number).encode()), ("null", None)]
        assert message.timestamp() == (1, 1_700_000_000_000 + number)
    assert (messages[50].key(), messages[50].value()) == (b"tombstone", None)


def test_positions_and_times(bootstrap: str, name: str, produce: Open, consume: Open) -> None:
    """Watermarks, offsets_for_times, seek and position match the sent records."""
    create_topic(bootstrap, name, 2)
    producer = produce()
    for number in range(10):
        send_all(producer, name, str(number).encode(), partition=0, timestamp=1_000 * (number + 1))
    consumer = consume()
    assert consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=30) == (0, 10)
    assert consumer.get_watermark_offsets(TopicPartition(name, 1), timeout=30) == (0, 0)
    asked = [TopicPartition(name, 0, 4_500), TopicPartition(name, 1, 0)]
    found = consumer.offsets_for_times(asked, timeout=30)
    assert [place.offset for place in found] == [4, confluent_kafka.OFFSET_END]

    consumer.assign([TopicPartition(name, 0, 8)])
    assert values(take(consumer, 2)) == [b"8", b"9"]
    consumer.seek(TopicPartition(name, 0, 5))
    assert values(take(consumer, 5)) == [b"5", b"6", b"7", b"8", b"9"]
    assert consumer.position([TopicPartition(name, 0)])[0].offset == 10
    consumer.assign([TopicPartition(name, 0, confluent_kafka.OFFSET_BEGINNING)])
    assert len(take(consumer, 10)) == 10


def test_a_topic_appears_when_it_is_produced_to(name: str, produce: Open, consume: Open) -> None:
    """The first message to an unknown topic creates the topic and is not lost."""
    [sent] = send_all(produce(), name, b"first")
    assert (sent.partition(), sent.offset()) == (0, 0)
    assert values(take(consume(name), 1)) == [b"first"]


def test_a_subscriber_sees_a_topic_that_comes_later(
    name: str, produce: Open, consume: Open
) -> None:
    """A member that subscribed to an unknown topic gets the first message once the topic exists."""
    consumer = consume(name, group_id=name)
    unknown = wait_for(lambda: consumer.poll(0.5), "an error")
    assert unknown.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    send_all(produce(), name, b"first")
    assert values(take(consumer, 1)) == [b"first"]


def test_a_pattern_takes_in_new_topics(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """A pattern subscription owns all matching topics, including one that is created later."""
    create_topic(bootstrap, f"{name}-a")
    consumer = consume(f"^{name}-.*", group_id=name)
    producer = produce()
    send_all(producer, f"{name}-a", b"old")
    assert values(take(consumer, 1)) == [b"old"]
    consumer.commit(asynchronous=False)
    create_topic(bootstrap, f"{name}-b", 2)
    send_all(producer, f"{name}-b", b"new", partition=1)
    assert values(take(consumer, 1)) == [b"new"]
    assert {topic for topic, _ in owned(consumer)} == {f"{name}-a", f"{name}-b"}


def test_commits_are_kept_with_their_metadata(name: str, produce: Open, consume: Open) -> None:
    """committed() returns offset and metadata; the group's next consumer starts at the offset."""
    send_all(produce(), name, *(str(number).encode() for number in range(6)))
    consumer = consume(name, group_id=name)
    messages = take(consumer, 6)
    asked = [TopicPartition(name, 0)]
    assert consumer.committed(asked, timeout=30)[0].offset == confluent_kafka.OFFSET_INVALID
    consumer.commit(message=messages[2], asynchronous=False)
    assert consumer.committed(asked, timeout=30)[0].offset == 3
    by_hand = TopicPartition(name, 0, 4, metadata="by hand: ü")
    consumer.commit(offsets=[by_hand], asynchronous=False)
    [committed] = consumer.committed(asked, timeout=30)
    assert (committed.offset, committed.metadata) == (4, "by hand: ü")
    consumer.close()
    assert values(take(consume(name, group_id=name), 2)) == [b"4", b"5"]


def test_two_groups_read_one_topic(name: str, produce: Open, consume: Open) -> None:
    """Each group gets all records and has separate offsets."""
    send_all(produce(), name, b"a", b"b")
    one, two = consume(name, group_id=f"{name}-1"), consume(name, group_id=f"{name}-2")
    assert values(take(one, 2)) == values(take(two, 2)) == [b"a", b"b"]
    one.commit(asynchronous=False)
    place = [TopicPartition(name, 0)]
    assert one.committed(place, timeout=30)[0].offset == 2
    assert two.committed(place, timeout=30)[0].offset == confluent_kafka.OFFSET_INVALID


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
    """auto.offset.reset: latest reads later records, earliest all; error reports an error."""
    producer = produce()
    send_all(producer, name, b"old")
    latest = consume(name, group_id=f"{name}-latest", auto_offset_reset="latest")
    wait_for(lambda: owned(latest), "an assignment")
    latest.poll(0.5)
    send_all(producer, name, b"new")
    assert values(take(latest, 1)) == [b"new"]
    assert values(take(consume(name, group_id=f"{name}-earliest"), 2)) == [b"old", b"new"]
    refusing = consume(name, group_id=f"{name}-none", auto_offset_reset="error")
    answer = wait_for(lambda: refusing.poll(0.5), "an error")
    assert answer.error().code() == KafkaError._AUTO_OFFSET_RESET


def test_big_messages(bootstrap: str, name: str, produce: Open, consume: Open) -> None:
    """Records just below max.message.bytes arrive; the broker refuses a larger record."""
    create_topic(bootstrap, name)
    producer = produce(message_max_bytes=4_000_000, batch_num_messages=1)
    payloads = [bytes([number]) * 1_000_000 for number in range(3)]
    assert len(send_all(producer, name, *payloads)) == 3
    with pytest.raises(KafkaException) as refused:
        send_all(producer, name, b"x" * 1_100_000)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert values(take(consume(name, max_partition_fetch_bytes=1_000), 3)) == payloads


def test_an_idempotent_producer_with_many_requests_in_flight(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """5 000 records in tiny batches with five requests in flight arrive completely and in order."""
    create_topic(bootstrap, name)
    producer = produce(enable_idempotence=True, batch_num_messages=20, linger_ms=0)
    sent = [str(number).encode() for number in range(5_000)]
    assert len(send_all(producer, name, *sent)) == 5_000
    assert values(take(consume(name), 5_000)) == sent


@pytest.mark.real_time
def test_a_waiting_fetch_is_answered_when_records_come(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """A consumer whose fetch waits up to 20 seconds gets a new record at once."""
    create_topic(bootstrap, name)
    consumer = consume(fetch_wait_max_ms=20_000)
    consumer.assign([TopicPartition(name, 0)])
    assert consumer.poll(0.3) is None
    producer = produce()
    started = time.monotonic()
    send_all(producer, name, b"now")
    message = wait_for(lambda: consumer.poll(1), "the message")
    assert message.value() == b"now"
    assert time.monotonic() - started < 5


def test_many_partitions(bootstrap: str, name: str, produce: Open, consume: Open) -> None:
    """A topic of 200 partitions is produced to and consumed."""
    create_topic(bootstrap, name, 200)
    producer = produce()
    for number in range(200):
        producer.produce(name, str(number).encode(), partition=number)
    assert producer.flush(20) == 0
    got = {(message.partition(), message.value()) for message in take(consume(name), 200)}
    assert got == {(number, str(number).encode()) for number in range(200)}


@pytest.mark.real_time
def test_a_second_consumer_with_the_same_instance_fences_the_first(
    bootstrap: str, name: str, consume: Open
) -> None:
    """When another consumer takes over its group.instance.id, the old one gets a fatal error."""
    create_topic(bootstrap, name)
    old = consume(name, group_id=name, group_instance_id="me")
    wait_for(lambda: owned(old), "an assignment")
    new = consume(name, group_id=name, group_instance_id="me")
    wait_for(lambda: owned(new), "the assignment taken over")

    def fenced() -> bool:
        message = old.poll(0.1)
        return message is not None and message.error().code() == KafkaError._FATAL

    wait_for(fenced, "the fatal error")


def test_unsubscribing_gives_partitions_away(bootstrap: str, name: str, consume: Open) -> None:
    """A member that unsubscribes leaves the group, and the other member owns all partitions."""
    create_topic(bootstrap, name, 2)
    one, two = consume(name, group_id=name), consume(name, group_id=name)
    wait_for(lambda: (len(owned(one)), len(owned(two))) == (1, 1), "one each")
    two.unsubscribe()
    wait_for(lambda: len(owned(one)) + len(owned(two)) == 2 and len(owned(one)) == 2, "both")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_pattern_leaves_the_broker_s_own_topic_out(
    start_broker: Callable[..., Any], name: str, protocol: str
) -> None:
    """`^.*` matches user topics and Kafka's internal topics, but not our topic `__group_events`."""
    bootstrap = start_broker().bootstrap_servers
    create_topic(bootstrap, name)
    quick = {
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 300,
        "bootstrap.servers": bootstrap,
        "group.protocol": protocol,
    }
    one = confluent_kafka.Consumer({**quick, "group.id": f"{name}-1"})
    two = confluent_kafka.Consumer({**quick, "group.id": f"{name}-2"})
    three = confluent_kafka.Consumer({**quick, "group.id": f"{name}-3"})
    try:
        one.subscribe([name])
        wait_for(lambda: owned(one), "an assignment, which makes the topic of explained rebalances")
        three.subscribe(["__group_events"])
        wait_for(lambda: owned(three) == {("__group_events", 0)}, "the topic by its name")
        (event,) = three.consume(1, 10)
        assert json.loads(event.value())["group"] == f"{name}-1"
        two.subscribe(["^.*"])
        wait_for(lambda: owned(two), "the topics of the pattern")
        assert {topic for topic, _ in owned(two)} == {name, "__consumer_offsets"}
        assert set(two.list_topics().topics) == {name, "__consumer_offsets"}
        assert set(two.list_topics("__group_events").topics) == {"__group_events"}
    finally:
        for consumer in (one, two, three):
            consumer.close()
