"""The life of a group on our broker and on a real Kafka gives the tables of its script.

The broker is running and read through the Kafka connector. The ledger maps the broker's member ids
to the members of the script.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata
from pyspark.sql import SparkSession

from pipeline import schema
from pipeline.bronze import read_offsets_log, read_the_rest
from pipeline.inputs import EXACT, NO_TIMES, SAMPLED, Questions
from pipeline.progress import silent
from pipeline.run import make_tables, run_batch
from pipeline.sources.kafka import BrokerSource
from pipeline.store import Store
from tests.oracle.kafka_process import Kafka
from tests.pipeline.live import APP, RECORDS, SIMPLE, TOPIC, Ledger, Life
from tests.pipeline.ways import Row, plain_rows, read_table
from tests.support import Broker, wait_for

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
LOOKED_AT = (schema.CURRENT_OFFSETS, schema.LAG, schema.GROUP_MEMBERS, schema.REBALANCES)
FAR_AHEAD_MS = 4_102_444_800_000  # the year 2100 is later than all records


@pytest.fixture
def ours() -> Iterator[str]:
    """Start our broker."""
    with Broker(SETTINGS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[str]:
    """Start a real Kafka."""
    broker = Kafka(tmp_path, SETTINGS)
    try:
        broker.start()
        yield broker.bootstrap_servers
        broker.stop()
    finally:
        broker.end()


@pytest.mark.nightly
@pytest.mark.parametrize("broker", ["ours", pytest.param("theirs", marks=pytest.mark.nightly)])
@pytest.mark.real_time
def test_the_tables_tell_what_the_script_did(
    broker: str, connector: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Offsets, lag, members and rebalances are those of the script."""
    bootstrap = request.getfixturevalue(broker)
    ledger = Life(bootstrap).live()
    store = Store(connector, str(tmp_path / "out"))
    source = BrokerSource(connector, bootstrap)
    read_offsets_log(source, store, silent)
    read_the_rest(source, store, silent)
    make_tables(store, Questions(FAR_AHEAD_MS), "live-.*", silent)
    made = {table.name: plain_rows(read_table(store, table), table) for table in LOOKED_AT}
    offsets = {
        (row["group"], row["partition"]): row["committed_offset"] for row in made["current_offsets"]
    }
    assert offsets == ledger.committed
    lags = {(row["group"], row["topic"], row["partition"]): row["lag"] for row in made["lag"]}
    assert lags == {
        (group, TOPIC, number): RECORDS[number] - offset
        for (group, number), offset in ledger.committed.items()
    }
    assert {row["state"] for row in made["lag"]} == {"OK"}
    assert_members(made["group_members"], ledger)
    assert_rebalances(made["rebalances"], ledger, explained=broker == "ours")


def assert_members(rows: list[Row], ledger: Ledger) -> None:
    """Check assignments, client ids and leaders of each generation."""
    told = {(row["generation"], ledger.names[row["member_id"]]): row["assigned"] for row in rows}
    assert told == {
        (generation, member): [{"topic": TOPIC, "partitions": partitions}]
        for generation, members in ledger.generations
        for member, partitions in members.items()
    }
    assert {(row["group"], row["client_id"], row["is_leader"]) for row in rows} <= {
        (APP, "test", True),
        (APP, "test", False),
    }
    leaders = [row["generation"] for row in rows if row["is_leader"]]
    assert sorted(leaders) == [1, 2, 3]


def assert_rebalances(rows: list[Row], ledger: Ledger, *, explained: bool) -> None:
    """Check the rebalances; our broker also records a trigger (`explained`)."""
    rows = [row for row in rows if row["group"] != SIMPLE]
    told = [
        (
            row["generation"],
            row["members"],
            *([ledger.names[one] for one in row[name] or ()] for name in ("joined", "left")),
            row["moved"],
            row["partitions"],
        )
        for row in rows
    ]
    assert told == [
        (1, 1, ["A"], [], 0, 3),
        (2, 2, ["B"], [], 2, 3),
        (3, 1, [], ["A"], 1, 3),
        (4, 0, [], ["B"], 0, 3),
    ]
    assert {row["restarted"] is None or row["restarted"] == [] for row in rows} == {True}
    assert [row["trigger"] is not None for row in rows] == [explained] * 4


@pytest.mark.nightly
@pytest.mark.parametrize("broker", ["ours", pytest.param("theirs", marks=pytest.mark.nightly)])
@pytest.mark.real_time
def test_a_topic_that_is_created_again_shorter(
    broker: str, connector: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A second run with the same `--out` has the records and the lag of the new topic."""
    bootstrap = request.getfixturevalue(broker)
    store = Store(connector, str(tmp_path / "out"))
    place = kafka.TopicPartition("again", 0)
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    topic = {"again": {"num_partitions": 1, "replication_factor": 1}}

    def create() -> bool:
        try:
            admin.create_topics(topic, wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return False
        return True

    def lag_of(records: int, committed: int) -> tuple[int, int | None]:
        wait_for(create, "the topic is created", 60, 0.5)
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
        sent = [producer.send("again", b"v", partition=0) for _ in range(records)]
        producer.flush()
        times = [one.get(10).timestamp for one in sent]
        producer.close()
        wait_for(lambda: has_committed(committed), "the offset is committed", 60, 0.5)
        source = BrokerSource(connector, bootstrap)
        run_batch(source, store, lambda: Questions(FAR_AHEAD_MS), "again", silent)
        (row,) = plain_rows(read_table(store, schema.LAG), schema.LAG)
        assert row["oldest_unread_age_ms"] == FAR_AHEAD_MS - times[committed]
        return row["log_end"], row["lag"]

    def has_committed(offset: int) -> bool:
        try:
            admin.alter_group_offsets("again", {place: OffsetAndMetadata(offset, "", -1)})
        except KafkaError:
            return False
        return True

    assert lag_of(50, 40) == (50, 10)
    admin.delete_topics(["again"])
    assert lag_of(12, 5) == (12, 7)
    admin.close()


STEADY, TOLD = "steady", "told"
STEADY_RECORDS = 3000


def write_and_commit(bootstrap: str, now_ms: int) -> None:
    """Write `STEADY_RECORDS` records of the last half hour, and a transaction of five records.

    Group `behind` has read 400 records, `done` all of them, `marked` all up to the marker.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(STEADY, 1, 1), NewTopic(TOLD, 1, 1)]).values():
        future.result()
    settings = {"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 50}
    producer = confluent_kafka.Producer(settings)
    for number in range(STEADY_RECORDS):
        at_ms = now_ms - 1_800_000 + number * 1_800_000 // STEADY_RECORDS
        producer.produce(STEADY, b"v" * 500, partition=0, timestamp=at_ms)
        producer.poll(0)
    assert producer.flush(60) == 0
    teller = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    teller.init_transactions(30)
    teller.begin_transaction()
    for _ in range(5):
        teller.produce(TOLD, b"v", partition=0, timestamp=now_ms - 900_000)
    teller.commit_transaction(30)
    for group, topic, offset in (
        ("behind", STEADY, 400),
        ("done", STEADY, STEADY_RECORDS),
        ("marked", TOLD, 5),
    ):
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        place = confluent_kafka.TopicPartition(topic, 0, offset)
        wait_for(partial(_commits, consumer, place), "the commit", 60, 0.5)
        consumer.close()


def _commits(consumer: confluent_kafka.Consumer, place: confluent_kafka.TopicPartition) -> bool:
    try:
        consumer.commit(offsets=[place], asynchronous=False)
    except confluent_kafka.KafkaException:
        return False
    return True


@pytest.mark.nightly
@pytest.mark.parametrize("broker", ["ours", pytest.param("theirs", marks=pytest.mark.nightly)])
@pytest.mark.real_time
def test_sampled_times_tell_what_all_records_tell(
    broker: str, connector: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Lags and verdicts are equal, ages within their errors, for a hundredth of the bytes.

    A second run asks for less. Without times, lag is known and ages are not.
    """
    bootstrap = request.getfixturevalue(broker)
    now_ms = time.time_ns() // 1_000_000
    write_and_commit(bootstrap, now_ms)
    made, read = {}, {}
    for name in (EXACT, SAMPLED, "again", NO_TIMES):
        store = Store(connector, str(tmp_path / (SAMPLED if name == "again" else name)))
        mode = SAMPLED if name == "again" else name
        source = BrokerSource(connector, bootstrap)
        asked = Questions(now_ms + 1_000_000)
        run_batch(source, store, partial(replace, asked), None, silent, mode)
        assert source.notes() == []
        made[name] = {
            table.name: {
                row["group"]: row
                for row in plain_rows(read_table(store, table), table)
                if row["topic"] is not None
            }
            for table in (schema.LAG, schema.STATUS, schema.RATES)
        }
        read[name] = store.reads
    for name in (SAMPLED, "again", NO_TIMES):
        for group, wanted in made[EXACT]["lag"].items():
            row = made[name]["lag"][group]
            for column in ("lag", "state", "log_end", "committed_offset"):
                assert row[column] == wanted[column], (name, group, column)
    for name in (SAMPLED, "again"):
        for group, wanted in made[EXACT]["lag"].items():
            row = made[name]["lag"][group]
            error_ms = abs(row["oldest_unread_age_ms"] - wanted["oldest_unread_age_ms"])
            assert error_ms <= row["oldest_unread_age_error_ms"] == 0, (name, group)
            verdicts = (made[EXACT]["status"][group], made[name]["status"][group])
            assert len({(row["status"], row["rule"]) for row in verdicts}) == 1, verdicts
            paces = [made[one]["rates"][group]["produced_per_second"] for one in (EXACT, name)]
            assert paces[1] == pytest.approx(paces[0], rel=0.01)
    assert {group: row["status"] for group, row in made[SAMPLED]["status"].items()} == {
        "behind": "STOP", "done": "OK", "marked": "OK",
    }  # fmt: skip
    assert made[NO_TIMES]["lag"]["behind"]["oldest_unread_age_ms"] is None
    assert made[NO_TIMES]["status"]["behind"]["status"] == "STOP"
    of_topics = {name: reads.size_bytes - read[NO_TIMES].size_bytes for name, reads in read.items()}
    assert of_topics[EXACT] >= STEADY_RECORDS * 500
    assert of_topics[SAMPLED] * 20 < of_topics[EXACT]
    assert 0 < read["again"].requests < read[SAMPLED].requests < 60
    assert read[NO_TIMES].requests == read[EXACT].requests == 0
