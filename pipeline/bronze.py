"""Write the bronze tables: decoded records, each stored once even if a read is repeated.

Offsets of a log only rise, and a log is read up to its last stable offset, so records above the
highest stored offset are new. Batches of a stream are named by Spark's number of the micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple
from uuid import uuid4

import polars as pl
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from pipeline import schema
from pipeline.decode.kinds import COMMIT, EXPRESSION, MEMBER
from pipeline.progress import Tell
from pipeline.sources.source import InputError, Source
from pipeline.state import State
from pipeline.store import Store

PLACE = ("log_partition", "log_offset")


_CLUSTER = "_cluster.json"
"""The file below `bronze` with the cluster and the input; Spark ignores files that begin with _."""


class Cluster(NamedTuple):
    """The cluster of a bronze: its id, if known, and the input that was read first."""

    cluster_id: str | None
    origin: str


def claim_for(store: Store, cluster_id: str | None, origin: str) -> None:
    """Record that bronze is of this cluster. Raises InputError if it is of another one.

    `origin` is the input, which decides if neither bronze nor the input has a cluster id.
    """
    kept = cluster_of(store)
    if kept is None or (kept.cluster_id is not None and kept.cluster_id == cluster_id):
        if kept != (cluster_id, origin) or not store.has(store.path("bronze", _CLUSTER)):
            text = json.dumps(Cluster(cluster_id, origin))
            store.write_text(store.path("bronze", _CLUSTER), text)
    elif kept != (cluster_id, origin):
        raise InputError(
            f"--out {store.out}: its bronze is of {_named(*kept)}, and this input is of"
            f" {_named(cluster_id, origin)}: name another --out"
        )


def cluster_of(store: Store) -> Cluster | None:
    """Return the cluster of the bronze in a store; None without bronze, or if it is not recorded.

    Older versions recorded the cluster in the table `coverage` only. Raises InputError if the file
    is damaged.
    """
    path = store.path("bronze", _CLUSTER)
    try:
        text = store.read_text(path)
        if text is not None:
            return Cluster(*json.loads(text))
    except (Py4JJavaError, ValueError, TypeError) as error:
        if isinstance(error, Py4JJavaError) and "ChecksumException" not in str(error):
            raise
        raise InputError(
            f"{path} is damaged: delete it; the run then takes the cluster from the last tables"
        ) from error
    row = store.coverage_of_bronze() if store.has_bronze(schema.OFFSETS_LOG) else None
    return None if row is None else Cluster(row["cluster_id"], row["input"])


def _named(cluster_id: str | None, origin: str) -> str:
    if cluster_id is None:
        return f"a cluster without a known id ({origin}, without meta.properties)"
    return f"cluster {cluster_id} ({origin})"


def read_offsets_log(source: Source, store: Store, tell: Tell) -> None:
    """Read and store the records of the offsets log that are not stored yet."""
    starts = next_offsets(store)
    add_offsets_log(store, _new_name(), source.offsets_log(starts), starts)
    new = store.read_new(store.state())
    count, problems = new.agg(F.count("*"), F.count("problem")).first() or (0, 0)
    tell(f"offsets log: {count} records to add, {problems} of them could not be decoded")


def _new_name() -> str:
    return f"run-{uuid4().hex[:12]}"


def next_offsets(store: Store, state: State | None = None) -> dict[int, int]:
    """Return the next offset of the offsets log to read, by partition.

    `state` is the state from which to go on; by default the last one.
    """
    if not store.has_bronze(schema.OFFSETS_LOG):
        return {}  # a query on the empty frame would cost the first run some seconds
    state = state or store.state()
    new = store.read_new(state).groupBy("log_partition").agg(F.max("log_offset")).collect()
    known = {} if state is None else state.next_offsets
    return {**known, **{int(row[0]): int(row[1]) + 1 for row in new}}


def add_offsets_log(store: Store, batch: str, packed: DataFrame, starts: dict[int, int]) -> bool:
    """Store packed records from `starts` on as a batch; return False if the batch exists."""
    start = pl.col("log_partition").replace_strict(starts, default=0, return_dtype=pl.Int64)
    new = pl.col("log_offset") >= start if starts else None
    return store.add_packed_bronze(schema.OFFSETS_LOG, batch, packed, new)


def read_the_rest(source: Source, store: Store, tell: Tell) -> None:
    """Read the data that commits refer to: partition ends, then topic records and group events.

    Partition ends are stored after the records below them, so that a run that is killed in between
    leaves no log end whose records are missing: unread offsets would look as if they had no data.
    """
    commits = store.read_log(store.state()).filter(F.col("kind") == COMMIT)
    rows = commits.select("topic").filter("topic is not null").distinct().collect()
    topics = sorted(row[0] for row in rows)
    # KIP-848 assignments have topic ids. Partition ends have the names, which commits may lack.
    subscribed = _subscribed_topics(store)
    ends = source.partition_ends(sorted({*topics, *subscribed}))
    tell(f"partition ends: {len(topics)} topics that groups committed to")
    _read_topics(source, store, topics, ends)
    store.replace_bronze(schema.PARTITION_ENDS, ends)
    events = store.read_bronze(schema.GROUP_EVENTS)
    last = events.agg(F.max("event_offset")).first()
    start = 0 if last is None or last[0] is None else int(last[0]) + 1
    fetched = source.group_events(start)
    if fetched is not None:
        new = fetched.filter(F.col("event_offset") >= start)
        store.add_bronze(schema.GROUP_EVENTS, _new_name(), new)
    tell("topic records and group events: read")


def _subscribed_topics(store: Store) -> list[str]:
    """Return the topics that KIP-848 members subscribe to, by name or by regular expression."""
    log = store.read_log(store.state())
    details = log.filter(F.col("kind").isin(MEMBER, EXPRESSION)).select("details").distinct()
    paths = ("$.value.subscribedTopicNames", "$.value.topics")
    lists = F.array(
        *(F.from_json(F.get_json_object("details", path), "array<string>") for path in paths)
    )
    named = details.select(F.explode(lists).alias("names")).select(F.explode("names").alias("name"))
    return [row[0] for row in named.filter("name <> ''").distinct().collect()]


def _read_topics(source: Source, store: Store, topics: list[str], ends: DataFrame) -> None:
    if not topics:
        return
    place = ("topic", "partition")
    ends = ends.select(*place, "log_end", F.col("topic_id").alias("current_id"))
    known = _known_records(store, ends).select(*place, "next").collect()
    starts = {(str(row[0]), int(row[1])): int(row[2]) for row in known}
    new = source.topic_records(topics, starts).join(ends.drop("log_end"), [*place], "left")
    new = new.withColumn("topic_id", F.coalesce("topic_id", "current_id"))
    if known:
        begun = store.spark.createDataFrame(known, "topic string, partition int, next bigint")
        new = new.join(begun, [*place], "left").filter("next IS NULL OR offset >= next")
    store.add_bronze(schema.TOPIC_RECORDS, _new_name(), new)


def _known_records(store: Store, ends: DataFrame) -> DataFrame:
    """Return `topic`, `partition`, `next`: the next offset to read of each existing partition.

    Records of a deleted topic of the same name do not count: their topic id is another one. Records
    without an id, of an older release, count if none has the current id and their offsets are not
    above the log end. A log that was cut off has nothing to read.
    """
    place = ("topic", "partition")
    reached = store.read_bronze(schema.TOPIC_RECORDS).groupBy(*place, "topic_id")
    known = reached.agg((F.max("offset") + 1).alias("reached")).join(ends, [*place])
    own = F.col("current_id").isNull() | (F.col("topic_id") == F.col("current_id"))
    unnamed = F.col("topic_id").isNull() & (F.col("reached") <= F.col("log_end"))
    reached_by = (F.max(F.when(condition, F.col("reached"))) for condition in (own, unnamed))
    return (
        known.groupBy(*place)
        .agg(F.coalesce(*reached_by).alias("reached"), F.max("log_end").alias("log_end"))
        .filter("reached IS NOT NULL")
        .select(*place, F.least("reached", "log_end").alias("next"))
    )


def keep_spark_progress(store: Store, rows: Sequence[tuple[object, ...]]) -> None:
    """Store the progress of Spark queries, each (query, topic, partition, batch) once."""
    store.add_bronze_rows(schema.SPARK_PROGRESS, rows)
