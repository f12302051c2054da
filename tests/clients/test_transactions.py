"""Transactional producers of each library process records exactly once across a kill -9."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest
from kafka.structs import OffsetAndMetadata

from tests.clients.readers import read_with_confluent_kafka
from tests.clients.support import create_topic
from tests.support import Broker, wait_for

StartBroker = Callable[..., Broker]
Restart = Callable[[], None]
COUNT = 6
KEEPS_BROKERS = {"metadata.recovery.strategy": "none"}
"""Keeps librdkafka's broker list when no broker can be reached.

Otherwise librdkafka also forgets the coordinator of its transaction and never looks it up again.
"""
SECONDS = 30


def with_confluent_kafka(bootstrap: str, source: str, target: str, restart: Restart) -> None:
    """Process each record in a separate transaction; abort and repeat every other transaction."""
    common = {"bootstrap.servers": bootstrap, "log_level": 0, **KEEPS_BROKERS}
    consumer = confluent_kafka.Consumer(
        {**common, "group.id": "app", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([source])
    producer = confluent_kafka.Producer({**common, "transactional.id": "confluent"})
    producer.init_transactions(SECONDS)
    done = 0
    while done < COUNT:
        record = consumer.poll(0.2)
        if record is None or record.error() is not None:
            continue
        for commits in (False, True) if done % 2 else (True,):
            producer.begin_transaction()
            producer.produce(target, record.value())
            if done == COUNT // 2:
                producer.flush(SECONDS)
                restart()
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()),
                consumer.consumer_group_metadata(),
                SECONDS,
            )
            (producer.commit_transaction if commits else producer.abort_transaction)(SECONDS)
        done += 1
    consumer.close()


def with_kafka_python(bootstrap: str, source: str, target: str, restart: Restart) -> None:
    """Do the same as `with_confluent_kafka` with kafka-python."""
    consumer = kafka.KafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id="app",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id="kafka-python")
    producer.init_transactions()
    for done in range(COUNT):
        record = next(consumer)
        place = kafka.TopicPartition(record.topic, record.partition)
        for commits in (False, True) if done % 2 else (True,):
            producer.begin_transaction()
            sent = producer.send(target, record.value)
            if done == COUNT // 2:
                sent.get(SECONDS)
                restart()
            producer.send_offsets_to_transaction(
                {place: OffsetAndMetadata(record.offset + 1, "", -1)}, "app"
            )
            (producer.commit_transaction if commits else producer.abort_transaction)()
    consumer.close()
    producer.close()


def with_aiokafka(bootstrap: str, source: str, target: str, restart: Restart) -> None:
    """Do the same as `with_confluent_kafka` with aiokafka."""

    async def run() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            source,
            bootstrap_servers=bootstrap,
            group_id="app",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id="aiokafka"
        )
        async with consumer, producer:
            for done in range(COUNT):
                record = await consumer.getone()
                place = aiokafka.TopicPartition(record.topic, record.partition)
                for commits in (False, True) if done % 2 else (True,):
                    await producer.begin_transaction()
                    await producer.send_and_wait(target, record.value)
                    if done == COUNT // 2:
                        await asyncio.to_thread(restart)
                    await producer.send_offsets_to_transaction({place: record.offset + 1}, "app")
                    end = producer.commit_transaction if commits else producer.abort_transaction
                    await end()

    asyncio.run(asyncio.wait_for(run(), 4 * SECONDS))


@pytest.mark.real_time
@pytest.mark.parametrize(
    "pipeline",
    [with_confluent_kafka, with_kafka_python, with_aiokafka],
    ids=lambda pipeline: pipeline.__name__,
)
def test_records_and_offsets_go_together(
    start_broker: StartBroker, name: str, pipeline: Callable[..., None]
) -> None:
    """Every record is copied once and in order although the broker is killed during a transaction.

    The group has committed the same number of records.
    """
    broker = start_broker()
    bootstrap = broker.bootstrap_servers
    source, target = f"{name}-in", f"{name}-out"
    create_topic(bootstrap, source, 1)
    create_topic(bootstrap, target, 1)
    values = [b"%d" % number for number in range(COUNT)]
    broker.produce(source, *values)

    def restart() -> None:
        broker.kill()
        broker.start()

    pipeline(bootstrap, source, target, restart)
    assert [value for _, _, value in read_with_confluent_kafka(bootstrap, target)] == values
    assert broker.committed("app") == {(source, 0): COUNT}


def test_a_timeout_in_one_call(start_broker: StartBroker, name: str) -> None:
    """At its timeout the transaction is aborted and its producer fenced.

    The clock is advanced past the timeout. Records after the transaction can then be read.
    """
    broker = start_broker()
    bootstrap = broker.bootstrap_servers
    create_topic(bootstrap, name, 1)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "slow",
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(name, b"too late")
    assert producer.flush(SECONDS) == 0
    broker.produce(name, b"behind it")
    assert read_with_confluent_kafka(bootstrap, name) == []
    shown = broker.control.call("GET", "/transactions")
    (slow,) = shown["transactions"]
    assert (slow["transactional_id"], slow["state"]) == ("slow", "Ongoing")
    assert slow["partitions"] == [f"{name}-0"]
    (held,) = shown["held_back"]
    assert (held["last_stable_offset"], held["log_end_offset"]) == (0, 2)
    assert held["reason"].startswith("transaction slow of producer ")
    assert held["reason"].endswith(f", holds back {name}-0 at offset 0")
    broker.clock.advance(75)
    values = wait_for(lambda: read_with_confluent_kafka(bootstrap, name), "it is aborted")
    assert [value for _, _, value in values] == [b"behind it"]
    assert broker.control.call("GET", "/transactions")["held_back"] == []
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(SECONDS)
