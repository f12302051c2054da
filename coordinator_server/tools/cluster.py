"""One Kafka cluster, accessed by `promote` and `import` through kafka-python.

kafka-python comes with the extra `[migrate]`. The tools use kafka-python and not confluent-kafka
because kafka-python returns the metadata of committed offsets unchanged and keeps timestamps of 0
and below.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import kafka
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType
from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NoError,
    NotCoordinatorError,
    for_code,
)
from kafka.serializer import Serializer
from kafka.structs import OffsetAndMetadata, TopicPartition

from coordinator_server.tools.own_requests import ask_coordinator, is_served, served_versions
from coordinator_server.topics.names import INTERNAL_TOPICS
from protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from protocol.schema import Message

INCREMENTAL_ALTER_CONFIGS = 44  # the API key of IncrementalAlterConfigs
# Internal topics, which are not copied.
LEFT_OUT = INTERNAL_TOPICS | {"__cluster_metadata"}
# Share groups are excluded: their start offsets are read and written through other APIs.
GROUP_TYPES = frozenset(("", "classic", "consumer", "streams"))
# Larger than any record, so that batches written by other producers fit as well.
REQUEST_BYTES = 100 << 20
FETCH_BYTES = 8 << 20
BATCH_BYTES = 512 << 10
IDLE_POLLS = 30
PATIENCE_SECONDS = 30.0
RETRY_SECONDS = 0.2
COORDINATOR_ERRORS = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)
POLL_MS = 1000
TOPIC, GROUP = ConfigResourceType.TOPIC, ConfigResourceType.GROUP
# The first version of ListConfigResources that lists other resources than client metrics
# (KIP-1142).
LIST_CONFIG_RESOURCES, LISTS_GROUPS = 74, 1


class MigrationError(Exception):
    """Topics and groups cannot be moved. The message is shown to the user."""


class ClusterTopic(NamedTuple):
    """A topic: its partition count and its own settings."""

    name: str
    partition_count: int
    configs: dict[str, str]


class ClusterRecord(NamedTuple):
    """A record with the fields that must be the same in the target cluster."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def same_as(self, other: ClusterRecord) -> bool:
        """Return whether all fields except the offset are equal."""
        return self[1:] == other[1:]


class _Null(Serializer):  # type: ignore[misc]  # kafka-python ships no types
    """Passes null values through; kafka-python refuses a record without key and value."""

    VALUE = object()

    def serialize(self, topic: str, headers: Sequence[tuple[str, bytes]], data: object) -> object:
        """Return the bytes, or None for the VALUE marker."""
        return None if data is self.VALUE else data


class KafkaCluster:
    """A Kafka cluster; `client_config` holds kafka-python's security settings."""

    def __init__(self, bootstrap: str, client_config: Mapping[str, Any]) -> None:
        # kafka-python's connection warnings would appear between the progress lines.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self.bootstrap = bootstrap
        self._common = {"bootstrap_servers": bootstrap, **client_config}
        try:
            self.admin = kafka.KafkaAdminClient(**self._common)
            self._consumer = kafka.KafkaConsumer(
                **self._common,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                allow_auto_create_topics=False,
                check_crcs=False,  # contents are compared byte by byte afterwards
                fetch_max_wait_ms=200,
                max_poll_records=5000,
                max_partition_fetch_bytes=FETCH_BYTES,
                receive_message_max_bytes=2 * REQUEST_BYTES,
            )
        except (KafkaError, OSError, ValueError) as error:
            raise MigrationError(f"{bootstrap}: no connection: {error}") from error
        self.can_alter = INCREMENTAL_ALTER_CONFIGS in served_versions(self.admin)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
        self.admin.close()

    # --- topics -----------------------------------------------------------------------------------

    def topics(self) -> dict[str, ClusterTopic]:
        """Return all topics except internal ones, by name."""
        topics = {}
        for described in self.admin.describe_topics():
            name = described["name"]
            if name not in LEFT_OUT and not described.get("error_code"):
                count = len(described["partitions"])
                topics[name] = ClusterTopic(name, count, self.configs(name))
        return topics

    def configs(self, name: str, kind: ConfigResourceType = TOPIC) -> dict[str, str]:
        """Return the settings of a topic or group that override the inherited ones."""
        described = self._describe(name, kind, "modified")
        own = {f"DYNAMIC_{kind.name}_CONFIG", "UNKNOWN"}
        return {
            config_name: str(config["value"])
            for config_name, config in described.items()
            if config["config_source"] in own and config["value"] is not None
        }

    def known_configs(self, name: str, kind: ConfigResourceType = TOPIC) -> set[str]:
        """Return the names of all settings that this cluster supports for topics or groups."""
        return set(self._describe(name, kind, "all"))

    def _describe(self, name: str, kind: ConfigResourceType, which: str) -> dict[str, Any]:
        answer = self.admin.describe_configs([ConfigResource(kind, name)], config_filter=which)
        configs: dict[str, Any] = answer[kind.name.lower()][name]
        return configs

    def create(
        self, topic: ClusterTopic, configs: Mapping[str, str], replication_factor: int
    ) -> None:
        """Create a topic and wait until the topic can be used. Raises MigrationError."""
        options = {
            "num_partitions": topic.partition_count,
            "replication_factor": replication_factor,
            "configs": dict(configs),
        }
        try:
            self.admin.create_topics({topic.name: options}, wait_for_metadata=True)
        except KafkaError as error:
            raise MigrationError(f"{topic.name} cannot be created: {error}") from error

    def set_configs(
        self,
        resource_name: str,
        now: Mapping[str, str],
        wanted: Mapping[str, str],
        kind: ConfigResourceType = TOPIC,
    ) -> None:
        """Change the settings of a topic or group from `now` to `wanted`. Raises MigrationError."""
        changes: dict[str, tuple[AlterConfigOp, str | None]] = {
            name: (AlterConfigOp.SET, value)
            for name, value in wanted.items()
            if now.get(name) != value
        }
        changes |= {name: (AlterConfigOp.DELETE, None) for name in now if name not in wanted}
        if not changes:
            return
        resource = ConfigResource(kind, resource_name, changes)
        answer = self.admin.alter_configs([resource], raise_on_unknown=False, incremental=True)
        result = answer[kind.name.lower()][resource_name]
        if result != "OK":
            raise MigrationError(f"settings of {resource_name} cannot be changed: {result}")

    # --- records ----------------------------------------------------------------------------------

    def ends(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the log start offset and the end offset that consumers can read up to."""
        first = self._consumer.beginning_offsets([partition])[partition]
        end = self._consumer.end_offsets([partition])[partition]
        return int(first), int(end)

    def records(self, partition: TopicPartition, start: int, end: int) -> Iterator[ClusterRecord]:
        """Yield the records of a partition between two offsets, without aborted ones.

        Only one such iterator can be used at a time per cluster. Raises MigrationError if the
        cluster stops returning records.
        """
        consumer = self._consumer
        consumer.assign([partition])
        consumer.seek(partition, start)
        idle = 0
        while (position := consumer.position(partition)) < end:
            batch = consumer.poll(POLL_MS).get(partition, ())
            for record in batch:
                if record.offset < end:
                    headers = tuple((name, value) for name, value in record.headers)
                    yield ClusterRecord(
                        record.offset, record.timestamp, record.key, record.value, headers
                    )
            idle = 0 if batch or consumer.position(partition) > position else idle + 1
            if idle > IDLE_POLLS:
                raise MigrationError(f"{self.bootstrap}: {partition} gives nothing at {position}")

    def producer(self) -> KafkaProducer:
        """Return a new producer for this cluster."""
        return KafkaProducer(self._common)

    # --- groups -----------------------------------------------------------------------------------

    def group_offsets(self) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the committed offsets of all groups except share groups."""
        committed: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        for name in self._groups(GROUP_TYPES):
            offsets = patiently(partial(self.admin.list_group_offsets, [name]))[name]
            committed[name] = {
                place: offset for place, offset in offsets.items() if offset.offset >= 0
            }
        return committed

    def _groups(self, types: Container[str]) -> list[str]:
        return [
            listing["group_id"]
            for listing in patiently(self.admin.list_groups)
            if str(listing.get("group_type") or "").lower() in types
        ]

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, str]:
        """Commit offsets of a group without members; return the errors by partition."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            results = patiently(partial(self.admin.alter_group_offsets, group, dict(offsets)))
            failed = {
                place: error.__name__ for place, error in results.items() if error is not NoError
            }
            if time.monotonic() > end or not all(
                issubclass(result, COORDINATOR_ERRORS) for result in results.values()
            ):
                return failed
            time.sleep(RETRY_SECONDS)

    # --- share groups -----------------------------------------------------------------------------

    def share_offsets(self) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the start offsets of all share groups, by group and partition."""
        if not is_served(self.admin, "DescribeShareGroupOffsets"):
            return {}
        return {name: self._share_offsets_of(name) for name in self._groups(("share",))}

    def _share_offsets_of(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        request = DescribeShareGroupOffsetsRequest(groups=[asked])
        (answer,) = self._ask_share(group, request, lambda response: response.groups[0]).groups
        if answer.error_code:
            raise MigrationError(f"share group {group}: {for_code(answer.error_code).__name__}")
        return {
            TopicPartition(topic.topic_name, partition.partition_index): OffsetAndMetadata(
                partition.start_offset, "", -1
            )
            for topic in answer.topics
            for partition in topic.partitions
            if partition.start_offset >= 0
        }

    def alter_share_offsets(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, str]:
        """Set the start offsets of a share group without members; the group is created if missing.

        Returns the error of each partition that failed.
        """
        if not is_served(self.admin, "AlterShareGroupOffsets"):
            return dict.fromkeys(offsets, "UnsupportedVersionError")
        partitions: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
        for place, offset in offsets.items():
            partitions.setdefault(place.topic, []).append(
                AlterShareGroupOffsetsRequestPartition(
                    partition_index=place.partition, start_offset=offset.offset
                )
            )
        topics = [
            AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=altered)
            for name, altered in partitions.items()
        ]
        request = AlterShareGroupOffsetsRequest(group_id=group, topics=topics)
        answer = self._ask_share(group, request, lambda response: response)
        if answer.error_code:
            return dict.fromkeys(offsets, for_code(answer.error_code).__name__)
        return {
            TopicPartition(topic.topic_name, partition.partition_index): for_code(
                partition.error_code
            ).__name__
            for topic in answer.responses
            for partition in topic.partitions
            if partition.error_code
        }

    def _ask_share(self, group: str, request: Message, failed: Callable[[Any], Any]) -> Any:
        """Return the coordinator's response; `failed` selects the part with the group's error."""

        def ask() -> Any:
            answer = ask_coordinator(self.admin, group, request)
            error = for_code(failed(answer).error_code)
            if issubclass(error, COORDINATOR_ERRORS):
                raise error
            return answer

        return patiently(ask)

    # --- group configs ----------------------------------------------------------------------------

    def group_configs(self) -> dict[str, dict[str, str]]:
        """Return the group configs, including configs of groups that do not exist.

        Raises ClusterAuthorizationFailedError.
        """
        _, newest = served_versions(self.admin).get(LIST_CONFIG_RESOURCES, (0, 0))
        if newest < LISTS_GROUPS:
            return {}
        listed = self.admin.list_config_resources([GROUP]).get("group", ())
        return {name: self.configs(name, GROUP) for name in listed}


def patiently(ask: Callable[[], Any]) -> Any:
    """Call `ask` until it succeeds and return its result.

    Retries while the cluster creates its offsets topic or moves a coordinator: COORDINATOR_ERRORS
    are raised only after PATIENCE_SECONDS, other errors at once.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except COORDINATOR_ERRORS:
            if time.monotonic() > end:
                raise
            time.sleep(RETRY_SECONDS)


class Interrupts:
    """Defers Ctrl-C while `held`, because SIGINT may arrive between any two steps.

    An interrupted kafka-python would keep a batch with a partial record and would send that batch.
    """

    def __init__(self) -> None:
        self._is_held = self._has_come = False
        self._before = signal.signal(signal.SIGINT, self._on_signal)

    def close(self) -> None:
        """Restore the previous SIGINT handler."""
        signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer a KeyboardInterrupt in this block until the end of the block."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        if self._has_come:
            raise KeyboardInterrupt

    def _on_signal(self, *_: object) -> None:
        if self._is_held:
            self._has_come = True
        else:
            raise KeyboardInterrupt


class KafkaProducer:
    """Appends records in order, each exactly once during the producer's life (idempotent)."""

    def __init__(self, common: Mapping[str, Any]) -> None:
        self._interrupts = Interrupts()
        self._errors: list[BaseException] = []
        self._producer = kafka.KafkaProducer(
            **common,
            acks="all",
            enable_idempotence=True,
            allow_auto_create_topics=False,
            linger_ms=20,
            batch_size=BATCH_BYTES,
            max_request_size=REQUEST_BYTES,
            value_serializer=_Null(),
        )

    def send(self, partition: TopicPartition, record: ClusterRecord) -> None:
        """Queue one record; `flush` reports whether the record was written.

        Raises MigrationError for a header without a value.
        """
        headers = []
        for name, value in record.headers:
            if value is None:
                raise MigrationError(
                    f"{partition.topic}-{partition.partition}, offset {record.offset}: header "
                    f"{name!r} has no value, which kafka-python cannot write"
                )
            headers.append((name, value))
        with self._interrupts.held():
            future = self._producer.send(
                partition.topic,
                value=_Null.VALUE if record.value is None else record.value,
                key=record.key,
                headers=headers,
                partition=partition.partition,
                timestamp_ms=record.timestamp_ms,
            )
        future.add_errback(self._errors.append)

    def flush(self) -> None:
        """Wait until all records are acknowledged.

        Raises MigrationError if the broker refused any.
        """
        self._producer.flush()
        if self._errors:
            raise MigrationError(f"records were refused: {self._errors[0]}")

    def close(self) -> None:
        """Close the connections; unflushed records are dropped."""
        with suppress(KafkaError):  # `close` raises KafkaError for unacknowledged records
            self._producer.close(timeout=1)
        self._interrupts.close()
