"""The input `--log-dir`: frames read directly from segment files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline import schema
from pipeline.sources.batches import CorruptRange, batches_and_corruption
from pipeline.sources.datasource import OFFSETS_LOG, TOPIC_LOG, OffsetsLogSource, TopicLogSource
from pipeline.sources.events import group_events
from pipeline.sources.logdir import (
    EVENTS_TOPIC,
    OFFSETS_TOPIC,
    SHARE_TOPIC,
    LogPartition,
    SegmentFile,
    all_partitions,
    begun_before,
    check_log_dir,
    cleaned_offsets,
    cluster_id_of,
    log_starts,
    partitions_of,
    retentions,
    segments_of,
    topic_id_of,
)
from pipeline.sources.records import Damage, RecordColumns, read_slice
from pipeline.sources.sampling import Fetched, Found, Place
from pipeline.sources.scan import PartitionScan, timestamp_at
from pipeline.sources.share_state import share_state
from pipeline.sources.source import NO_HOLDER, Holder, PartitionOffsets
from pipeline.sources.time_index import first_since, greatest_ms
from protocol.batch import Record, iterate_records
from protocol.errors import ProtocolError
from protocol.transaction_log import decode_transaction_key, decode_transaction_value

_FETCH_BYTES = 1 << 16


def _scan_of_end(partition: LogPartition, segments: list[SegmentFile]) -> PartitionScan:
    """Scan the last segment; all segments if it is unknown which transactions they left open."""
    scan = PartitionScan(partition)
    begun = begun_before(partition, segments[-1])
    is_known = begun is not None or partition.topic == OFFSETS_TOPIC
    scan.refresh(segments[-1:] if is_known else segments, begun)
    return scan


def _holder(
    scan: PartitionScan, segments: list[SegmentFile], holders: Mapping[int, Holder]
) -> Holder:
    """Return the transaction at the last stable offset, from its coordinator or its records."""
    begun = scan.oldest_open
    if begun is None:
        return NO_HOLDER
    name, since_ms = holders.get(begun.producer_id, NO_HOLDER)
    if since_ms is None:
        since_ms = begun.since_ms or timestamp_at(segments, begun.first_offset)
    return Holder(name or f"producer {begun.producer_id}", since_ms)


class LogDirSource:
    """A log directory of Kafka or this project. Raises InputError without an offsets topic."""

    def __init__(self, spark: SparkSession, log_dir: str, records_per_trigger: int = 0) -> None:
        self._spark = spark
        self.input = log_dir
        self._records_per_trigger = records_per_trigger
        self._notes: list[str] = []
        self._damage: Observation | None = None
        check_log_dir(log_dir)
        self.cluster_id = cluster_id_of(log_dir)
        spark.dataSource.register(OffsetsLogSource)
        spark.dataSource.register(TopicLogSource)

    def offsets_log(self, starts: Mapping[int, int]) -> DataFrame:
        """Return the offsets log; slices below `starts` are not opened."""
        reader = self._spark.read.format(OFFSETS_LOG).option("path", self.input)
        reader = reader.option("packed", "true")
        return reader.option("starts", json.dumps(dict(starts))).load()

    def offsets_log_stream(self) -> DataFrame:
        """Return the offsets log as an endless stream from its beginning."""
        reader = self._spark.readStream.format(OFFSETS_LOG).option("path", self.input)
        reader = reader.option("packed", "true")
        return reader.option("records_per_trigger", str(self._records_per_trigger)).load()

    def partition_ends(self, topics: Sequence[str]) -> DataFrame:
        """Return the ends that the last segments show.

        The high watermark is taken as the log end, because a log directory knows no other replicas.
        """
        starts, kept_ms = log_starts(self.input), retentions(self.input)
        wanted = {*topics, OFFSETS_TOPIC}
        looked_at = []
        self._notes = []
        for partition in all_partitions(self.input):
            segments = segments_of(partition)
            if partition.topic not in wanted or not segments:
                continue
            scan = _scan_of_end(partition, segments)
            if scan.torn_bytes:
                torn = f"a torn tail of {scan.torn_bytes} bytes was left out"
                self._notes.append(f"{partition.topic}-{partition.number}: {torn}")
            if partition.topic in topics:
                looked_at.append((partition, segments, scan))
        held = {
            transaction.producer_id
            for *_, scan in looked_at
            if (transaction := scan.oldest_open) is not None
        }
        holders = holders_of(self.input, held)
        rows = []
        for partition, segments, scan in looked_at:
            place = (partition.topic, partition.number)
            start = max(segments[0].base_offset, starts.get(place, 0))
            end = max(scan.log_end, start)
            now_ms = time.time_ns() // 1_000_000
            rows.append(
                (
                    *place,
                    start,
                    end,
                    end,
                    kept_ms.get(partition.topic),
                    now_ms,
                    "log",
                    topic_id_of(partition),
                    max(min(scan.last_stable_offset, end), start),
                    *_holder(scan, segments, holders),
                    None,
                    None,
                )
            )
        return self._spark.createDataFrame(rows, schema.PARTITION_ENDS.spark())

    def topic_records(self, topics: Sequence[str], starts: PartitionOffsets) -> DataFrame:
        """Return offset, time and size of records, without their contents."""
        reader = self._spark.read.format(TOPIC_LOG).option("path", self.input)
        known = {f"{topic}-{number}": offset for (topic, number), offset in starts.items()}
        reader = reader.option("topics", json.dumps(list(topics)))
        rows = reader.option("starts", json.dumps(known)).load()
        self._damage = Observation("damage")
        place = F.concat_ws(": ", F.concat_ws("-", "topic", "partition"), "damage")
        first = F.min(F.when(F.col("damage").isNotNull(), place)).alias("first")
        rows = rows.observe(self._damage, F.count("damage").alias("count"), first)
        return rows.filter(F.col("damage").isNull()).select(schema.TOPIC_RECORDS.names)

    @contextmanager
    def times(self) -> Iterator[LogTimes]:
        """Return answers about times, from the time index of the segments."""
        yield LogTimes(self.input)

    def share_state(self, starts: Mapping[int, int]) -> DataFrame | None:
        """Return the state of share partitions; None without such a topic."""
        if not partitions_of(self.input, SHARE_TOPIC):
            return None
        reader = self._spark.read.format(OFFSETS_LOG).option("path", self.input)
        reader = reader.option("topic", SHARE_TOPIC).option("starts", json.dumps(dict(starts)))
        return share_state(reader.load())

    def topic_names(self) -> dict[str, str]:
        """Return the name of each topic by its id."""
        partitions = all_partitions(self.input)
        ids = {topic_id_of(partition): partition.topic for partition in partitions}
        return {topic_id: name for topic_id, name in ids.items() if topic_id is not None}

    def group_events(self, start: int) -> DataFrame | None:
        """Return the rebalances that this project's broker recorded; None without such a topic."""
        if not partitions_of(self.input, EVENTS_TOPIC):
            return None
        reader = self._spark.read.format(OFFSETS_LOG).option("path", self.input)
        reader = reader.option("topic", EVENTS_TOPIC)
        return group_events(reader.option("starts", json.dumps({0: start})).load())

    def notes(self) -> list[str]:
        """Return torn tails, and damage of data topics; damage of the offsets log is a dead letter.

        To be called after the topics' records have been read.
        """
        damage = {} if self._damage is None else self._damage.get
        if damage.get("count"):
            text = f"{damage['count']} damaged batches in topics, the first one {damage['first']}"
            return [*self._notes, text]
        return self._notes


class LogTimes:
    """Answers about the times of records in a log directory, from the time index."""

    def __init__(self, log_dir: str) -> None:
        self._starts = log_starts(log_dir)
        self._cleaned = cleaned_offsets(log_dir)
        self.fetched_bytes = 0
        self._partitions = {
            (partition.topic, partition.number): partition for partition in all_partitions(log_dir)
        }

    def since(self, asked: Mapping[Place, int]) -> dict[Place, Found | None]:
        """Return the first record at or after a time; None if all records are older."""
        return {
            place: first_since(
                segments_of(self._partitions[place]), time_ms, self._starts.get(place, 0)
            )
            for place, time_ms in asked.items()
        }

    def last(self, places: Iterable[Place]) -> dict[Place, Found | None]:
        """Return the record with the greatest timestamp of each partition that has records."""
        greatest = {place: greatest_ms(segments_of(self._partitions[place])) for place in places}
        return self.since({place: at for place, at in greatest.items() if at is not None})

    def fetch(self, starts: Mapping[Place, int]) -> dict[Place, Fetched | None]:
        """Return the first committed record at or after each start; None without one.

        The headers of all batches are read, because they show which transactions were aborted.
        """
        first: dict[Place, Fetched | None] = {}
        for place, start in starts.items():
            scan = PartitionScan(self._partitions[place], self._cleaned.get(place, 0), _FETCH_BYTES)
            scan.refresh()
            chunks = (chunk for part in scan.slices(start) for chunk in read_slice(part))
            first[place] = next(
                (
                    _fetched(chunk)
                    for chunk in chunks
                    if not isinstance(chunk, Damage) and len(chunk.offset)
                ),
                None,
            )
        return first


def _fetched(chunk: RecordColumns) -> Fetched:
    size_bytes = int(chunk.keys.length[0] + chunk.values.length[0])
    return Fetched(int(chunk.offset[0]), int(chunk.timestamp_ms[0]), size_bytes)


TRANSACTIONS_TOPIC = "__transaction_state"
_UNDER_WAY = (1, 2, 3)
"""Ongoing, PrepareCommit and PrepareAbort of Kafka's TransactionState: markers may still be
missing."""


def holders_of(log_dir: str, producer_ids: set[int]) -> dict[int, Holder]:
    """Return the transactional id and start time of each producer whose record is found.

    `since_ms` is null if the producer's last record has no open transaction. Raises the InputError
    of `pipeline.sources.logdir.all_partitions`.
    """
    holders: dict[int, Holder] = {}
    if not producer_ids:
        return holders
    for partition in partitions_of(log_dir, TRANSACTIONS_TOPIC):
        for segment in segments_of(partition):
            for record in _records_about(segment, producer_ids):
                if record.key is None or record.value is None:
                    continue
                try:
                    name = decode_transaction_key(record.key).transactional_id
                    value, _ = decode_transaction_value(record.value)
                except ProtocolError:
                    continue
                if value.producer_id in producer_ids:
                    begin_ms = value.transaction_start_timestamp_ms
                    is_open = value.transaction_status in _UNDER_WAY and begin_ms >= 0
                    holders[value.producer_id] = Holder(name, begin_ms if is_open else None)
    return holders


def _records_about(segment: SegmentFile, producer_ids: set[int]) -> Iterator[Record]:
    """Yield the records of batches that contain one of the producer ids in their bytes.

    Coordinators never compress (TransactionLog.EnforcedCompression), so a segment or batch without
    the bytes of an id has no record of this producer and need not be decoded.
    """
    wanted = [producer_id.to_bytes(8, "big") for producer_id in producer_ids]
    try:
        with open(segment.path, "rb") as file:
            data = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (FileNotFoundError, ValueError):  # compaction has swapped the file, or the file is empty
        return
    with data:
        if not any(data.find(id_bytes) >= 0 for id_bytes in wanted):
            return
        end = min(len(data), segment.size_bytes)
        for batch in batches_and_corruption(data, 0, end, segment.base_offset):
            if isinstance(batch, CorruptRange) or batch.is_control:
                continue
            if any(data.find(id_bytes, batch.position, batch.end) >= 0 for id_bytes in wanted):
                try:
                    yield from iterate_records(data, batch)
                except ProtocolError:  # skip the damaged batch: the other batches are still useful
                    continue
