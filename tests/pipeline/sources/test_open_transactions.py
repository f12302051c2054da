"""The owner and start of open transactions, from a broker and from its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from pipeline import schema
from pipeline.sources.kafka import BrokerSource
from pipeline.sources.logdir import LogPartition, segments_of
from pipeline.sources.scan import first_timestamp_ms
from pipeline.sources.segments import TRANSACTIONS_TOPIC, LogDirSource, holders_of
from pipeline.sources.source import Holder, Source
from protocol.batch import Record, build_batch
from protocol.batch_header import LOG_APPEND_TIME, read_header
from protocol.transaction_log import (
    TransactionLogValue,
    encode_transaction_key,
    encode_transaction_value,
)
from storage.local_disk import LocalDisk
from storage.producer_state import ProducerEntry, ProducerState, save_snapshot
from tests.pipeline.logs import START_MS, commits, marker, plain, transactional, write_segment
from tests.pipeline.ways import Row, plain_rows
from tests.support import Broker

TOPIC = "payments"
ONGOING, COMPLETE_COMMIT = 1, 4


def ends(source: Source) -> list[Row]:
    """Return the source's partition ends of the topic."""
    return plain_rows(source.partition_ends([TOPIC]), schema.PARTITION_ENDS)


def state(
    offset: int, name: str, producer_id: int, status: int, begin_ms: int, *, is_gone: bool = False
) -> Record:
    """Return a record of `__transaction_state`."""
    value = TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_timeout_ms=1,
        transaction_status=status,
        transaction_partitions=[],
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=begin_ms,
    )
    encoded = None if is_gone else encode_transaction_value(value)
    return Record(offset, START_MS, encode_transaction_key(name), encoded)


def log_dir(folder: Path, batches: Sequence[bytes], states: Sequence[Record]) -> str:
    """Write a log directory with a topic, an offsets topic and `__transaction_state`."""
    write_segment(folder, [plain(commits(0, 1))])
    write_segment(folder, batches, topic=TOPIC)
    if states:
        one_each = [plain([record]) for record in states]
        write_segment(folder, one_each, topic=TRANSACTIONS_TOPIC)
    return str(folder)


@pytest.mark.nightly
def test_the_coordinators_memory_names_the_transaction(spark: SparkSession, tmp_path: Path) -> None:
    """The last record of the producer id in `__transaction_state` gives name and start."""
    batches = [plain(commits(0, 2)), transactional(commits(2, 3), 7)]
    states = [
        state(0, "other", 8, ONGOING, 111),
        state(1, "teller", 7, COMPLETE_COMMIT, 222),
        state(2, "teller", 7, ONGOING, 333),
        state(3, "other", 8, ONGOING, 0, is_gone=True),
    ]
    (end,) = ends(LogDirSource(spark, log_dir(tmp_path, batches, states)))
    assert (end["last_stable_offset"], end["log_end"]) == (2, 5)
    assert (end["held_by"], end["held_since_ms"]) == ("teller", 333)


@pytest.mark.nightly
def test_without_it_the_first_record_says_since_when(spark: SparkSession, tmp_path: Path) -> None:
    """Without `__transaction_state`, the producer id and the first record's time are given.

    A hanging transaction has its name, and the time of its first record.
    """
    batches = [plain(commits(0, 2)), transactional(commits(2, 3), 7), plain(commits(5, 1))]
    path = log_dir(tmp_path / "alone", batches, [])
    (end,) = ends(LogDirSource(spark, path))
    assert (end["held_by"], end["held_since_ms"]) == ("producer 7", START_MS + 2)
    # The coordinator has ended the transaction, but wrote no marker to the partition (KIP-664).
    ended = [state(0, "teller", 7, COMPLETE_COMMIT, 222)]
    path = log_dir(tmp_path / "hanging", batches, ended)
    (end,) = ends(LogDirSource(spark, path))
    assert (end["held_by"], end["held_since_ms"]) == ("teller", START_MS + 2)


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_transaction_may_begin_in_an_earlier_segment(
    spark: SparkSession, tmp_path: Path, *, with_snapshot: bool
) -> None:
    """An open transaction is found by the last segment's producer snapshot, or by a full scan."""
    first = [plain(commits(0, 2)), transactional(commits(2, 1), 7), transactional(commits(3, 1), 8)]
    folder = log_dir(tmp_path, first, [])
    write_segment(tmp_path, [marker(4, 8, commit=True), plain(commits(5, 1))], 4, TOPIC)
    if with_snapshot:
        producers = ProducerState()
        for producer_id, offset in ((7, 2), (8, 3)):
            producers.entries[producer_id] = entry = ProducerEntry(0)
            entry.transaction_start = offset
        save_snapshot(LocalDisk(), str(tmp_path / f"{TOPIC}-0"), 4, producers)
    (end,) = ends(LogDirSource(spark, folder))
    assert (end["last_stable_offset"], end["log_end"]) == (2, 6)
    assert (end["held_by"], end["held_since_ms"]) == ("producer 7", START_MS + 2)


def test_a_damaged_memory_gives_what_is_left_of_it(tmp_path: Path) -> None:
    """Malformed batches, unknown values and empty files of `__transaction_state` are skipped."""
    good = plain([state(0, "teller", 7, ONGOING, 5)])
    torn = bytearray(plain([state(1, "teller", 7, ONGOING, 6)]))
    torn[61] ^= 0x55  # damages the length of the record
    odd = Record(2, START_MS, encode_transaction_key("odd"), b"\x00\x63" + (7).to_bytes(8, "big"))
    path = write_segment(tmp_path, [good, bytes(torn), plain([odd])], topic=TRANSACTIONS_TOPIC)
    write_segment(tmp_path, [], 9, TRANSACTIONS_TOPIC)
    assert len(segments_of(LogPartition(TRANSACTIONS_TOPIC, 0, str(path.parent)))) == 2
    assert holders_of(str(tmp_path), {7}) == {7: Holder("teller", 5)}
    assert holders_of(str(tmp_path), set()) == {}


@pytest.mark.nightly
def test_a_broker_and_its_files_agree(connector: SparkSession, tmp_path: Path) -> None:
    """Our broker and its data directory give the same name and start of an open transaction."""
    with Broker({"num.partitions": "1"}, data_dir=tmp_path / "data") as broker:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer({**settings, "transactional.id": "teller"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(TOPIC, b"v")
        assert producer.flush(30) == 0
        consumer = Consumer({**settings, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
        consumer.close()
        by_broker = BrokerSource(connector, broker.bootstrap_servers)
        (asked,) = ends(by_broker)
        assert by_broker.notes() == []
        by_files = LogDirSource(connector, str(tmp_path / "data"))
        (read,) = ends(by_files)
        names = ("last_stable_offset", "log_end", "held_by", "held_since_ms")
        assert [asked[name] for name in names] == [read[name] for name in names]
        assert asked["held_by"] == "teller"
        assert by_broker.cluster_id == by_files.cluster_id == broker_cluster_id(tmp_path)
        assert 0 <= asked["sampled_at_ms"] - asked["held_since_ms"] < 120_000
        producer.abort_transaction(30)
        (asked,) = ends(by_broker)
        assert (asked["held_by"], asked["held_since_ms"]) == (None, None)


def broker_cluster_id(folder: Path) -> str:
    """Return the cluster id in the broker's data directory."""
    text = (folder / "data" / "meta.properties").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("cluster.id="))
    return line.partition("=")[2]


def test_batches_with_the_time_of_the_append() -> None:
    """The first timestamp of a LogAppendTime batch is the header's maximum timestamp."""
    header = read_header(build_batch(commits(0, 2), transactional=True, producer_id=1).to_bytes())
    appended = header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp_ms=9)
    assert first_timestamp_ms(appended) == 9
    assert first_timestamp_ms(header._replace(base_timestamp_ms=-1)) is None
