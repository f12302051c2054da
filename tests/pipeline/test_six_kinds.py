"""Six kinds of groups on a running Apache Kafka: each gets the verdict that it deserves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from pipeline import schema
from pipeline.bronze import read_offsets_log, read_the_rest
from pipeline.command import main
from pipeline.inputs import Questions
from pipeline.progress import silent
from pipeline.report.command import ALERT
from pipeline.run import make_tables
from pipeline.sources.kafka import BrokerSource
from pipeline.store import Store
from tests.oracle.kafka_process import Kafka
from tests.pipeline.ways import plain_rows, read_table
from tests.support import wait_for

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
TOPIC, HELD = "orders", "payments"
PARTITIONS, RECORDS = 2, 20


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[str]:
    """A running Apache Kafka."""
    broker = Kafka(tmp_path, SETTINGS)
    try:
        broker.start()
        yield broker.bootstrap_servers
        broker.stop()
    finally:
        broker.end()


def write_records(bootstrap: str) -> None:
    """`RECORDS` in each partition of `orders`; three, committed, in `payments`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(TOPIC, PARTITIONS, 1), NewTopic(HELD, 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(PARTITIONS * RECORDS):
        producer.produce(TOPIC, b"v", partition=number % PARTITIONS)
    for _ in range(3):
        producer.produce(HELD, b"v", partition=0)
    assert producer.flush(30) == 0


def open_transaction(bootstrap: str) -> Producer:
    """A transaction of `teller` with seven records that nothing ends."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "teller",
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(7):
        producer.produce(HELD, b"v", partition=0)
    assert producer.flush(30) == 0
    return producer


def join(bootstrap: str, group: str, topic: str, read: int, **more: str) -> Consumer:
    """A consumer that has all partitions and committed `read` records of each."""
    settings = {name.replace("_", "."): value for name, value in more.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe([topic])

    def is_assigned() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    wait_for(is_assigned, f"{group} has an assignment", 60, 0.1)
    places = [TopicPartition(topic, one.partition, read) for one in consumer.assignment()]
    consumer.commit(offsets=places, asynchronous=False)
    return consumer


@pytest.mark.slow
@pytest.mark.real_time
@pytest.mark.parametrize("broker", ["theirs"])
def test_each_kind_of_group_gets_its_verdict(
    broker: str, connector: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Only the group that stopped is in error; the open transaction has its name."""
    bootstrap = request.getfixturevalue(broker)
    write_records(bootstrap)
    with ExitStack() as stack:
        teller = open_transaction(bootstrap)
        stack.callback(teller.abort_transaction, 30)
        for group, topic, read, more in (
            ("classic", TOPIC, RECORDS, {}),
            ("static", TOPIC, RECORDS, {"group_instance_id": "one"}),
            ("modern", TOPIC, 15, {"group_protocol": "consumer"}),
            ("committed", HELD, 3, {"isolation_level": "read_committed"}),
            ("lagging", TOPIC, 1, {}),
        ):
            stack.callback(join(bootstrap, group, topic, read, **more).close)
        join(bootstrap, "stopped", TOPIC, 5).close()
        out = tmp_path / "out"
        store = Store(connector, str(out))
        source = BrokerSource(connector, bootstrap)
        read_offsets_log(source, store, silent)
        read_the_rest(source, store, silent)
        rows = plain_rows(store.read_bronze(schema.OFFSETS_LOG), schema.OFFSETS_LOG)
        # Two minutes on: a tenth of the window is over for the group that stopped.
        at_ms = max(row["log_timestamp_ms"] for row in rows) + 120_000
        make_tables(store, Questions(at_ms, window_ms=1_000_000), None, silent)
    made = plain_rows(read_table(store, schema.STATUS), schema.STATUS)
    verdicts = {row["group"]: (row["status"], row["rule"]) for row in made if row["topic"] is None}
    assert {group: status for group, (status, _) in verdicts.items()} == {
        "classic": "OK",
        "static": "OK",
        "modern": "OK",
        "committed": "WARN",
        "lagging": "OK",
        "stopped": "ERR",
    }
    assert "an open transaction of teller holds back 7 records for 1" in verdicts["committed"][1]
    assert verdicts["modern"][1] == "orders-0: on its way: 5 records to read"
    members = plain_rows(read_table(store, schema.GROUP_MEMBERS), schema.GROUP_MEMBERS)
    owned = [row["assigned"] for row in members if row["group"] == "modern"][-1]
    assert [(one["topic"], sorted(one["partitions"])) for one in owned] == [(TOPIC, [0, 1])]
    assert main(["report", "--out", str(out), "--alert"]) == ALERT
