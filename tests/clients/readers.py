"""Consumers that read committed records, by client library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka

from tests.scripts.player import ours

Records = list[tuple[int, bytes | None, bytes | None]]


"""Offset, key and value."""


def read_with_confluent_kafka(
    bootstrap: str, topic: str, isolation_level: str = "read_committed", partition: int = 0
) -> Records:
    """Return all records up to the end for this isolation level."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 700,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    found: Records = []
    while (message := consumer.poll(20)) is not None:
        error = message.error()
        if error is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            break
        offset = message.offset()
        assert offset is not None
        found.append((offset, message.key(), message.value()))
    consumer.close()
    return found


def read_with_kafka_python(
    bootstrap: str, topic: str, isolation_level: str = "read_committed"
) -> Records:
    """Return all records up to the end that ListOffsets gives for this isolation level."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level=isolation_level,
        enable_auto_commit=False,
        max_partition_fetch_bytes=700,
    )
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    (end,) = consumer.end_offsets([partition]).values()
    found: Records = []
    while consumer.position(partition) < end:
        for records in consumer.poll(1000).values():
            found += [(one.offset, one.key, one.value) for one in records]
    consumer.close()
    return found


def read_with_aiokafka(
    bootstrap: str, topic: str, isolation_level: str = "read_committed"
) -> Records:
    """Return all records up to the end for this isolation level, read with aiokafka."""

    async def read() -> Records:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation_level,
            enable_auto_commit=False,
            max_partition_fetch_bytes=700,
        )
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            (end,) = (await consumer.end_offsets([partition])).values()
            found: Records = []
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    found += [(one.offset, one.key, one.value) for one in records]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


def read_with_our_console_consumer(
    bootstrap: str, topic: str, isolation_level: str = "read_committed"
) -> Records:
    """Return the output of our kafka-console-consumer until no more records come."""
    line = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0"]
    line += ["--from-beginning", "--timeout-ms", "500", "--isolation-level", isolation_level]
    line += ["--command-property", "max.partition.fetch.bytes=700"]
    for name in ("print.offset=true", "print.key=true", "null.literal=<null>"):
        line += ["--formatter-property", name]
    found: Records = []
    for printed in ours("kafka-console-consumer", line).out.splitlines():
        offset, key, value = (
            None if text == "<null>" else text.encode() for text in printed.split("\t")
        )
        assert offset is not None
        found.append((int(offset.removeprefix(b"Offset:")), key, value))
    return found


Reader = Callable[..., Records]


READERS: list[Reader] = [
    read_with_kafka_python,
    read_with_confluent_kafka,
    read_with_aiokafka,
    read_with_our_console_consumer,
]
