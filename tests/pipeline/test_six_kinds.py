"""Six kinds of groups on a running Apache Kafka get the verdicts that they deserve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from pipeline import schema
from pipeline.bronze import read_offsets_log, read_the_rest
from pipeline.command import main
from pipeline.inputs import Questions
from pipeline.progress import silent
from pipeline.report.command import ALERT
from pipeline.run import make_tables
from pipeline.sources.kafka import BrokerSource
from pipeline.sources.segments import LogDirSource
from pipeline.store import Store
from tests.oracle.kafka_process import Kafka
from tests.pipeline.ways import plain_rows, read_table
from tests.support import wait_for

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
TOPIC, HELD = "orders", "payments"
PARTITIONS, RECORDS = 6, 20


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Kafka]:
    """Start Apache Kafka."""
    broker = Kafka(tmp_path, SETTINGS)
    try:
        broker.start()
        yield broker
        broker.stop()
    finally:
        broker.end()


def write_records(bootstrap: str) -> None:
    """Write `RECORDS` records to each partition of `orders`, and three to `payments`."""
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
    """Open a transaction of `teller` with seven records."""
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


def consumer_of(bootstrap: str, group: str, topic: str, **more: str) -> Consumer:
    """Return a consumer that has subscribed but not polled."""
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
    return consumer


def join(bootstrap: str, group: str, topic: str, read: int, *members: dict[str, str]) -> ExitStack:
    """Join consumers that together own all partitions, and commit `read` on each partition.

    The returned stack closes the consumers.
    """
    consumers = [consumer_of(bootstrap, group, topic, **settings) for settings in members]
    owners = ExitStack()
    for consumer in consumers:
        owners.callback(consumer.close)
    partitions = 1 if topic == HELD else PARTITIONS

    def is_shared_out() -> bool:
        for consumer in consumers:
            consumer.poll(0.1)
        counts = [len(consumer.assignment()) for consumer in consumers]
        return all(counts) and sum(counts) == partitions

    wait_for(is_shared_out, f"the members of {group} own all partitions", 60, 0.1)
    for consumer in consumers:
        places = [TopicPartition(topic, one.partition, read) for one in consumer.assignment()]
        consumer.commit(offsets=places, asynchronous=False)
    return owners


@pytest.mark.nightly
@pytest.mark.real_time
@pytest.mark.parametrize("broker", ["theirs"])
def test_each_kind_of_group_gets_its_verdict(
    broker: str,
    connector: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only the stopped group is in error, and a group behind an open transaction has a warning.

    Broker and files name the same transaction. In the classic, the static and the KIP-848 group,
    two members own six partitions.
    """
    kafka: Kafka = request.getfixturevalue(broker)
    bootstrap = kafka.bootstrap_servers
    write_records(bootstrap)
    with ExitStack() as stack:
        teller = open_transaction(bootstrap)
        stack.callback(teller.abort_transaction, 30)
        modern = {"group_protocol": "consumer"}
        kinds: tuple[tuple[str, str, int, list[dict[str, str]]], ...] = (
            ("classic", TOPIC, RECORDS, [{}, {}]),
            ("static", TOPIC, RECORDS, [{"group_instance_id": one} for one in ("a", "b")]),
            ("modern", TOPIC, 15, [modern, modern]),
            ("committed", HELD, 3, [{"isolation_level": "read_committed"}]),
            ("lagging", TOPIC, 1, [{}]),
        )
        for group, topic, read, members in kinds:
            stack.enter_context(join(bootstrap, group, topic, read, *members))
        join(bootstrap, "stopped", TOPIC, 5, {}).close()
        out = tmp_path / "out"
        store = Store(connector, str(out))
        source = BrokerSource(connector, bootstrap)
        read_offsets_log(source, store, silent)
        read_the_rest(source, store, silent)
        asked = held(store.read_bronze(schema.PARTITION_ENDS))
        files = LogDirSource(connector, str(kafka.data))
        assert held(files.partition_ends([HELD])) == asked
        rows = plain_rows(store.read_bronze(schema.OFFSETS_LOG), schema.OFFSETS_LOG)
        # Two minutes after the last record, the stopped group has been silent for more than a
        # tenth of the window.
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
    of_partitions = [row for row in made if row["topic"] is not None]
    wrong = [row for row in of_partitions if row["status"] != "OK"]
    assert {row["group"] for row in wrong} == {"committed", "stopped"}
    for group in ("classic", "static", "modern"):
        assert owned(store, group) == [(TOPIC, number) for number in range(PARTITIONS)]
    assert main(["report", "--out", str(out), "--alert"]) == ALERT
    error = capsys.readouterr().err
    assert {line.split()[2] for line in error.splitlines()} == {"stopped"}, error


def held(ends: DataFrame) -> tuple[object, ...]:
    """Return the open transaction of `payments`: offsets, name and start."""
    (end,) = (row for row in plain_rows(ends, schema.PARTITION_ENDS) if row["topic"] == HELD)
    names = ("last_stable_offset", "log_end", "held_by", "held_since_ms")
    return tuple(end[name] for name in names)


def owned(store: Store, group: str) -> list[tuple[str, int]]:
    """Return the partitions of the group's last generation, owned by two members."""
    rows = plain_rows(read_table(store, schema.GROUP_MEMBERS), schema.GROUP_MEMBERS)
    last = max(row["generation"] for row in rows if row["group"] == group)
    members = [row for row in rows if (row["group"], row["generation"]) == (group, last)]
    of_members = {
        row["member_id"]: [
            (one["topic"], number) for one in row["assigned"] for number in one["partitions"]
        ]
        for row in members
    }
    assert len(of_members) == 2
    assert all(of_members.values()), of_members
    return sorted(place for places in of_members.values() for place in places)
