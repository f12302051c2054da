"""Compressed batches written by one client library and read by another."""

import aiokafka
import confluent_kafka
import kafka
import pytest

from tests.clients.support import create_topic
from tests.support import wait_for

CODECS = pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
PAYLOADS = [f"payload {number} ".encode() * 50 for number in range(300)]


async def read_with_aiokafka(bootstrap: str, topic: str) -> list[bytes]:
    """Return the values of the topic's only partition."""
    async with aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        return [(await consumer.getone()).value for _ in PAYLOADS]


def read_with_confluent_kafka(bootstrap: str, topic: str) -> list[bytes]:
    """Return the values of the topic's only partition."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    values: list[bytes] = []

    def all_read() -> bool:
        values.extend(message.value() for message in consumer.consume(len(PAYLOADS), 0.2))
        return len(values) >= len(PAYLOADS)

    try:
        wait_for(all_read, "all messages")
    finally:
        consumer.close()
    return values


@CODECS
async def test_what_librdkafka_compresses_others_read(
    bootstrap: str, name: str, codec: str
) -> None:
    """Each codec of confluent-kafka is stored as sent and read by aiokafka."""
    create_topic(bootstrap, name)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50}
    )
    for payload in PAYLOADS:
        producer.produce(name, payload)
    assert producer.flush(20) == 0
    assert await read_with_aiokafka(bootstrap, name) == PAYLOADS
    assert read_with_confluent_kafka(bootstrap, name) == PAYLOADS


@CODECS
async def test_what_aiokafka_compresses_others_read(bootstrap: str, name: str, codec: str) -> None:
    """Each codec of aiokafka is stored as sent and read by confluent-kafka."""
    create_topic(bootstrap, name)
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, linger_ms=50
    ) as producer:
        for payload in PAYLOADS:
            await producer.send(name, payload)
    assert read_with_confluent_kafka(bootstrap, name) == PAYLOADS
    assert await read_with_aiokafka(bootstrap, name) == PAYLOADS


async def test_what_kafka_python_compresses_others_read(bootstrap: str, name: str) -> None:
    """gzip, the only codec of kafka-python without extras, is read by every library."""
    create_topic(bootstrap, name)
    with kafka.KafkaProducer(
        bootstrap_servers=bootstrap, compression_type="gzip", linger_ms=50
    ) as producer:
        for payload in PAYLOADS:
            producer.send(name, payload)
    assert read_with_confluent_kafka(bootstrap, name) == PAYLOADS
    assert await read_with_aiokafka(bootstrap, name) == PAYLOADS
