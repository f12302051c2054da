"""With auto.create.topics.enable=false clients do not create topics by using them."""

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest

from tests.clients.support import create_topic
from tests.support import Broker, wait_for

StartBroker = Callable[..., Broker]


@pytest.fixture
def strict(start_broker: StartBroker) -> str:
    """The address of a broker that does not create topics automatically."""
    return start_broker(auto_create_topics_enable="false").bootstrap_servers


@pytest.mark.real_time
def test_kafka_python_subscribes_before_the_topic_exists(strict: str, name: str) -> None:
    """A producer fails for a missing topic; a waiting member reads the topic once it exists."""
    with (
        kafka.KafkaProducer(bootstrap_servers=strict, max_block_ms=500) as producer,
        kafka.KafkaConsumer(
            name,
            bootstrap_servers=strict,
            group_id=name,
            auto_offset_reset="earliest",
            metadata_max_age_ms=300,
        ) as consumer,
    ):
        with pytest.raises(kafka.errors.KafkaError):
            producer.send(name, b"lost").get(timeout=30)
        wait_for(
            lambda: consumer.poll(500) or consumer.group_metadata().generation_id > 0, "joined"
        )
        assert consumer.assignment() == set()
        create_topic(strict, name)
        producer.send(name, b"first").get(timeout=30)
        # Poll for longer than a join takes: kafka-python may get stuck if a poll ends during the
        # join (see know_topics).
        [[record]] = consumer.poll(timeout_ms=30_000).values()
        assert record.value == b"first"


@pytest.mark.real_time
def test_confluent_kafka_subscribes_before_the_topic_exists(strict: str, name: str) -> None:
    """The consumer reports an unknown topic, and reads the topic once it is created."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": strict,
            "group.id": name,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 300,
        }
    )
    producer = confluent_kafka.Producer({"bootstrap.servers": strict})
    try:
        consumer.subscribe([name])
        unknown = wait_for(lambda: consumer.poll(0.5), "an error")
        assert unknown.error().code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
        create_topic(strict, name)
        producer.produce(name, b"first")
        producer.flush(10)
        message = wait_for(lambda: consumer.poll(0.5), "the record")
        assert message.value() == b"first"
    finally:
        consumer.close()


@pytest.mark.real_time
async def test_aiokafka_subscribes_before_the_topic_exists(strict: str, name: str) -> None:
    """start() waits for the topic; once the topic is created, the first message arrives."""
    consumer = aiokafka.AIOKafkaConsumer(
        name,
        bootstrap_servers=strict,
        group_id=name,
        auto_offset_reset="earliest",
        metadata_max_age_ms=300,
    )
    starting = asyncio.create_task(consumer.start())
    try:
        done, _ = await asyncio.wait([starting], timeout=0.5)
        assert not done
        await asyncio.to_thread(create_topic, strict, name)
        await starting
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=strict) as producer:
            await producer.send_and_wait(name, b"first")
        assert (await asyncio.wait_for(consumer.getone(), 20)).value == b"first"
    finally:
        await consumer.stop()
