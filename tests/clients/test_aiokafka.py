"""Everyday use of aiokafka: producing, consuming, offsets, groups and the admin client."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import aiokafka
import aiokafka.admin
import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, NoOffsetForPartitionError

from tests.clients.support import create_topic

Open = Callable[..., Awaitable[Any]]


@pytest.fixture
async def clients() -> AsyncIterator[AsyncExitStack]:
    """A stack that closes the clients that a test opened."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def produce(bootstrap: str, clients: AsyncExitStack) -> Open:
    """A function that opens a producer."""

    async def start(**configs: object) -> Any:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **configs)
        return await clients.enter_async_context(producer)

    return start


@pytest.fixture
def consume(bootstrap: str, clients: AsyncExitStack) -> Open:
    """A function that opens a consumer with offset reset earliest and a short metadata age."""

    async def start(*topics: str, pattern: str | None = None, **configs: object) -> Any:
        quick = {
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 250,
            "fetch_max_wait_ms": 200,
        }
        consumer = aiokafka.AIOKafkaConsumer(
            *topics, bootstrap_servers=bootstrap, **{**quick, **configs}
        )
        if pattern is not None:
            consumer.subscribe(pattern=pattern)
        return await clients.enter_async_context(consumer)

    return start


async def take(consumer: Any, count: int) -> list[Any]:
    """Return exactly `count` records; fail if there are more."""
    records: list[Any] = []
    async with asyncio.timeout(60):
        while len(records) < count:
            for batch in (await consumer.getmany(timeout_ms=200)).values():
                records += batch
    for batch in (await consumer.getmany(timeout_ms=0)).values():
        records += batch
    assert len(records) == count
    return records


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait until the condition is true."""
    try:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(what) from None


def values(records: list[Any]) -> list[bytes]:
    """Return the values of records."""
    return [record.value for record in records]


@pytest.mark.parametrize(
    "configs",
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
    ids=lambda configs: "-".join(str(value) for value in configs.values()),
)
async def test_records_arrive_as_they_were_sent(
    bootstrap: str, name: str, produce: Open, consume: Open, configs: dict[str, object]
) -> None:
    """Keys, values, headers, timestamps and order are kept with every codec and acks setting."""
    create_topic(bootstrap, name)
    producer = await produce(**configs)
    for number in range(50):
        await producer.send(
            name,
            value=f"value {number}".encode() * 20,
            key=f"key {number}".encode(),
            headers=[("number", str(number).encode()), ("empty", b"")],
            timestamp_ms=1_700_000_000_000 + number,
        )
    await producer.flush()
    for number, record in enumerate(await take(await consume(name), 50)):
        assert record.offset == number
        assert record.value == f"value {number}".encode() * 20
        assert record.key == f"key {number}".encode()
        assert record.headers == (("number", str(number).encode()), ("empty", b""))
        assert (record.timestamp, record.timestamp_type) == (1_700_000_000_000 + number, 0)


async def test_positions_and_times(bootstrap: str, name: str, produce: Open, consume: Open) -> None:
    """seek, beginning and end offsets, position and offsets_for_times match the sent records."""
    create_topic(bootstrap, name, 2)
    first, second = aiokafka.TopicPartition(name, 0), aiokafka.TopicPartition(name, 1)
    producer = await produce()
    for number in range(10):
        payload = str(number).encode()
        await producer.send_and_wait(name, payload, partition=0, timestamp_ms=1_000 * number)
    consumer = await consume()
    consumer.assign([first, second])
    assert await consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
    assert await consumer.end_offsets([first, second]) == {first: 10, second: 0}
    found = await consumer.offsets_for_times({first: 3_500, second: 0})
    assert (found[first].offset, found[first].timestamp) == (4, 4_000)
    assert found[second] is None

    consumer.seek(first, 7)
    assert values(await take(consumer, 3)) == [b"7", b"8", b"9"]
    assert await consumer.position(first) == 10
    await consumer.seek_to_beginning(first)
    assert await consumer.position(first) == 0
    await consumer.seek_to_end(first)
    await producer.send_and_wait(name, b"10", partition=0)
    assert values(await take(consumer, 1)) == [b"10"]


async def test_a_topic_appears_when_it_is_produced_to(
    name: str, produce: Open, consume: Open
) -> None:
    """The first message to an unknown topic creates the topic and is not lost."""
    sent = await (await produce()).send_and_wait(name, b"first")
    assert (sent.partition, sent.offset) == (0, 0)
    assert values(await take(await consume(name), 1)) == [b"first"]


async def test_a_pattern_takes_in_new_topics(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """A pattern subscription owns all matching topics, including one that is created later."""
    create_topic(bootstrap, f"{name}-a")
    consumer = await consume(pattern=f"^{name}-.*", group_id=name, metadata_max_age_ms=300)
    producer = await produce()
    await producer.send_and_wait(f"{name}-a", b"old")
    assert values(await take(consumer, 1)) == [b"old"]
    await consumer.commit()
    await asyncio.to_thread(create_topic, bootstrap, f"{name}-b", 2)
    await producer.send_and_wait(f"{name}-b", b"new", partition=1)
    assert values(await take(consumer, 1)) == [b"new"]
    assert {topic for topic, _ in consumer.assignment()} == {f"{name}-a", f"{name}-b"}


async def test_commits_are_kept_with_their_metadata(
    name: str, produce: Open, consume: Open
) -> None:
    """committed() returns the committed offset, where the group's next consumer starts."""
    producer = await produce()
    for number in range(6):
        await producer.send_and_wait(name, str(number).encode())
    consumer = await consume(name, group_id=name)
    place = aiokafka.TopicPartition(name, 0)
    await take(consumer, 6)
    assert await consumer.committed(place) is None
    await consumer.commit({place: (4, "by hand: ü")})
    assert await consumer.committed(place) == 4
    await consumer.stop()
    assert values(await take(await consume(name, group_id=name), 2)) == [b"4", b"5"]


async def test_two_groups_read_one_topic(name: str, produce: Open, consume: Open) -> None:
    """Each group gets all records and has separate offsets."""
    producer = await produce()
    await producer.send_and_wait(name, b"a")
    one = await consume(name, group_id=f"{name}-1")
    two = await consume(name, group_id=f"{name}-2")
    assert values(await take(one, 1)) == values(await take(two, 1)) == [b"a"]
    await one.commit()
    place = aiokafka.TopicPartition(name, 0)
    assert (await one.committed(place), await two.committed(place)) == (1, None)


async def test_auto_commit_on_stop(name: str, produce: Open, consume: Open) -> None:
    """A consumer with auto commit commits its position when it stops."""
    producer = await produce()
    await producer.send_and_wait(name, b"a")
    consumer = await consume(name, group_id=name, enable_auto_commit=True)
    await take(consumer, 1)
    await consumer.stop()
    await producer.send_and_wait(name, b"b")
    assert values(await take(await consume(name, group_id=name), 1)) == [b"b"]


async def test_where_a_consumer_without_offsets_starts(
    name: str, produce: Open, consume: Open
) -> None:
    """auto.offset.reset: latest reads later records, earliest all records; none is an error."""
    producer = await produce()
    await producer.send_and_wait(name, b"old")
    place = aiokafka.TopicPartition(name, 0)
    latest = await consume(group_id=f"{name}-latest", auto_offset_reset="latest")
    latest.assign([place])
    assert await latest.position(place) == 1
    await producer.send_and_wait(name, b"new")
    assert values(await take(latest, 1)) == [b"new"]
    earliest = await consume(name, group_id=f"{name}-earliest")
    assert values(await take(earliest, 2)) == [b"old", b"new"]
    refusing = await consume(name, group_id=f"{name}-none", auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError):
        await refusing.getone()


async def test_big_messages(bootstrap: str, name: str, produce: Open, consume: Open) -> None:
    """Records just below max.message.bytes arrive; the broker refuses a larger record."""
    create_topic(bootstrap, name)
    producer = await produce(max_request_size=4_000_000)
    payloads = [bytes([number]) * 1_000_000 for number in range(3)]
    for payload in payloads:
        await producer.send_and_wait(name, payload)
    with pytest.raises(MessageSizeTooLargeError):
        await producer.send_and_wait(name, b"x" * 1_100_000)
    consumer = await consume(name, max_partition_fetch_bytes=1_000)
    assert values(await take(consumer, 3)) == payloads


async def test_many_tasks_send_in_order(name: str, produce: Open, consume: Open) -> None:
    """An idempotent producer shared by twenty tasks keeps the order of each task's records."""
    producer = await produce(enable_idempotence=True, max_batch_size=300)

    async def send(task: int) -> None:
        for number in range(25):
            await producer.send_and_wait(name, f"{task}:{number}".encode())

    await asyncio.gather(*(send(task) for task in range(20)))
    received = values(await take(await consume(name), 500))
    for task in range(20):
        mine = [value for value in received if value.startswith(f"{task}:".encode())]
        assert mine == [f"{task}:{number}".encode() for number in range(25)]


@pytest.mark.real_time
async def test_a_waiting_fetch_is_answered_when_records_come(
    bootstrap: str, name: str, produce: Open, consume: Open
) -> None:
    """A consumer whose fetch waits up to 20 seconds gets a new record at once."""
    create_topic(bootstrap, name)
    consumer = await consume(name, fetch_max_wait_ms=20_000)
    waiting = asyncio.create_task(consumer.getone())
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    started = time.monotonic()
    await (await produce()).send_and_wait(name, b"now")
    assert (await waiting).value == b"now"
    assert time.monotonic() - started < 5


@pytest.mark.real_time
async def test_two_members_share_a_topic(bootstrap: str, name: str, consume: Open) -> None:
    """Two members own half of the partitions each; when one stops, the other owns all of them."""
    create_topic(bootstrap, name, 4)
    one = await consume(name, group_id=name)
    two = await consume(name, group_id=name)
    await until(lambda: len(one.assignment()) == len(two.assignment()) == 2, "two each")
    assert one.assignment().isdisjoint(two.assignment())
    await two.stop()
    await until(lambda: len(one.assignment()) == 4, "all four")


async def test_the_admin_client(bootstrap: str, name: str, consume: Open) -> None:
    """The admin client manages topics and shows groups with their offsets."""
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        new = aiokafka.admin.NewTopic(name, 2, 1, topic_configs={"retention.ms": "1000000"})
        created = await admin.create_topics([new])
        assert [error[:2] for error in created.topic_errors] == [(name, 0)]
        again = await admin.create_topics([new])
        assert [error[:2] for error in again.topic_errors] == [(name, 36)]
        assert name in await admin.list_topics()
        await admin.create_partitions({name: aiokafka.admin.NewPartitions(3)})
        [described] = await admin.describe_topics([name])
        assert {p["partition"] for p in described["partitions"]} == {0, 1, 2}
        resource = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": ""})
        [configs] = await admin.describe_configs([resource])
        assert configs.resources[0][4][0][:2] == ("retention.ms", "1000000")
        assert len((await admin.describe_cluster())["brokers"]) == 1

        consumer = await consume(name, group_id=name)
        await until(lambda: len(consumer.assignment()) == 3, "an assignment")
        place = aiokafka.TopicPartition(name, 2)
        await consumer.commit({place: (0, "here")})
        assert (name, "consumer") in await admin.list_consumer_groups()
        [answer] = await admin.describe_consumer_groups([name])
        [(error, group, state, kind, protocol, members, *_)] = answer.groups
        assert (error, group, state, kind, protocol) == (
            0,
            name,
            "Stable",
            "consumer",
            "roundrobin",
        )
        assert len(members) == 1
        offsets = await admin.list_consumer_group_offsets(name)
        assert offsets == {place: aiokafka.structs.OffsetAndMetadata(0, "here")}

        await consumer.stop()  # the consumer's next metadata request would create the topic again
        deleted = await admin.delete_topics([name])
        assert list(deleted.topic_error_codes) == [(name, 0)]
        assert name not in await admin.list_topics()
    finally:
        await admin.close()
