"""Every way to read the story gives the same bronze, and therefore the same tables.

The ways are: segment files that grow under a stream that is stopped and restarted; our broker and a
real Kafka, started on the story's files and read through the Kafka connector in batches and as a
stream that is stopped and restarted. All are compared with a batch run on the files, whose tables
`test_golden.py` compares with the golden tables.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import kafka
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline import schema
from pipeline.bronze import next_offsets, read_offsets_log, read_the_rest
from pipeline.progress import silent
from pipeline.run import start_stream
from pipeline.sources.kafka import BrokerSource
from pipeline.sources.segments import LogDirSource
from pipeline.sources.source import Source
from pipeline.store import Store
from tests.oracle.kafka_process import Kafka
from tests.pipeline.scenes import tell
from tests.pipeline.story import AT_MS, METADATA_FILE, OFFSETS_PARTITIONS, OFFSETS_TOPIC, Story
from tests.pipeline.ways import (
    Row,
    bronze_rows,
    clock_at,
    differences,
    keep_progress,
)
from tests.support import Broker, wait_for

FOR_EVER = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.retention.minutes": "100000000",
    "log.retention.ms": "-1",
    "log.cleaner.enable": "false",
    **{
        f"group.{kind}.{setting}.timeout.ms": "1800000"
        for kind in ("consumer", "share", "streams")
        for setting in ("session", "max.session")
    },
}
"""Settings with which a broker leaves the records of the story unchanged for the time of a test."""

PER_TRIGGER = 100
TRIES = 3
TOO_BUSY = "Python worker failed to connect back"
"""The error of a stream whose Python did not start within Spark's limit of ten seconds. The test
restarts such a stream."""
UNLOADABLE_VALUE = b"\x00\x09new"
Bronze = dict[str, list[Row]]


@pytest.fixture(scope="module")
def story() -> Story:
    """Return the story."""
    return tell()


@pytest.fixture(scope="module")
def log_dir(story: Story, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the story's log directory."""
    room = tmp_path_factory.mktemp("story") / "log"
    story.write(room)
    return room


@pytest.fixture(scope="module")
def wanted(
    spark: SparkSession, story: Story, log_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Bronze:
    """Return the bronze of a batch run on the files."""
    store = Store(spark, str(tmp_path_factory.mktemp("wanted")))
    return in_batches(LogDirSource(spark, str(log_dir)), store, story)


def in_batches(source: Source, store: Store, story: Story) -> Bronze:
    """Return the bronze of two batch runs, the second of which finds nothing new."""
    for _ in range(2):
        read_offsets_log(source, store, silent)
    return the_rest(source, store, story)


def the_rest(source: Source, store: Store, story: Story) -> Bronze:
    """Read everything except the offsets log, and return all bronze."""
    keep_progress(store, story)
    with clock_at(AT_MS):
        read_the_rest(source, store, silent)
    return bronze_rows(store)


def assert_same(made: Bronze, wanted: Bronze) -> None:
    """Compare all rows of all bronze tables."""
    for name, rows in wanted.items():
        assert rows, f"{name} shows nothing"
        assert differences(made[name], rows) == [], name


def has_begun(store: Store) -> bool:
    """Return whether a micro-batch has been stored."""
    return store.has(store.path("bronze", schema.OFFSETS_LOG.name))


def stream_until(source: Source, store: Store, done: Callable[[], bool]) -> None:
    """Run a continuous stream until `done` holds."""
    for _ in range(TRIES):
        error = error_until(start_stream(source, store, 0.1, silent), done)
        if error is None:
            return
        assert TOO_BUSY in error
    raise AssertionError(TOO_BUSY)


def error_until(query: StreamingQuery, done: Callable[[], bool]) -> str | None:
    """Stop a stream when `done` holds; return the error if it failed before."""
    try:
        wait_for(lambda: query.exception() is not None or done(), "the stream has read", 120, 0.2)
        error = query.exception()
    finally:
        query.stop()
    return None if error is None else str(error)


def stream_what_is_there(source: Source, store: Store) -> None:
    """Run an AvailableNow stream."""
    for _ in range(TRIES):
        try:
            start_stream(source, store, None, silent).awaitTermination()
            return
        except StreamingQueryException as error:
            if TOO_BUSY not in str(error):
                raise
    raise AssertionError(TOO_BUSY)


@pytest.mark.nightly
@pytest.mark.real_time
def test_files_that_grow_while_a_stream_stops_and_starts(
    spark: SparkSession, story: Story, wanted: Bronze, tmp_path: Path
) -> None:
    """Streams on growing files give the same bronze as a batch run.

    A continuous stream over the first half is stopped early, an AvailableNow stream reads more of
    the log, and a second continuous stream reads to the end.
    """
    log = tmp_path / "log"

    def source_of() -> LogDirSource:
        return LogDirSource(spark, str(log), PER_TRIGGER)

    store = Store(spark, str(tmp_path / "out"))
    story.write_part(log, 0.0, 0.5)
    stream_until(source_of(), store, lambda: has_begun(store))
    first = next_offsets(store)
    story.write_part(log, 0.5, 0.8)
    stream_what_is_there(source_of(), store)
    second = next_offsets(store)
    assert sum(first.values()) < sum(second.values())
    story.write_part(log, 0.8, 1.0)
    ends = {row["log_partition"]: row["log_offset"] + 1 for row in wanted["offsets_log"]}
    assert sum(second.values()) < sum(ends.values())
    stream_until(source_of(), store, lambda: next_offsets(store) == ends)
    assert_same(the_rest(source_of(), store, story), wanted)


@pytest.fixture
def ours(log_dir: Path, tmp_path: Path) -> Iterator[str]:
    """Start our broker on the story's files."""
    shutil.copytree(log_dir, tmp_path / "ours")
    with Broker(FOR_EVER, data_dir=tmp_path / "ours") as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def theirs(story: Story, tmp_path: Path) -> Iterator[str]:
    """Start a real Kafka on the story's segment files, without indexes or checkpoints.

    It gets the loadable story: Kafka must load all partitions, since the connector would wait
    forever for a coordinator.
    """
    log_dir = tmp_path / "log"
    tell(loadable=True).write(log_dir)
    broker = Kafka(tmp_path, FOR_EVER)
    try:
        broker.start()
        create_topics(broker, story)
        broker.stop()
        for topic, number in story.partitions:
            directory = broker.data / f"{topic}-{number}"
            for path in directory.iterdir():
                if path.name != METADATA_FILE:
                    path.unlink()
            for path in (log_dir / directory.name).glob("*.log"):
                shutil.copy(path, directory)
        for path in (*broker.data.glob("*checkpoint"), broker.data / ".kafka_cleanshutdown"):
            path.unlink()
        broker.start()
        yield broker.bootstrap_servers
        broker.stop()
    finally:
        broker.end()


def create_topics(broker: Kafka, story: Story) -> None:
    """Create the story's topics, empty, and wait for their directories."""
    counts: dict[str, int] = {}
    for topic, number in story.partitions:
        counts[topic] = max(counts.get(topic, 0), number + 1)
    topics = {
        name: {
            "num_partitions": count,
            "replication_factor": 1,
            "configs": {"cleanup.policy": "compact"} if name == OFFSETS_TOPIC else {},
        }
        for name, count in counts.items()
    }
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics(topics, wait_for_metadata=True)
    admin.close()
    wait_for(
        lambda: all(
            (broker.data / f"{topic}-{number}" / METADATA_FILE).exists()
            for topic, number in story.partitions
        ),
        "the directories are there",
    )


@pytest.mark.nightly
@pytest.mark.parametrize("broker", ["ours", "theirs"])
@pytest.mark.real_time
def test_a_broker_on_the_files_gives_what_the_files_give(
    broker: str,
    connector: SparkSession,
    story: Story,
    wanted: Bronze,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Batches, and a stream that is stopped and restarted, give the same bronze as the files."""
    source = BrokerSource(connector, request.getfixturevalue(broker), PER_TRIGGER)
    if broker == "theirs":
        wanted = loadable(wanted)
    by_batch = Store(connector, str(tmp_path / "batch"))
    made = without_loads(in_batches(source, by_batch, story), story)
    assert_same(loadable(made) if broker == "theirs" else made, wanted)
    by_stream = Store(connector, str(tmp_path / "stream"))
    stream_until(source, by_stream, lambda: has_begun(by_stream))
    before = next_offsets(by_stream)
    stream_what_is_there(source, by_stream)
    assert sum(before.values()) < sum(next_offsets(by_stream).values())
    made = without_loads(the_rest(source, by_stream, story), story)
    assert_same(loadable(made) if broker == "theirs" else made, wanted)


def loadable(bronze: Bronze) -> Bronze:
    """Return bronze without the one record that differs in the loadable story."""
    rows = [
        row for row in bronze["offsets_log"] if (row["value_hex"] or "") != UNLOADABLE_VALUE.hex()
    ]
    assert len(rows) == len(bronze["offsets_log"]) - 1
    return {**bronze, "offsets_log": rows}


def without_loads(made: Bronze, story: Story) -> Bronze:
    """Return bronze without the group events that our broker adds when it loads groups."""
    events = made["group_events"]
    added = [row for row in events if row["event_offset"] >= len(story.events)]
    assert {(row["trigger"], row["generation"]) for row in added} <= {("coordinator loaded", None)}
    return {**made, "group_events": [row for row in events if row not in added]}
