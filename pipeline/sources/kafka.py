"""The input `--bootstrap`: a running broker, ours or Kafka's, through Spark's Kafka connector.

Records come by the connector with read_committed. What the connector does not know (ends of
partitions, retention) is asked of Kafka's admin client, which lies in the same jars.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # has none
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pipeline import schema
from pipeline.decode.frame import decode
from pipeline.sources.errors import InputError
from pipeline.sources.events import group_events
from pipeline.sources.logdir import EVENTS_TOPIC, OFFSETS_TOPIC, RETENTION
from pipeline.sources.source import PartitionOffsets

_EARLIEST = -2
_TIMEOUT_MS = 30_000
_NO_TOPIC_ID = "A" * 22
"""The id of a topic from a broker that knows none: 16 zero bytes as Kafka prints them."""
_CLEANUP = "cleanup.policy"
_BY_CONSUMER = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"


class BrokerSource:
    """A cluster behind one address. InputError when no broker answers there.

    `client_config` is a file of settings of Kafka's own clients: TLS, SASL.
    """

    def __init__(
        self,
        spark: SparkSession,
        bootstrap: str,
        records_per_trigger: int = 0,
        client_config: str | None = None,
    ) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._client = {} if client_config is None else self._load(client_config)
        self._records_per_trigger = records_per_trigger
        # By its admin client the connector leaves internal topics out; by a consumer it does not.
        spark.conf.set(_BY_CONSUMER, "true")
        self._topic_ids: dict[str, str] = {}
        self._partitions = self._ask_partitions()
        if OFFSETS_TOPIC not in self._partitions:
            raise InputError(f"--bootstrap {bootstrap}: no group has committed there yet")

    def offsets_log(self, starts: Mapping[int, int]) -> DataFrame:
        """The offsets log up to its last stable offsets of now."""
        known = {(OFFSETS_TOPIC, number): offset for number, offset in starts.items()}
        return decode(_as_raw(self._read([OFFSETS_TOPIC], known)))

    def offsets_log_stream(self) -> DataFrame:
        """The offsets log from its beginning, and on."""
        reader = self._spark.readStream.format("kafka").options(**self._options())
        if self._records_per_trigger:
            reader = reader.option("maxOffsetsPerTrigger", str(self._records_per_trigger))
        reader = reader.option("assign", self._assigned([OFFSETS_TOPIC]))
        return decode(_as_raw(reader.option("startingOffsets", "earliest").load()))

    def partition_ends(self, topics: Sequence[str]) -> DataFrame:
        """What the broker says now: first offset, high watermark, retention.ms."""
        self._partitions = self._ask_partitions()
        with self._admin() as admin:
            wanted = [
                (topic, number)
                for topic in topics
                for number in range(self._partitions.get(topic, 0))
            ]
            retentions = self._retentions(
                admin, [topic for topic in topics if topic in self._partitions]
            )
            starts = self._offsets(admin, wanted, "earliest")
            ends = self._offsets(admin, wanted, "latest")
            stable = self._offsets(admin, wanted, "latest", committed=True)
        held = self._open_transactions([place for place in wanted if stable[place] < ends[place]])
        now_ms = time.time_ns() // 1_000_000
        rows = [
            (
                *topic,
                starts[topic],
                ends[topic],
                ends[topic],
                retentions.get(topic[0]),
                now_ms,
                "broker",
                self._topic_ids.get(topic[0]),
                stable[topic],
                *held.get(topic, (None, None)),
            )
            for topic in wanted
        ]
        return self._spark.createDataFrame(rows, schema.PARTITION_ENDS.spark())

    def topic_records(self, topics: Sequence[str], starts: PartitionOffsets) -> DataFrame:
        """Place, time and size of the records that are there."""
        known = [topic for topic in topics if topic in self._partitions]
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
        )

    def group_events(self, start: int) -> DataFrame | None:
        """What our broker wrote about rebalances."""
        if EVENTS_TOPIC not in self._partitions:
            return None
        return group_events(_as_raw(self._read([EVENTS_TOPIC], {(EVENTS_TOPIC, 0): start})))

    def notes(self) -> list[str]:
        """The broker answers for its log."""
        return []

    def _options(self) -> dict[str, str]:
        return {
            **{f"kafka.{name}": value for name, value in self._client.items()},
            "kafka.bootstrap.servers": self._bootstrap,
            "kafka.isolation.level": "read_committed",
            # Compaction and retention remove records while they are read: that is no failure.
            "failOnDataLoss": "false",
        }

    def _read(self, topics: Sequence[str], starts: PartitionOffsets) -> DataFrame:
        """Records of topics from `starts` on; partitions without one from their beginning."""
        begin = {
            topic: {
                str(number): starts.get((topic, number), _EARLIEST)
                for number in range(self._partitions[topic])
            }
            for topic in topics
        }
        reader = self._spark.read.format("kafka").options(**self._options())
        reader = reader.option("assign", self._assigned(topics))
        return reader.option("startingOffsets", json.dumps(begin)).load()

    def _assigned(self, topics: Sequence[str]) -> str:
        """All partitions by their numbers: so the connector needs no group to read."""
        return json.dumps({topic: list(range(self._partitions[topic])) for topic in topics})

    @property
    def _kafka(self) -> Any:
        """Kafka's own classes, in Spark's JVM."""
        java: Any = self._spark._jvm
        return java.org.apache.kafka

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        """An admin client; InputError for what it cannot do."""
        java: Any = self._spark._jvm
        properties = java.java.util.Properties()
        for name, value in self._client.items():
            properties.setProperty(name, value)
        properties.setProperty("bootstrap.servers", self._bootstrap)
        properties.setProperty("request.timeout.ms", str(_TIMEOUT_MS // 2))
        properties.setProperty("default.api.timeout.ms", str(_TIMEOUT_MS))
        try:
            admin = self._kafka.clients.admin.Admin.create(properties)
        except (Py4JError, TypeError) as error:
            raise InputError(f"--bootstrap {self._bootstrap}: {_reason(error)}") from error
        try:
            yield admin
        except Py4JJavaError as error:
            raise InputError(f"--bootstrap {self._bootstrap}: {_reason(error)}") from error
        finally:
            admin.close()

    def _load(self, path: str) -> dict[str, str]:
        """A properties file as Kafka's own tools read it. InputError when it cannot be read."""
        java: Any = self._spark._jvm
        properties = java.java.util.Properties()
        try:
            file = java.java.io.FileInputStream(path)
            try:
                properties.load(file)
            finally:
                file.close()
        except Py4JJavaError as error:
            raise InputError(f"--client-config {path}: {_reason(error)}") from error
        return {str(name): str(properties.getProperty(name)) for name in properties}

    def _ask_partitions(self) -> dict[str, int]:
        """Number of partitions of every topic; keeps the ids of topics (KIP-516) as well."""
        with self._admin() as admin:
            options = self._kafka.clients.admin.ListTopicsOptions().listInternal(True)
            names = admin.listTopics(options).names().get()
            answer = admin.describeTopics(names).allTopicNames().get()
            ids = {str(name): str(answer[name].topicId().toString()) for name in answer}
            self._topic_ids = {name: text for name, text in ids.items() if text != _NO_TOPIC_ID}
            return {str(name): len(answer[name].partitions()) for name in answer}

    def _offsets(
        self, admin: Any, wanted: Sequence[tuple[str, int]], which: str, *, committed: bool = False
    ) -> dict[tuple[str, int], int]:
        """Earliest or latest offsets; the latest `committed` ones are last stable offsets."""
        java: Any = self._spark._jvm
        asked = java.java.util.HashMap()
        places = {}
        for topic, number in wanted:
            places[topic, number] = self._kafka.common.TopicPartition(topic, number)
            spec = getattr(self._kafka.clients.admin.OffsetSpec, which)()
            asked.put(places[topic, number], spec)
        levels = self._kafka.common.IsolationLevel
        level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
        options = self._kafka.clients.admin.ListOffsetsOptions(level)
        answer = admin.listOffsets(asked, options).all().get()
        return {key: int(answer.get(place).offset()) for key, place in places.items()}

    def _open_transactions(
        self, places: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[str, int | None]]:
        """Who holds the last stable offset of each partition, and since when (KIP-664).

        A place is missing where the principal may not ask, or the transaction ended meanwhile.
        """
        java: Any = self._spark._jvm
        held: dict[tuple[str, int], tuple[str, int | None]] = {}
        for topic, number in places:
            asked = java.java.util.ArrayList()
            asked.add(self._kafka.common.TopicPartition(topic, number))
            try:
                with self._admin() as admin:
                    states = admin.describeProducers(asked).all().get().get(asked[0])
                    open_ones = [
                        (int(state.currentTransactionStartOffset().getAsLong()), state)
                        for state in states.activeProducers()
                        if state.currentTransactionStartOffset().isPresent()
                    ]
                    if open_ones:
                        _, first = min(open_ones, key=lambda pair: pair[0])
                        held[topic, number] = self._holder(admin, first)
            except InputError:
                continue
        return held

    def _holder(self, admin: Any, producer: Any) -> tuple[str, int | None]:
        """Transactional id and begin of a producer's transaction; else its id, last record."""
        java: Any = self._spark._jvm
        try:
            # Filtered here: py4j makes Integers of ids, over which the admin client falls silent.
            for listing in admin.listTransactions().all().get():
                if listing.producerId() != producer.producerId():
                    continue
                name = str(listing.transactionalId())
                asked = java.java.util.Collections.singleton(name)
                told = admin.describeTransactions(asked).all().get().get(name)
                since = told.transactionStartTimeMs()
                if since.isPresent():
                    return name, int(since.getAsLong())
        except Py4JJavaError:  # needs Describe on the transactional id
            pass
        return f"producer {producer.producerId()}", int(producer.lastTimestamp())

    def _retentions(self, admin: Any, topics: Sequence[str]) -> dict[str, int]:
        """retention.ms of topics that delete by it."""
        java: Any = self._spark._jvm
        asked = java.java.util.ArrayList()
        kind = getattr(self._kafka.common.config, "ConfigResource$Type").TOPIC
        resources = {
            topic: self._kafka.common.config.ConfigResource(kind, topic) for topic in topics
        }
        for resource in resources.values():
            asked.add(resource)
        answer = admin.describeConfigs(asked).all().get()
        retentions = {}
        for topic, resource in resources.items():
            config = answer.get(resource)
            policy, entry = config.get(_CLEANUP), config.get(RETENTION)
            if entry is None or (policy is not None and "delete" not in policy.value()):
                continue
            if int(entry.value()) >= 0:
                retentions[topic] = int(entry.value())
        return retentions


def _as_raw(read: DataFrame) -> DataFrame:
    """The connector's columns -> `schema.RAW`."""
    stamp = F.unix_millis("timestamp")
    return read.select(
        F.col("partition").alias("log_partition"),
        F.col("offset").alias("log_offset"),
        F.when(stamp >= 0, stamp).alias("log_timestamp_ms"),
        "key",
        "value",
        F.lit(None).cast("string").alias("damage"),
    )


def _reason(error: Exception) -> str:
    """The innermost message of a Java error, else the error's own first line."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.getMessage())
    return str(error).splitlines()[0]
