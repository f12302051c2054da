"""One transactional pipeline, as a process of its own that may be killed at any moment.

    python -m tests.faults.pipeline_worker BOOTSTRAP TRANSACTIONAL_ID

It reads "input" in the group "pipelines", writes each value to "output" under its key, and commits
records and offsets in one transaction. It runs until it is killed; after an error that ends a
producer it ends with exit code 3, to be started again.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException

GROUP = "pipelines"
RECORDS_PER_TRANSACTION = 20
SECONDS = 20.0


def run(bootstrap: str, transactional_id: str) -> None:
    """Transform until killed."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "range",
        }
    )
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            # Else librdkafka forgets its coordinator when no broker can be reached, for good.
            "metadata.recovery.strategy": "none",
            "transaction.timeout.ms": 10_000,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(SECONDS)
    consumer.subscribe(["input"])
    while True:
        records = [
            record
            for record in consumer.consume(RECORDS_PER_TRANSACTION, 0.1)
            if record.error() is None
        ]
        if records:
            transform(consumer, producer, records)


def transform(consumer: Any, producer: Any, records: list[Any]) -> None:
    """One transaction; an error that allows it aborts, and the records are read again."""
    producer.begin_transaction()
    try:
        for record in records:
            producer.produce("output", key=record.key(), value=record.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), SECONDS)
        producer.commit_transaction(SECONDS)
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(SECONDS)
        rewind(consumer)


def rewind(consumer: Any) -> None:
    """Go on from the offsets that are committed."""
    for committed in consumer.committed(consumer.assignment(), SECONDS):
        if committed.offset < 0:
            committed.offset = 0
        consumer.seek(committed)


if __name__ == "__main__":
    try:
        run(*sys.argv[1:])
    except KafkaException as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(3)  # librdkafka may wait for ever for a broker when it ends in good order
