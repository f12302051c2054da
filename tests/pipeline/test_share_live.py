"""The lag of a share group is the one that the cluster shows, on our broker and Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest
from kafka.structs import OffsetAndMetadata
from pyspark.sql import SparkSession

from pipeline import schema
from pipeline.inputs import SAMPLED, Questions
from pipeline.progress import silent
from pipeline.run import run_batch
from pipeline.sources.kafka import BrokerSource
from pipeline.sources.sampling import TOLERANCE_MS
from pipeline.sources.segments import LogDirSource
from pipeline.sources.source import Source
from pipeline.store import Store
from protocol.apis.share_fetch import ACCEPT
from tests.oracle.kafka_process import Kafka
from tests.oracle.share_reader import Reader
from tests.oracle.share_script import Cluster, ScriptedMember
from tests.pipeline.ways import Row, plain_rows, read_table
from tests.support import Broker, wait_for

SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
GROUP, TOPIC, RECORDS = "workers", "jobs", 20


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Start our broker."""
    with Broker(SETTINGS, data_dir=tmp_path / "data") as broker:
        yield broker.bootstrap_servers, tmp_path / "data"


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Start Apache Kafka."""
    broker = Kafka(tmp_path, SETTINGS)
    try:
        broker.start()
        yield broker.bootstrap_servers, broker.data
        broker.stop()
    finally:
        broker.end()


def accept_some(bootstrap: str) -> Cluster:
    """Write `RECORDS` records, and accept the records 0 to 4 and 10 to 15 in a share group."""
    cluster = Cluster(bootstrap)
    cluster.make_topics({TOPIC: 1})
    cluster.wait_until_shared(TOPIC, 1)
    cluster.configure(GROUP, share_auto_offset_reset="earliest")
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(RECORDS):
        producer.send(TOPIC, b"%d" % number, partition=0)
    producer.close()
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    place = kafka.TopicPartition(TOPIC, 0)
    admin.alter_group_offsets("other", {place: OffsetAndMetadata(3, "", -1)})
    admin.close()
    ScriptedMember(cluster, GROUP, "a").join(TOPIC)
    reader = Reader(cluster, GROUP, "a", TOPIC)
    wait_for(lambda: reader.fetch(max_wait_ms=1000), "records are acquired", 60, 0.5)
    reader.acknowledge((0, 4, ACCEPT), (10, 15, ACCEPT))
    return cluster


@pytest.mark.nightly
@pytest.mark.parametrize("broker", ["ours", pytest.param("theirs", marks=pytest.mark.nightly)])
@pytest.mark.real_time
def test_the_lag_is_that_of_the_cluster(
    broker: str, connector: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Broker and files give the lag that the cluster reports."""
    bootstrap, data = request.getfixturevalue(broker)
    cluster = accept_some(bootstrap)
    ((start, _, behind, _),) = cluster.offsets(GROUP).values()
    # Kafka moves the start offset over the first accepted records some time later.
    starts = (0, 5)
    assert start in starts
    assert behind == RECORDS - 5 - 6
    sources: dict[str, tuple[Source, str]] = {
        "broker": (BrokerSource(connector, bootstrap), SAMPLED),
        "files": (LogDirSource(connector, str(data)), "exact"),
    }
    for name, (source, mode) in sources.items():
        store = Store(connector, str(tmp_path / name))
        run_batch(source, store, lambda: Questions(4_102_444_800_000), None, silent, mode)
        rows: dict[str, Row] = {
            row["group"]: row for row in plain_rows(read_table(store, schema.LAG), schema.LAG)
        }
        row = rows[GROUP]
        assert (row["kind"], row["lag"]) == ("share", behind), name
        assert row["committed_offset"] in starts
        assert row["oldest_unread_age_error_ms"] <= TOLERANCE_MS
        assert rows["other"]["kind"] == "simple"
