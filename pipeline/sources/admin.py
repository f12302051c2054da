"""Kafka's admin client in Spark's JVM, for facts that the connector does not give.

These are topics and their ids, partition ends, retention, and the open transactions that hold back
read_committed consumers (KIP-664). docs/pipeline.md lists the rights that the requests need.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # no stubs

from pipeline.sources.logdir import EVENTS_TOPIC, RETENTION
from pipeline.sources.sampling import Fetched, Found, Place
from pipeline.sources.source import Holder, InputError, is_outage

TIMEOUT_MS = 30_000
_READ_TIMEOUT_MS = 5_000
_POLL_MS = 500
_FETCH_BYTES = 16_384
_NO_TOPIC_ID = "A" * 22
"""The topic id from a broker without topic ids: 16 zero bytes in Kafka's text form."""
_CLEANUP = "cleanup.policy"
_GONE = "UnknownTopicOrPartitionException"
_NAMED = 3


class ClusterError(InputError):
    """The cluster refused a request; `kind` is the simple name of Kafka's exception class."""

    def __init__(self, bootstrap: str, kind: str, reason: str) -> None:
        super().__init__(f"--bootstrap-server {bootstrap}: {reason}")
        self.kind = kind
        self.reason = f"{kind}: {reason}"


class TopicFacts(NamedTuple):
    """A topic's number of partitions, and its id (KIP-516) in Kafka's text form, if it has one."""

    partitions: int
    topic_id: str | None


class ClusterAdmin:
    """An admin client, to be used in a `with` statement, which closes it.

    Raises ClusterError if the cluster does not answer or refuses a whole request. If it refuses
    part of a request, the rest is returned, and `notes` says what is missing and why.
    """

    def __init__(
        self, java: Any, settings: Mapping[str, str], timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self._java = java
        self._settings = settings
        self._bootstrap = settings["bootstrap.servers"]
        self._missing: dict[str, list[str]] = {}
        self.fetched_bytes = 0
        limits = {
            "request.timeout.ms": str(timeout_ms // 2),
            "default.api.timeout.ms": str(timeout_ms),
        }
        try:
            self._client = self._kafka.clients.admin.Admin.create(self._properties(limits))
        except (Py4JError, TypeError) as error:
            raise self._refused(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def notes(self) -> list[str]:
        """Return one line for each reason for which the cluster refused requests."""
        return [f"{_several(names)}: {reason}" for reason, names in self._missing.items()]

    def cluster_id(self) -> str | None:
        """Return the cluster's id; None from a broker without one."""
        cluster_id = self._get(self._client.describeCluster().clusterId())
        return None if cluster_id is None else str(cluster_id)

    def topics(self) -> dict[str, TopicFacts]:
        """Return every topic that the principal may see, including internal topics.

        `EVENTS_TOPIC` is requested by name, since this project's broker does not list it.
        """
        options = self._kafka.clients.admin.ListTopicsOptions().listInternal(True)
        names = self._java.java.util.HashSet(self._get(self._client.listTopics(options).names()))
        is_listed = not names.add(EVENTS_TOPIC)
        answers = self._client.describeTopics(names).topicNameValues()
        topics = {}
        for name in names:
            try:
                answer = self._get(answers.get(name))
            except ClusterError as error:
                # The topic was deleted after the listing, or the principal may not see it.
                if error.kind == _GONE or (name == EVENTS_TOPIC and not is_listed):
                    continue
                raise
            topic_id = str(answer.topicId().toString())
            known_id = None if topic_id == _NO_TOPIC_ID else topic_id
            topics[str(name)] = TopicFacts(len(answer.partitions()), known_id)
        return topics

    def offsets(
        self, places: Sequence[Place], which: str, *, committed: bool = False
    ) -> dict[Place, int]:
        """Return `earliest` or `latest` offsets; `latest` with `committed`: last stable offsets.

        A partition without a leader is missing, and named in `notes`. Raises ClusterError if no
        partition has offsets.
        """
        spec = getattr(self._kafka.clients.admin.OffsetSpec, which)()
        listed, outages = self._listed(dict.fromkeys(places, spec), committed=committed)
        for place, outage in outages.items():
            if not listed:
                raise outage
            self._miss(_text(place), f"the log end is not known: {outage.reason}", outage)
        return {place: int(result.offset()) for place, result in listed.items()}

    def _listed(
        self, asked: Mapping[Place, Any], *, committed: bool
    ) -> tuple[dict[Place, Any], dict[Place, ClusterError]]:
        """Return ListOffsets' results for a specification per partition, and the outages.

        A partition of a deleted topic is in neither. Raises ClusterError for other errors.
        """
        specs = self._java.java.util.HashMap()
        keys = {place: self._kafka.common.TopicPartition(*place) for place in asked}
        for place, key in keys.items():
            specs.put(key, asked[place])
        levels = self._kafka.common.IsolationLevel
        level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
        options = self._kafka.clients.admin.ListOffsetsOptions(level)
        answer = self._client.listOffsets(specs, options)
        results: dict[Place, Any] = {}
        outages: dict[Place, ClusterError] = {}
        for place, key in keys.items():
            try:
                results[place] = self._get(answer.partitionResult(key))
            except ClusterError as error:
                if is_outage(error):
                    outages[place] = error
                elif error.kind != _GONE:
                    raise
        return results, outages

    def since(self, asked: Mapping[Place, int]) -> dict[Place, Found | None]:
        """Return the first committed record at or after a time; None if all records are older.

        A partition without a leader is missing.
        """
        make = self._kafka.clients.admin.OffsetSpec.forTimestamp
        return self._found({place: make(time_ms) for place, time_ms in asked.items()})

    def last(self, places: Iterable[Place]) -> dict[Place, Found | None]:
        """Return the record with the greatest timestamp of each partition (Kafka 3.0 and newer)."""
        try:
            spec = self._kafka.clients.admin.OffsetSpec.maxTimestamp()
            return self._found(dict.fromkeys(places, spec))
        except ClusterError as error:
            if error.kind != "UnsupportedVersionException":
                raise
            return {}

    def _found(self, asked: Mapping[Place, Any]) -> dict[Place, Found | None]:
        if not asked:
            return {}
        results = self._listed(asked, committed=True)[0].items()
        records = {
            place: Found(int(result.offset()), int(result.timestamp())) for place, result in results
        }
        return {place: record if min(record) >= 0 else None for place, record in records.items()}

    def fetch(self, starts: Mapping[Place, int]) -> dict[Place, Fetched | None]:
        """Return the first committed record at or after each start; None without one.

        A partition is missing if its records could not be read within `_READ_TIMEOUT_MS`; `notes`
        has the reason if the cluster refused to return them.
        """
        consumer = self._consumer(committed=True)
        keys = {place: self._kafka.common.TopicPartition(*place) for place in starts}
        done: dict[Place, Fetched | None] = {}
        try:
            self._assign(consumer, {keys[place]: start for place, start in starts.items()})
            stable = consumer.endOffsets(consumer.assignment())
            deadline = time.monotonic() + _READ_TIMEOUT_MS / 1000
            while len(done) < len(keys) and time.monotonic() < deadline:
                records = consumer.poll(self._java.java.time.Duration.ofMillis(_POLL_MS))
                for place in keys.keys() - done.keys():
                    read = records.records(keys[place])
                    if len(read):
                        done[place] = _fetched(read[0])
                    elif consumer.position(keys[place]) >= stable[keys[place]]:
                        done[place] = None
                consumer.pause(self._listed_keys(keys[place] for place in done))
        except Py4JJavaError as error:
            why = f"the age of its oldest unread record is not exact: {self._refused(error).reason}"
            self._missing.setdefault(why, []).extend(map(_text, starts))
        finally:
            self.fetched_bytes += self._consumed_bytes(consumer)
            consumer.close()
        return done

    def _consumed_bytes(self, consumer: Any) -> int:
        """Return the bytes of the records that a consumer fetched, from its metrics."""
        for metric in consumer.metrics().values():
            name = metric.metricName()
            if name.name() == "bytes-consumed-total" and not name.tags().containsKey("topic"):
                return int(metric.metricValue())
        return 0

    def _consumer(self, *, committed: bool) -> Any:
        """Return a consumer of small fetches that has no group."""
        reader = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        settings = {
            "key.deserializer": reader,
            "value.deserializer": reader,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "max.partition.fetch.bytes": str(_FETCH_BYTES),
        }
        return self._kafka.clients.consumer.KafkaConsumer(self._properties(settings))

    def _assign(self, consumer: Any, starts: Mapping[Any, int]) -> None:
        consumer.assign(self._listed_keys(starts))
        for key, offset in starts.items():
            consumer.seek(key, offset)

    def _listed_keys(self, keys: Iterable[Any]) -> Any:
        listed = self._java.java.util.ArrayList()
        for key in keys:
            listed.add(key)
        return listed

    def retentions(self, topics: Sequence[str]) -> dict[str, int]:
        """Return `retention.ms` of the topics that have the cleanup policy `delete`."""
        asked = self._java.java.util.ArrayList()
        kind = getattr(self._kafka.common.config, "ConfigResource$Type").TOPIC
        resources = {name: self._kafka.common.config.ConfigResource(kind, name) for name in topics}
        for resource in resources.values():
            asked.add(resource)
        answers = self._client.describeConfigs(asked).values()
        retentions = {}
        for topic, resource in resources.items():
            try:
                config = self._get(answers.get(resource))
            except ClusterError as error:
                self._miss(topic, f"{RETENTION} is not known: {error.reason}", error)
                continue
            policy, entry = config.get(_CLEANUP), config.get(RETENTION)
            if entry is None or (policy is not None and "delete" not in policy.value()):
                continue
            if int(entry.value()) >= 0:
                retentions[topic] = int(entry.value())
        return retentions

    def holders(self, places: Sequence[Place]) -> dict[Place, Holder]:
        """Return the open transaction at the last stable offset of each partition.

        A partition is missing if its transaction has ended since, or for a reason in `notes`.
        """
        if not places:
            return {}
        first = self._first_open(places)
        ids = {int(producer.producerId()) for _, producer in first.values()}
        names = self._transactional_ids(ids) if ids else {}
        begun = {name: self._begin_ms(name) for name in sorted(set(names.values()))}
        holders = {}
        for place, (offset, producer) in first.items():
            producer_id = int(producer.producerId())
            name = names.get(producer_id)
            since_ms = None if name is None else begun[name]
            if name is None:
                self._missing.setdefault(
                    f"no coordinator lists a transaction of producer {producer_id}: the"
                    " transaction hangs (KIP-664), or the right Describe on its transactional id"
                    " is missing",
                    [],
                ).append(_text(place))
            if since_ms is None:
                since_ms = self._written_ms(place, offset)
            holders[place] = Holder(name or f"producer {producer_id}", since_ms)
        return holders

    def _first_open(self, places: Sequence[Place]) -> dict[Place, tuple[int, Any]]:
        """Return first offset and producer of the oldest open transaction of each partition."""
        asked = self._java.java.util.ArrayList()
        for place in places:
            asked.add(self._kafka.common.TopicPartition(*place))
        answer = self._client.describeProducers(asked)
        first: dict[Place, tuple[int, Any]] = {}
        for place, key in zip(places, asked, strict=True):
            try:
                producers = self._get(answer.partitionResult(key)).activeProducers()
            except ClusterError as error:
                why = f"who holds its records back is not known: {error.reason}"
                self._miss(_text(place), why, error)
                continue
            starts = [(state.currentTransactionStartOffset(), state) for state in producers]
            begun = [
                (int(start.getAsLong()), state) for start, state in starts if start.isPresent()
            ]
            if begun:
                first[place] = min(begun, key=lambda pair: pair[0])
        return first

    def _transactional_ids(self, producer_ids: set[int]) -> dict[int, str]:
        """Return the transactional ids of producers that coordinators list."""
        try:
            # Do not filter in the request: py4j passes ids as Integers, not Longs, and the admin
            # client then never answers.
            listings = self._get(self._client.listTransactions().all())
        except ClusterError as error:
            self._miss("transactional ids", f"not known: {error.reason}", error)
            return {}
        return {
            int(listing.producerId()): str(listing.transactionalId())
            for listing in listings
            if int(listing.producerId()) in producer_ids
        }

    def _begin_ms(self, name: str) -> int | None:
        """Return when the open transaction of a transactional id began; None without one."""
        asked = self._java.java.util.Collections.singleton(name)
        try:
            answer = self._get(self._client.describeTransactions(asked).description(name))
        except ClusterError as error:
            self._miss(name, f"the begin of its transaction is not known: {error.reason}", error)
            return None
        since = answer.transactionStartTimeMs()
        return int(since.getAsLong()) if since.isPresent() else None

    def _written_ms(self, place: Place, offset: int) -> int | None:
        """Return the timestamp of the record at an offset, committed or not; None if not found."""
        consumer = self._consumer(committed=False)
        key = self._kafka.common.TopicPartition(*place)
        try:
            self._assign(consumer, {key: offset})
            deadline = time.monotonic() + _READ_TIMEOUT_MS / 1000
            while time.monotonic() < deadline:
                wait = self._java.java.time.Duration.ofMillis(_POLL_MS)
                for record in consumer.poll(wait).records(key):
                    return int(record.timestamp()) if record.timestamp() >= 0 else None
        except Py4JJavaError as error:
            why = f"the begin of its transaction is not known: {self._refused(error).reason}"
            self._missing.setdefault(why, []).append(_text(place))
        finally:
            consumer.close()
        return None

    @property
    def _kafka(self) -> Any:
        """Return the Java package `org.apache.kafka`."""
        return self._java.org.apache.kafka

    def _properties(self, more: Mapping[str, str]) -> Any:
        properties = self._java.java.util.Properties()
        for name, value in {**self._settings, **more}.items():
            properties.setProperty(name, value)
        return properties

    def _get(self, future: Any) -> Any:
        try:
            return future.get()
        except Py4JJavaError as error:
            raise self._refused(error) from error

    def _miss(self, name: str, why: str, error: ClusterError) -> None:
        """Add to the notes, except if the topic or transactional id no longer exists."""
        if error.kind not in (_GONE, "TransactionalIdNotFoundException"):
            self._missing.setdefault(why, []).append(name)

    def _refused(self, error: Exception) -> ClusterError:
        return ClusterError(self._bootstrap, *reason_of(error))


def reason_of(error: Exception) -> tuple[str, str]:
    """Return class and message of a Java error's innermost cause, or of a Python error."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.getClass().getSimpleName()), str(cause.getMessage())
    return type(error).__name__, str(error).splitlines()[0]


def _fetched(record: Any) -> Fetched:
    sizes = (int(record.serializedKeySize()), int(record.serializedValueSize()))
    return Fetched(int(record.offset()), int(record.timestamp()), sum(max(0, n) for n in sizes))


def _text(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def _several(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
