"""The input `--bootstrap-server`: a running broker, ours or Kafka's, by Spark's Kafka connector.

The connector reads records with read_committed. `pipeline.sources.admin` supplies everything else,
with an admin client whose classes are in the connector's jars.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from pipeline import schema
from pipeline.decode.frame import decode
from pipeline.sources.admin import TIMEOUT_MS, ClusterAdmin, reason_of
from pipeline.sources.events import group_events
from pipeline.sources.logdir import EVENTS_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC
from pipeline.sources.share_state import share_state
from pipeline.sources.source import NO_HOLDER, InputError, PartitionOffsets

_EARLIEST = -2
_CHECK_TIMEOUT_MS = 10_000
_BY_CONSUMER = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


class BrokerSource:
    """A running cluster. Raises InputError if no broker answers.

    `client_config` is a file with settings of Kafka's own clients (TLS, SASL).
    """

    def __init__(
        self,
        spark: SparkSession,
        bootstrap: str,
        records_per_trigger: int = 0,
        client_config: str | None = None,
    ) -> None:
        self._spark = spark
        self.input = bootstrap
        self._client = {} if client_config is None else self._load(client_config)
        self._records_per_trigger = records_per_trigger
        # With its admin client the connector omits internal topics; with a consumer it does not.
        spark.conf.set(_BY_CONSUMER, "true")
        self._notes: list[str] = []
        self._unread: set[tuple[str, int]] = set()
        with self._admin() as admin:
            self._topics = admin.topics()
            self.cluster_id = admin.cluster_id()
        if OFFSETS_TOPIC not in self._topics:
            raise InputError(
                f"--bootstrap-server {bootstrap}: no group has committed there yet, or the right to"
                f" read {OFFSETS_TOPIC} is missing"
            )

    def offsets_log(self, starts: Mapping[int, int]) -> DataFrame:
        """Return the offsets log up to its current last stable offsets."""
        known = {(OFFSETS_TOPIC, number): offset for number, offset in starts.items()}
        return decode(_as_raw(self._read([OFFSETS_TOPIC], known)))

    def offsets_log_stream(self) -> DataFrame:
        """Return the offsets log as an endless stream from its beginning."""
        reader = self._spark.readStream.format("kafka").options(**self._options())
        if self._records_per_trigger:
            reader = reader.option("maxOffsetsPerTrigger", str(self._records_per_trigger))
        reader = reader.option("assign", self._assigned([OFFSETS_TOPIC]))
        return decode(_as_raw(reader.option("startingOffsets", "earliest").load()))

    def partition_ends(self, topics: Sequence[str]) -> DataFrame:
        """Return the current log starts and ends, retention.ms and open transactions."""
        with self._admin() as admin:
            self._topics = admin.topics()
            wanted = [
                (topic, number)
                for topic in topics
                if topic in self._topics
                for number in range(self._topics[topic].partitions)
            ]
            retentions = admin.retentions([topic for topic in topics if topic in self._topics])
            starts = admin.offsets(wanted, "earliest")
            ends = admin.offsets(list(starts), "latest")
            stable = admin.offsets(list(ends), "latest", committed=True)
            holders = admin.holders([place for place in stable if stable[place] < ends[place]])
            self._notes = admin.notes
        self._unread = {place for place in wanted if place not in stable}
        now_ms = time.time_ns() // 1_000_000
        rows = [
            (
                *place,
                starts.get(place),
                ends.get(place),
                ends.get(place),
                retentions.get(place[0]),
                now_ms,
                "broker",
                self._topics[place[0]].topic_id,
                stable.get(place),
                *holders.get(place, NO_HOLDER),
                None,
                None,
            )
            for place in wanted
        ]
        return self._spark.createDataFrame(rows, schema.PARTITION_ENDS.spark())

    def topic_records(self, topics: Sequence[str], starts: PartitionOffsets) -> DataFrame:
        """Return offset, time and size of the existing records."""
        known = [topic for topic in topics if topic in self._topics and self._numbers(topic)]
        if not known:
            return self._spark.createDataFrame([], schema.TOPIC_RECORDS.spark())
        size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
        stamp = F.unix_millis("timestamp")
        return self._read(known, starts).select(
            "topic",
            "partition",
            "offset",
            F.when(stamp >= 0, stamp).alias("timestamp_ms"),
            size.cast("int").alias("record_bytes"),
            F.lit(None).cast("string").alias("topic_id"),
            F.lit(None).cast("bigint").alias("from_ms"),
        )

    @contextmanager
    def times(self) -> Iterator[ClusterAdmin]:
        """Return the cluster's answers about times, from ListOffsets."""
        with self._admin() as admin:
            yield admin
            self._notes = [*self._notes, *admin.notes]

    def share_state(self, starts: Mapping[int, int]) -> DataFrame | None:
        """Return the state of share partitions; None without such a topic."""
        if SHARE_TOPIC not in self._topics:
            return None
        known = {(SHARE_TOPIC, number): offset for number, offset in starts.items()}
        return share_state(_as_raw(self._read([SHARE_TOPIC], known)))

    def topic_names(self) -> dict[str, str]:
        """Return the name of each topic by its id."""
        with self._admin() as admin:
            self._topics = admin.topics()
        ids = {facts.topic_id: name for name, facts in self._topics.items()}
        return {topic_id: name for topic_id, name in ids.items() if topic_id is not None}

    def group_events(self, start: int) -> DataFrame | None:
        """Return the rebalances that this project's broker recorded; None without such a topic."""
        if EVENTS_TOPIC not in self._topics:
            return None
        return group_events(_as_raw(self._read([EVENTS_TOPIC], {(EVENTS_TOPIC, 0): start})))

    def notes(self) -> list[str]:
        """Return the refusals of the cluster, with their reasons."""
        return self._notes

    def _options(self) -> dict[str, str]:
        return {
            **{f"kafka.{name}": value for name, value in self._client.items()},
            "kafka.bootstrap.servers": self.input,
            "kafka.isolation.level": "read_committed",
            # Compaction and retention may remove records during a read; this is not an error.
            "failOnDataLoss": "false",
        }

    def _read(self, topics: Sequence[str], starts: PartitionOffsets) -> DataFrame:
        """Read topics from `starts` on; a partition without a start is read from its beginning.

        Partitions whose ends are not known are left out: the connector would wait for a leader.
        """
        begin = {
            topic: {
                str(number): starts.get((topic, number), _EARLIEST)
                for number in self._numbers(topic)
            }
            for topic in topics
        }
        reader = self._spark.read.format("kafka").options(**self._options())
        reader = reader.option("assign", self._assigned(topics))
        return reader.option("startingOffsets", json.dumps(begin)).load()

    def _assigned(self, topics: Sequence[str]) -> str:
        """Return all partitions by number: an assignment needs no consumer group."""
        return json.dumps({topic: self._numbers(topic) for topic in topics})

    def _numbers(self, topic: str) -> list[int]:
        numbers = range(self._topics[topic].partitions)
        return [number for number in numbers if (topic, number) not in self._unread]

    def check(self) -> None:
        """Raise InputError unless the cluster answers within ten seconds."""
        with self._admin(_CHECK_TIMEOUT_MS) as admin:
            admin.cluster_id()

    def _admin(self, timeout_ms: int = TIMEOUT_MS) -> ClusterAdmin:
        settings = {**self._client, "bootstrap.servers": self.input}
        return ClusterAdmin(self._spark._jvm, settings, timeout_ms)

    def _load(self, path: str) -> dict[str, str]:
        """Read a properties file with Java, as Kafka's tools do. Raises InputError."""
        java: Any = self._spark._jvm
        properties = java.java.util.Properties()
        try:
            file = java.java.io.FileInputStream(path)
            try:
                properties.load(file)
            finally:
                file.close()
        except Py4JJavaError as error:
            raise InputError(f"--client-config {path}: {reason_of(error)[1]}") from error
        return {str(name): str(properties.getProperty(name)) for name in properties}


def _as_raw(read: DataFrame) -> DataFrame:
    """Convert the connector's columns to `schema.RAW`."""
    stamp = F.unix_millis("timestamp")
    return read.select(
        F.col("partition").alias("log_partition"),
        F.col("offset").alias("log_offset"),
        F.when(stamp >= 0, stamp).alias("log_timestamp_ms"),
        "key",
        "value",
        F.lit(None).cast("string").alias("damage"),
    )
