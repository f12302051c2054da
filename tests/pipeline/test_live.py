"""The life of a group on our broker and on a real Kafka gives the tables of its script.

The broker is running and read through the Kafka connector. The ledger maps the broker's member ids
to the members of the script.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest
from kafka.errors import KafkaError, TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata
from pyspark.sql import SparkSession

from pipeline import schema
from pipeline.bronze import read_offsets_log, read_the_rest
from pipeline.inputs import Questions
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
