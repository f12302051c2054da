"""The demo of docker-compose.yml: `produce` writes a record a second, `consume` reads in a group.

docker compose --profile demo up --build
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
import time

import kafka

BOOTSTRAP = os.environ.get("BOOTSTRAP", "broker:9092")
TOPIC = "demo"
PARTITIONS = 3


def ensure_topic() -> None:
    """Create the topic, unless another container already has."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    try:
        admin.create_topics({TOPIC: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    except kafka.errors.TopicAlreadyExistsError:
        pass
    finally:
        admin.close()


def produce() -> None:
    """Produce a record to each partition, every second."""
    ensure_topic()
    producer = kafka.KafkaProducer(bootstrap_servers=BOOTSTRAP)
    for number in itertools.count():
        for partition in range(PARTITIONS):
            producer.send(TOPIC, f"record {number}".encode(), partition=partition)
        producer.flush()
        time.sleep(1)


def consume() -> None:
    """Print the consumed records; the consumers share the partitions."""
    ensure_topic()
    consumer = kafka.KafkaConsumer(
        TOPIC,
        bootstrap_servers=BOOTSTRAP,
        group_id="demo",
        auto_offset_reset="earliest",
    )
    try:
        for record in consumer:
            text = record.value.decode()
            print(f"{socket.gethostname()} partition {record.partition}: {text}", flush=True)
    finally:
        consumer.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    {"produce": produce, "consume": consume}[sys.argv[1]]()
