"""Speed of decoding offset commits in Spark: the pipeline's vectorised code and a plain UDF.

Run `python -m benchmarks.pipeline_decode [RECORDS]`. Both ways decode key and value of the same
cached frame in one session into the same columns of a commit. The decoding of all columns of the
bronze table, which the pipeline does, is measured as well. The figures are CPU time of JVM and
workers, which other work on the machine does not affect.

The JVM uses full compilation here. The pipeline's own session (`pipeline.session`) does not use
full compilation, which costs more than it saves in a run of one or two minutes; transferring rows
is slower there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pipeline import schema
from pipeline.decode.arrow import decode_arrow
from pipeline.decode.frame import decode
from pipeline.schema.arrow import arrow_schema
from pipeline.session import open_session
from protocol.offsets_log import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

RECORDS = 1_000_000
ROUNDS = 5
GROUPS, PARTITIONS = 1000, 12
COLUMNS = StructType(
    [
        StructField("group", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("committed_offset", LongType()),
        StructField("leader_epoch", IntegerType()),
        StructField("metadata", StringType()),
        StructField("commit_timestamp_ms", LongType()),
    ]
)


def raw_records(first: int, count: int) -> pa.RecordBatch:
    """Return commits in the form of an offsets topic."""
    keys, values = [], []
    for number in range(first, first + count):
        name = f"group-{number % GROUPS}"
        partition = number % PARTITIONS
        keys.append(encode_key(OffsetCommitKey(group=name, topic="orders", partition=partition)))
        value = OffsetCommitValue(
            offset=number, leader_epoch=1, metadata="", commit_timestamp=1_700_000_000_000 + number
        )
        values.append(encode_value(value, 4))
    columns = [
        pa.array([0] * count, pa.int32()),
        pa.array(range(first, first + count), pa.int64()),
        pa.array(range(first, first + count), pa.int64()),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema.RAW))


def by_record(key: bytes, value: bytes) -> tuple[Any, ...]:
    """Decode one record, as a plain Python UDF does."""
    named: Any = decode_key(bytes(key))
    said: Any = decode_value(named, bytes(value))
    return (
        named.group,
        named.topic,
        named.partition,
        said.offset,
        said.leader_epoch,
        said.metadata,
        said.commit_timestamp,
    )


def by_batch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode batches of keys and values with the pipeline's decoder; yield the same columns."""
    raw_schema = arrow_schema(schema.RAW)
    for batch in batches:
        arrays = {name: batch.column(name) for name in ("key", "value")}
        for field in raw_schema:
            arrays.setdefault(field.name, pa.nulls(batch.num_rows, field.type))
        raw = pa.RecordBatch.from_arrays(
            [arrays[name] for name in raw_schema.names], schema=raw_schema
        )
        yield decode_arrow(raw).select(COLUMNS.names)


def children_seconds() -> float:
    """Return the CPU time of this process's running descendants: the JVM and Python's workers."""
    total = 0
    parents = {os.getpid()}
    for _ in range(4):  # one pass for each level of child processes: driver, JVM, daemon, workers
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) in parents and int(name) not in parents:
                parents.add(int(name))
    for number in parents - {os.getpid()}:
        with open(f"/proc/{number}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def measure(name: str, make: Callable[[], DataFrame], count: int) -> float:
    """Run a frame ROUNDS times and return the minimum of CPU seconds.

    Early rounds warm the JVM up.
    """
    best = float("inf")
    for _ in range(ROUNDS):
        began, cpu = time.perf_counter(), children_seconds()
        make().write.format("noop").mode("overwrite").save()
        taken, used = time.perf_counter() - began, children_seconds() - cpu
        best = min(best, used)
        print(f"{name}: {count / taken:,.0f} rows/s, {used / count * 1e6:.2f} us of CPU a row")
    return best


def main(count: int = RECORDS) -> float:
    """Measure both ways of decoding and return the speedup of the vectorised code."""
    spark = open_session(
        "local[2]",
        settings={
            "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        },
    )
    step = 50_000
    count = count // step * step

    def generate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first in batch.column(0).to_pylist():
                yield raw_records(first * step, step)

    parts = count // step
    raw = spark.range(0, parts, 1, 2).mapInArrow(generate, schema.RAW.spark()).cache()
    print(f"{raw.count():,} commits of {GROUPS} groups, {spark.version}, local[2]")
    plain = F.udf(by_record, COLUMNS, useArrow=False)
    pairs = raw.select("key", "value")
    slow = measure("plain UDF", lambda: raw.select(plain("key", "value").alias("one")), count)
    fast = measure("vectorised", lambda: pairs.mapInArrow(by_batch, COLUMNS), count)
    whole = measure("vectorised, all columns of bronze", lambda: decode(raw), count)
    nothing = measure("the scan alone", lambda: pairs, count)
    print(f"vectorised is {slow / fast:.1f} times as fast as the plain UDF (by CPU time);")
    ratio = (slow - nothing) / max(fast - nothing, 1e-9)
    print(f"{ratio:.1f} times without the scan that both do;")
    print(f"{slow / whole:.1f} times where it gives all columns of bronze and the UDF these seven")
    spark.stop()
    return slow / fast


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
