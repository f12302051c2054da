"""Transactional records on disk are interchangeable between Kafka and our broker.

Real producers write to a real Kafka, our broker serves its files to real consumers, and Kafka
serves the result of our compaction. The transactions of two producers interleave across segments,
and one of them aborts; plain records lie between them. One transaction over many segments is
aborted, and one stays open. There are two topics, of which our cleaner compacts the second.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from storage.cleaner import Cleaning
from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_loader import LogLoader
from storage.open_files import OpenFiles
from storage.partition_log import PartitionLog
from tests.clients.readers import READERS, Records, read_with_confluent_kafka
from tests.oracle.kafka_process import Kafka, dump_log_segments
from tests.support import Broker

pytestmark = pytest.mark.nightly

SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.enable": "false",
}
TOPICS = {
    "plain": {"internal.segment.bytes": "1200", "index.interval.bytes": "200"},
    "compact": {"internal.segment.bytes": "1500", "cleanup.policy": "compact"},
}
QUIET = {"log_level": 0, "linger.ms": 0}
TIMEOUT_SECONDS = 20
ENTRY = re.compile(
    r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
)
Pair = tuple[bytes, bytes | None]


class Producers:
    """Three transactional producers and a producer without transactions."""

    def __init__(self, bootstrap: str) -> None:
        common: dict[str, str | int] = {**QUIET, "bootstrap.servers": bootstrap}
        self.plain = confluent_kafka.Producer(common)
        self.transactional = {
            name: confluent_kafka.Producer(
                {**common, "transactional.id": name, "transaction.timeout.ms": 800_000}
            )
            for name in "abc"
        }
        for producer in self.transactional.values():
            producer.init_transactions(TIMEOUT_SECONDS)

    def begin(self, *names: str) -> None:
        """Begin transactions."""
        for name in names:
            self.transactional[name].begin_transaction()

    def send(self, name: str, topic: str, *pairs: Pair) -> None:
        """Produce records and wait for their acknowledgement."""
        producer = self.transactional.get(name, self.plain)
        for key, value in pairs:
            producer.produce(topic, key=key, value=value, partition=0)
        assert producer.flush(TIMEOUT_SECONDS) == 0

    def end(self, name: str, *, commit: bool) -> None:
        """End a transaction."""
        producer = self.transactional[name]
        (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_SECONDS)


def write(made: Producers, topic: str) -> None:
    """Write all records except those of the transaction that stays open."""
    for number in range(6):
        made.begin("a", "b")
        key = b"k%d" % (number % 3)
        made.send("a", topic, (key, b"a%d" % number), (b"a%d" % number, b"x" * 60))
        made.send("b", topic, (key, b"aborted"), (b"only-b", b"aborted" * 10))
        made.send("", topic, (b"p%d" % (number % 2), b"plain%d" % number))
        made.send("a", topic, (b"k0", b"a%d again" % number))
        if number % 2:
            made.end("b", commit=False)
        made.end("a", commit=True)
        if not number % 2:
            made.end("b", commit=False)
    made.begin("b")
    for number in range(20):
        made.send("b", topic, (b"long%d" % number, b"aborted" * 12))
        made.send("", topic, (b"p%d" % (number % 4), b"between%d" % number))
    made.end("b", commit=False)
    made.begin("a")
    made.send("a", topic, (b"k9", b"the last"))
    made.end("a", commit=True)


def leave_open(made: Producers, topic: str) -> None:
    """Open a transaction, write an aborted and a committed transaction and a plain record."""
    made.begin("c")
    made.send("c", topic, (b"open", b"never ended"))
    made.begin("a")
    made.send("a", topic, (b"k1", b"aborted"))
    made.end("a", commit=False)
    made.begin("a")
    made.send("a", topic, (b"k1", b"behind"))
    made.end("a", commit=True)
    made.send("", topic, (b"p", b"plain behind"))


class Written(NamedTuple):
    """Kafka's data directory, and the committed records that Kafka served, by topic."""

    kafka: Kafka
    data: Path
    served: dict[str, Records]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """A stopped Kafka with records."""
    directory = tmp_path_factory.mktemp("theirs")
    kafka = Kafka(directory, SETTINGS)
    try:
        kafka.start()
        admin = AdminClient({**QUIET, "bootstrap.servers": kafka.bootstrap_servers})
        topics = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
        for future in admin.create_topics(topics).values():
            future.result()
        producers = Producers(kafka.bootstrap_servers)
        for topic in TOPICS:
            write(producers, topic)
        leave_open(producers, "plain")
        served = {
            topic: read_with_confluent_kafka(kafka.bootstrap_servers, topic) for topic in TOPICS
        }
        kafka.stop()
        del producers
        yield Written(kafka, kafka.data, served)
    finally:
        kafka.end()


def files(directory: Path, suffix: str) -> dict[str, bytes]:
    """Return the non-empty files of a partition by name."""
    found = {path.name: path.read_bytes() for path in sorted(directory.glob(f"*{suffix}"))}
    return {name: contents for name, contents in found.items() if contents}


def opened(directory: Path) -> PartitionLog:
    """Return the recovered log of a partition."""
    config = LogConfig(cleanup_policy=("compact",), segment_bytes=1500, delete_retention_ms=0)
    loader = LogLoader(
        OpenFiles(LocalDisk(durable=False)), str(directory), "t", 0, config, 0, 0, False, 0
    )
    return PartitionLog(loader, bytes(16))


@pytest.mark.parametrize("topic", list(TOPICS))
def test_our_indexes_of_their_segments_are_theirs(
    written: Written, topic: str, tmp_path: Path
) -> None:
    """Indexes rebuilt from the batches are equal to Kafka's, and Kafka's dump tool reads them."""
    theirs = files(written.data / f"{topic}-0", ".txnindex")
    assert len(theirs) > 2
    directory = tmp_path / f"{topic}-0"
    shutil.copytree(written.data / f"{topic}-0", directory)
    for path in [*directory.glob("*.txnindex"), *directory.glob("*.snapshot")]:
        path.unlink()
    log = opened(directory)
    assert files(directory, ".txnindex") == theirs
    shown = dump_log_segments([directory / name for name in theirs])
    entries = [tuple(map(int, found)) for found in ENTRY.findall(shown)]
    assert entries == [tuple(one) for one in log.aborted_transactions(0, log.log_end_offset)]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_consumers_read_the_same_from_us(written: Written, reader: object, tmp_path: Path) -> None:
    """Real read_committed consumers get the same records from our broker on Kafka's files."""
    for topic in TOPICS:
        shutil.copytree(written.data / f"{topic}-0", tmp_path / f"data/{topic}-0")
    with Broker(data_dir=tmp_path / "data") as broker:
        for topic, expected in written.served.items():
            assert len(expected) > 40
            assert not [value for _, _, value in expected if value and b"aborted" in value]
            assert callable(reader)
            assert reader(broker.bootstrap_servers, topic) == expected


@pytest.mark.nightly
def test_kafka_serves_what_our_compaction_left(written: Written) -> None:
    """After our compaction Kafka's read_committed consumers end up with the same values.

    Our cleaner makes three passes; the files then have no index and no checkpoint.
    """
    directory = written.data / "compact-0"
    log = opened(directory)
    log.roll(0)
    sizes = [log.size_bytes]
    for now_ms in (1, 2, 3):
        for _ in Cleaning(log, 0, now_ms).run():
            pass
        sizes.append(log.size_bytes)
    assert sizes[1] < sizes[0] / 2
    assert sizes[3] < sizes[1]
    log.close()
    dump_log_segments([directory / name for name in files(directory, ".log")], "--deep-iteration")
    for path in directory.iterdir():
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            path.unlink()
    for path in (*written.data.glob("*checkpoint"), written.data / ".kafka_cleanshutdown"):
        path.unlink()
    written.kafka.start()
    served = read_with_confluent_kafka(written.kafka.bootstrap_servers, "compact")
    assert len(served) < len(written.served["compact"]) / 2
    before = {key: value for _, key, value in written.served["compact"]}
    assert {key: value for _, key, value in served} == before
    assert set(served) <= set(written.served["compact"])
    written.kafka.stop()
