"""Spark's Python data sources over segment files: `offsets_log` and `topic_log`.

`offsets_log` reads the records of one topic with the columns of `schema.RAW`, in batch and as a
stream; `topic_log` reads offset, time and size of the records of several topics. Options:

- `path`: the log directory
- `topic` of `offsets_log` (default `__consumer_offsets`), `topics` of `topic_log`: a JSON list
- `packed` of `offsets_log`: `true` for one column `rows` (see `pipeline.pieces`) with the decoded
  columns of `schema.OFFSETS_LOG`, which Spark then moves without unpacking
- `starts`: a JSON object of next offsets to read, by partition (`topic_log`: by TOPIC-PARTITION)
- `slice_bytes`: the bytes that one task reads
- `records_per_trigger`: the maximum number of offsets per micro-batch, for streams only
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pipeline import schema
from pipeline.decode.arrow import decode_arrow
from pipeline.decode.fields import binary_column
from pipeline.pieces import PACKED, pack_batch
from pipeline.schema.arrow import arrow_schema
from pipeline.sources.logdir import (
    OFFSETS_TOPIC,
    LogPartition,
    all_partitions,
    cleaned_offsets,
    partitions_of,
    topic_id_of,
)
from pipeline.sources.records import Damage, RecordColumns, read_slice
from pipeline.sources.scan import SLICE_BYTES, PartitionScan, Slice
from pipeline.sources.source import InputError

OFFSETS_LOG = "offsets_log"
TOPIC_LOG = "topic_log"
TOPIC_LOG_DDL = f"{schema.TOPIC_RECORDS.ddl}, damage string"
_SLICES_PER_TASK_MAX = 64

Offsets = dict[str, int]


class SliceTask(InputPartition):
    """The slices that one task reads."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        super().__init__(None)
        self.slices = list(slices)


class OffsetsLogSource(DataSource):
    """The data source of `spark.read.format("offsets_log")` and `readStream`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return OFFSETS_LOG

    def schema(self) -> str:
        """Return the columns of `schema.RAW`, or of packed rows, in DDL."""
        return PACKED if _Plan(self.options).packed else schema.RAW.ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of all existing records."""
        return _LogReader(_Plan(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader of existing and future records."""
        return _LogStreamReader(_Plan(self.options))


class TopicLogSource(DataSource):
    """The data source of `spark.read.format("topic_log")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return TOPIC_LOG

    def schema(self) -> str:
        """Return the columns of `schema.TOPIC_RECORDS` and `damage`, in DDL."""
        return TOPIC_LOG_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of all existing records."""
        return _TopicReader(_Plan(self.options))


class _Plan:
    """The parsed options of a source."""

    def __init__(self, options: Any) -> None:
        self.log_dir: str = options["path"]
        self.topics: list[str] = json.loads(options.get("topics", "null")) or [
            options.get("topic", OFFSETS_TOPIC)
        ]
        self.starts: dict[str, int] = json.loads(options.get("starts", "{}"))
        self.packed: bool = options.get("packed", "false") == "true"
        self.slice_bytes = int(options.get("slice_bytes", SLICE_BYTES))
        self.records_per_trigger = int(options.get("records_per_trigger", 0))

    def scans(self) -> list[PartitionScan]:
        """Return a new scan for each existing partition of the topics."""
        cleaned = cleaned_offsets(self.log_dir)
        if len(self.topics) == 1:
            partitions = partitions_of(self.log_dir, self.topics[0])
        else:
            wanted = set(self.topics)
            partitions = [
                partition for partition in all_partitions(self.log_dir) if partition.topic in wanted
            ]
        return [self.scan(partition, cleaned) for partition in partitions]

    def scan(self, partition: LogPartition, cleaned: dict[tuple[str, int], int]) -> PartitionScan:
        """Return a new scan of the partition; nothing has been read yet."""
        return PartitionScan(
            partition, cleaned.get((partition.topic, partition.number), 0), self.slice_bytes
        )

    def start_of(self, partition: LogPartition) -> int | None:
        """Return the offset to begin at, or None for the log start."""
        name = str(partition.number)
        return self.starts.get(name, self.starts.get(f"{partition.topic}-{name}"))


def _tasks(slices: list[Slice], slice_bytes: int) -> list[InputPartition]:
    """Group slices into tasks; small slices share a task, so that there are not too many."""
    tasks: list[InputPartition] = []
    some: list[Slice] = []
    size = 0
    for piece in slices:
        length = piece.end - piece.start
        if some and (size + length > slice_bytes or len(some) == _SLICES_PER_TASK_MAX):
            tasks.append(SliceTask(some))
            some, size = [], 0
        some.append(piece)
        size += length
    if some:
        tasks.append(SliceTask(some))
    return tasks


class _LogReader(DataSourceReader):
    def __init__(self, plan: _Plan) -> None:
        self._plan = plan

    def partitions(self) -> list[InputPartition]:
        """Return tasks for all partitions, up to their last stable offsets."""
        slices = []
        for scan in self._plan.scans():
            scan.refresh()
            slices += scan.slices(self._plan.start_of(scan.partition))
        return _tasks(slices, self._plan.slice_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's slices."""
        return _read_log(partition, packed=self._plan.packed)


class _TopicReader(DataSourceReader):
    def __init__(self, plan: _Plan) -> None:
        self._plan = plan

    def partitions(self) -> list[InputPartition]:
        """Return tasks for all partitions, up to their last stable offsets."""
        return _LogReader(self._plan).partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield offset, time and size of the records of a task's slices."""
        for part in _slices(partition):
            for chunk in read_slice(part):
                yield _topic_batch(part, chunk)


class _LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the offsets log as a stream, whose offsets are the next ones to read by partition.

    Spark stores offsets only. Positions in files are looked up for each micro-batch, so segments
    may be rolled and compacted in between.
    """

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._scans: dict[int, PartitionScan] = {}
        self._target: Offsets | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Return no offsets: each partition begins at its log start."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of `records_per_trigger`; no limit if it is 0."""
        limit = self._plan.records_per_trigger
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the current end of the log as the end of this run."""
        self._target = self._ends()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """Return the end of the next micro-batch."""
        ends = self._target if self._target is not None else self._ends()
        if isinstance(limit, ReadMaxRows):
            return _limited(start, ends, self._scans, limit.max_rows)
        return {**start, **{name: max(end, start.get(name, 0)) for name, end in ends.items()}}

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Return tasks for the remaining records between two offsets."""
        if not self._scans:
            self._refresh()
        slices = []
        for number, scan in self._scans.items():
            name = str(number)
            if name in end and end[name] > start.get(name, -1):
                slices += scan.slices(start.get(name), end[name])
        return _tasks(slices, self._plan.slice_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task's slices."""
        return _read_log(partition, packed=self._plan.packed)

    def _ends(self) -> Offsets:
        self._refresh()
        return {str(number): scan.last_stable_offset for number, scan in self._scans.items()}

    def _refresh(self) -> None:
        """Scan all partitions again, including new ones.

        Raises InputError if the directory cannot be read, unless partitions are known already.
        """
        try:
            cleaned = cleaned_offsets(self._plan.log_dir)
            for partition in partitions_of(self._plan.log_dir, self._plan.topics[0]):
                if partition.number not in self._scans:
                    self._scans[partition.number] = self._plan.scan(partition, cleaned)
        except InputError:
            if not self._scans:
                raise
        for scan in self._scans.values():
            scan.refresh()


def _limited(
    start: Offsets, ends: Offsets, scans: dict[int, PartitionScan], max_rows: int
) -> Offsets:
    """Return the end of a micro-batch: at most `ends`, and `max_rows` offsets in total."""
    limited = dict(start)
    left = max_rows
    for name, end in ends.items():
        begin = start.get(name, scans[int(name)].log_start or 0)
        if end > begin and left > 0:
            limited[name] = min(end, begin + left)
            left -= limited[name] - begin
        elif name in start or end <= begin:
            limited[name] = max(start.get(name, 0), min(end, begin))
    return limited


def _slices(partition: InputPartition) -> list[Slice]:
    """Return the slices of a task; none for the task that Spark adds if there is no other."""
    return partition.slices if isinstance(partition, SliceTask) else []


def _read_log(partition: InputPartition, *, packed: bool) -> Iterator[pa.RecordBatch]:
    for part in _slices(partition):
        for chunk in read_slice(part):
            raw = _raw_batch(part, chunk)
            yield pack_batch(decode_arrow(raw)) if packed else raw


def _raw_batch(part: Slice, chunk: RecordColumns | Damage) -> pa.RecordBatch:
    """Return a chunk with the columns of `schema.RAW`."""
    number = part.partition.number
    if isinstance(chunk, Damage):
        row = {"log_partition": number, "log_offset": chunk.offset, "damage": chunk.reason}
        return pa.RecordBatch.from_pylist([row], schema=arrow_schema(schema.RAW))
    count = len(chunk.offset)
    columns = [
        pa.array(np.full(count, number, np.int32)),
        pa.array(chunk.offset),
        pa.array(chunk.timestamp_ms, mask=~chunk.has_timestamp),
        binary_column(chunk.keys, chunk.keys.valid),
        binary_column(chunk.values, chunk.values.valid),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema.RAW))


def _topic_batch(part: Slice, chunk: RecordColumns | Damage) -> pa.RecordBatch:
    """Return a chunk with the columns of `schema.TOPIC_RECORDS` and `damage`."""
    topic_schema = arrow_schema(schema.TOPIC_RECORDS).append(pa.field("damage", pa.string()))
    topic, number = part.partition.topic, part.partition.number
    if isinstance(chunk, Damage):
        row = {"topic": topic, "partition": number, "offset": chunk.offset}
        return pa.RecordBatch.from_pylist([{**row, "damage": chunk.reason}], schema=topic_schema)
    count = len(chunk.offset)
    columns = [
        pa.repeat(topic, count),
        pa.array(np.full(count, number, np.int32)),
        pa.array(chunk.offset),
        pa.array(chunk.timestamp_ms, mask=~chunk.has_timestamp),
        pa.array((chunk.keys.length + chunk.values.length).astype(np.int32)),
        pa.repeat(topic_id_of(part.partition), count).cast(pa.string()),
        pa.nulls(count, pa.int64()),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=topic_schema)
