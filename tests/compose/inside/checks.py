"""Checks of a client in a container beside the broker; pytest runs them in that container."""

from __future__ import annotations

import os
import uuid

import kafka

BOOTSTRAP = os.environ["BOOTSTRAP"]


def test_the_broker_says_where_this_container_reaches_it() -> None:
    """A client in the network gets an address that it can connect to, without any setting."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    (broker,) = admin.describe_cluster()["brokers"]
    admin.close()
    again = kafka.KafkaAdminClient(bootstrap_servers=f"{broker['host']}:{broker['port']}")
    assert again.describe_cluster()["brokers"] == [broker]
    again.close()


def test_a_group_inside_reads_what_was_written() -> None:
    """A client in the network can produce, consume in a group, and commit."""
    topic = f"inside-{uuid.uuid4()}"
    producer = kafka.KafkaProducer(bootstrap_servers=BOOTSTRAP)
    for number in range(10):
        producer.send(topic, str(number).encode())
    producer.flush()
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=BOOTSTRAP,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=20_000,
    )
    values = [record.value for _, record in zip(range(10), consumer, strict=False)]
    consumer.commit()
    assert values == [str(number).encode() for number in range(10)]
    assert consumer.committed(kafka.TopicPartition(topic, 0)) == 10
    consumer.close()
