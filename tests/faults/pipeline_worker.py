"""One transactional pipeline, in a process that may be killed at any moment.

    python -m tests.faults.pipeline_worker BOOTSTRAP TRANSACTIONAL_ID

The pipeline reads "input" in the group "pipelines", writes each value to "output" under the same
key, and commits records and offsets in one transaction. It runs until it is killed. After a fatal
producer error it ends with exit code 3, so that it is started again.
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
    """Copy records in transactions until the process is killed."""
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
            # With another strategy, librdkafka never finds its coordinator again after all brokers
            # were unreachable.
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
    """Process one batch in a transaction; an abortable error leads to another attempt."""
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
    """Seek to the committed offsets."""
    for committed in consumer.committed(consumer.assignment(), SECONDS):
        if committed.offset < 0:
            committed.offset = 0
        consumer.seek(committed)


if __name__ == "__main__":
    try:
        run(*sys.argv[1:])
    except KafkaException as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(3)  # a clean exit may wait for a broker forever
