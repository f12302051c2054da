"""TopicManager: the topics of the broker and their partitions, by name and by id.

The log manager stores topics on disk. This module checks, creates, changes and deletes topics for
clients, creates topics automatically, and notifies listeners and waiting fetches of changes.
Leaders are elected in `leadership`.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from coordinator_server.clock.broker_clock import Clock
from coordinator_server.config.config import Config
from coordinator_server.events.log import LOG
from coordinator_server.maintenance.scheduler import MaintenanceScheduler
from coordinator_server.steps import Steps, run_all
from coordinator_server.topics.leadership import Leadership
from coordinator_server.topics.names import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    UNLISTED_TOPICS,
    collision_key,
    is_internal,
    name_error,
)
from coordinator_server.topics.topic import Leaderships, Partition, Topic
from protocol.errors import ErrorCode
from storage.checkpoints import CLUSTER_METADATA_TOPIC
from storage.errors import StorageError
from storage.log_config import parse_topic_setting
from storage.log_manager import LogManager
from storage.partition_log import PartitionLog
from storage.topic_catalogue import PartitionLeadership, TopicRecord
from storage.topic_settings import INTERNAL_TOPIC_CONFIGS

CreationError = tuple[ErrorCode, str]

MAX_RECORDS_PER_REQUEST = 10_000
"""The limit of changes per request, in records of Kafka's metadata log (MAX_RECORDS_PER_USER_OP).

Each topic, each partition and each config counts as one record.
"""

TOO_MANY_RECORDS = "Unable to perform excessively large batch operation."


_COORDINATOR_TOPICS = {
    OFFSETS_TOPIC: (
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        {"segment.bytes": "offsets.topic.segment.bytes"},
    ),
    TRANSACTIONS_TOPIC: (
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        {"segment.bytes": "transaction.state.log.segment.bytes"},
    ),
    SHARE_STATE_TOPIC: (
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        {
            "segment.bytes": "share.coordinator.state.topic.segment.bytes",
            "min.insync.replicas": "share.coordinator.state.topic.min.isr",
        },
    ),
}
"""Coordinator topics with the settings for their creation: the setting of the partition count, the
setting of the replication factor, and the settings of topic configs."""


DeletionListener = Callable[[Mapping[str, Topic]], None]


def new_topic_id() -> bytes:
    """Return a random UUID (version 4) whose text does not begin with a dash, like randomUuid."""
    topic_id = bytearray(os.urandom(16))
    topic_id[0] &= 0x7F
    topic_id[6] = topic_id[6] & 0x0F | 0x40
    topic_id[8] = topic_id[8] & 0x3F | 0x80
    return bytes(topic_id)


class LeaderResult(Protocol):
    """The entry of a response for a partition whose leader or replicas the request changes."""

    error_code: int
    error_message: str | None


class TopicManager:
    """All topics of the process.

    `changed` is called with each partition after an append, a deletion of records or its own
    deletion. `node_ids` are the brokers of the process. `timer_s` is for `MaintenanceScheduler`.
    The callbacks in `on_deleted` get the topics that one request has deleted, by name, after they
    are removed from this object.
    """

    def __init__(
        self,
        logs: LogManager,
        config: Config,
        clock: Clock,
        *,
        node_ids: tuple[int, ...],
        changed: Callable[[Partition], None],
        timer_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self.on_deleted: list[DeletionListener] = []
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        rack = config.optional_text("broker.rack")
        self.racks: Mapping[int, str] = {} if rack is None else dict.fromkeys(node_ids, rack)
        self.leadership = Leadership(node_ids, self._keep_leadership)
        self.logs = logs
        self._config = config
        self._changed = changed
        self._auto_create = config.boolean("auto.create.topics.enable")
        listed = config.boolean("group.events.listed")
        self._unlisted: frozenset[str] = frozenset() if listed else UNLISTED_TOPICS
        self.revision = 0
        """Rises when topics are created, deleted, extended or reassigned."""
        self.created_revision = 0
        """The revision at which a topic was last created."""
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._collision_keys: dict[str, str] = {}
        for record in tuple(logs.topics().values()):
            leadership = self.leadership.at_start(record, self.default_factor(record.name))
            self._add(self._topic(record.name, record.topic_id, record.configs, leadership))
        self._keep_leadership(self._by_name.values())
        self.maintenance = MaintenanceScheduler(logs, config, clock, timer_s)
        self.maintenance.report_recovery()

    @property
    def broker_ids(self) -> frozenset[int]:
        """The brokers that replicas can be placed on."""
        return self.leadership.registered

    # --- finding ----------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        """Return the topic with this name, or None."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with this id (16 bytes), or None."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """Return one partition of the topic with this name, or None."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def partition_count(self, name: str) -> int:
        """Return the number of partitions of a topic, 0 for an unknown topic."""
        topic = self._by_name.get(name)
        return 0 if topic is None else len(topic.partitions)

    def log(self, name: str, index: int) -> PartitionLog:
        """Return the log of an existing partition. Raises StorageError as `Partition.log` does."""
        return self._by_name[name].partitions[index].log

    def open_logs(self) -> list[PartitionLog]:
        """Return the open logs: all that were read or written since the start."""
        return self.logs.open_logs()

    def all_topics(self) -> Iterator[Topic]:
        """Return all topics, in no particular order."""
        return iter(tuple(self._by_name.values()))

    def listed_topics(self) -> Iterator[Topic]:
        """Return all topics except UNLISTED_TOPICS, in no particular order.

        With `group.events.listed` no topic is left out.
        """
        return (topic for topic in self.all_topics() if topic.name not in self._unlisted)

    # --- changing ---------------------------------------------------------------------------------

    def creation_error(self, name: str) -> CreationError | None:
        """Return why this topic cannot be created, as (code, Kafka's text); None if it can."""
        message = name_error(name)
        if message is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, message
        if name == CLUSTER_METADATA_TOPIC:
            return ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        if name in self._by_name:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
        other = self._collision_keys.get(collision_key(name))
        if other is not None:
            message = f"Topic '{name}' collides with existing topic: {other}"
            return ErrorCode.INVALID_TOPIC_EXCEPTION, message
        return None

    def new_topic(
        self,
        name: str,
        partition_count: int,
        configs: Mapping[str, str],
        factor: int | None = None,
        places: Mapping[int, Iterable[int]] | None = None,
    ) -> Topic:
        """Return a new topic, to be created with `add`.

        `factor` is the replication factor; `places` (partition -> broker ids) has manually assigned
        replicas and takes precedence.
        """
        factor = factor or self.default_factor(name)
        leadership = self.leadership.at_creation(name, factor, range(partition_count), places)
        return self._topic(name, new_topic_id(), dict(configs), leadership)

    def add(self, topics: Iterable[Topic]) -> Generator[None, None, dict[str, CreationError]]:
        """Create topics with one write; return the errors of topics that were not created, by name.

        The topics exist after the first step. If that step raises StorageError, none is created.
        """
        errors: dict[str, CreationError] = {}
        added: list[Topic] = []
        for topic in topics:
            error = self.creation_error(topic.name)
            if error is None:
                added.append(topic)
                self._add(topic)
            else:
                errors[topic.name] = error
        try:
            if added:
                self.logs.create_topics([self._record(topic) for topic in added])
        except StorageError:
            for topic in added:
                self._remove(topic)
            raise
        for topic in added:
            LOG.emit("topic.created", topic=topic.name, partitions=len(topic.partitions))
            yield
        return errors

    def create(
        self,
        name: str,
        partition_count: int,
        configs: Mapping[str, str],
        factor: int | None = None,
    ) -> Topic:
        """Create one topic. `creation_error` must return None for it. Raises StorageError."""
        topic = self.new_topic(name, partition_count, configs, factor)
        errors = run_all(self.add([topic]))
        assert not errors, errors
        return topic

    def create_internal(self, name: str) -> Topic:
        """Return a coordinator topic, created if it does not exist. Raises StorageError."""
        topic = self._by_name.get(name)
        if topic is not None:
            return topic
        partitions, _, settings = _COORDINATOR_TOPICS[name]
        given = {config: str(self._config.integer(setting)) for config, setting in settings.items()}
        configs = {**INTERNAL_TOPIC_CONFIGS[name], **given}
        return self.create(name, self._config.integer(partitions), configs)

    def create_initial(self) -> None:
        """Create the topics of create.topics that do not exist. Raises ConfigError, StorageError.

        The replication factor is limited to the number of brokers. If one topic is invalid, none is
        created.
        """
        if self._config.optional_text("create.topics") is None:
            return
        from coordinator_server.topics.initial_topics import parse_initial_topics, refuse

        topics: list[Topic] = []
        for topic in parse_initial_topics(self._config):
            error = self.creation_error(topic.name)
            if error is None:
                factor = min(topic.factor, len(self.broker_ids))
                topics.append(self.new_topic(topic.name, topic.partitions, topic.configs, factor))
            elif error[0] is not ErrorCode.TOPIC_ALREADY_EXISTS:
                refuse(self._config, error[1])
        errors = run_all(self.add(topics))
        assert not errors, errors

    def auto_create(
        self, names: Sequence[str], may_create: Callable[[int], bool] = lambda _: True
    ) -> Steps:
        """Create topics that a client has requested, if auto.create.topics.enable is set.

        `may_create(partition_count)` is called for each topic and can prevent its creation. As in
        Kafka, errors are not reported to the client, which then sees an unknown topic. If a request
        would create more than MAX_RECORDS_PER_REQUEST topics and partitions, none is created.
        """
        partition_count = self._config.integer("num.partitions")
        if not self._auto_create or len(names) * (1 + partition_count) > MAX_RECORDS_PER_REQUEST:
            return
        try:
            for name in _COORDINATOR_TOPICS.keys() & set(names):
                self.create_internal(name)
            topics: list[Topic] = []
            for name in names:
                if not is_internal(name) and may_create(partition_count):
                    topics.append(self.new_topic(name, partition_count, {}))
                yield
            yield from self.add(topics)
        except StorageError as error:
            LOG.emit("log.failed", topic=names[0], reason=f"it cannot be created: {error}")

    def placed(
        self, topic: Topic, partition_count: int, places: Mapping[int, Iterable[int]] | None = None
    ) -> Leaderships:
        """Return the leadership of partitions that extend a topic to `partition_count`."""
        factor = len(topic.partitions[0].replicas)
        added = range(len(topic.partitions), partition_count)
        return self.leadership.at_creation(topic.name, factor, added, places)

    def add_partitions(self, added: Mapping[Topic, Leaderships]) -> Steps:
        """Add partitions to topics, with one write.

        The partitions exist after the first step. If that step raises StorageError, none is added.
        """
        steps = self.logs.change_topics(
            [self._record(topic, leadership) for topic, leadership in added.items()]
        )
        next(steps, None)
        self.revision += 1
        for topic, leadership in added.items():
            for index, placement in enumerate(leadership, start=len(topic.partitions)):
                topic.partitions.append(self._partition(topic.name, index, placement))
        for topic in added:
            LOG.emit("partitions.created", topic=topic.name, partitions=len(topic.partitions))
            yield

    def set_configs(self, configs: Mapping[Topic, Mapping[str, str]]) -> Steps:
        """Replace the own configs of topics, with one write. The configs must be valid.

        The configs are in effect after the first step; later steps apply them to open logs. If the
        first step raises StorageError, nothing is changed.
        """
        if not configs:
            return
        steps = self.logs.change_topics(
            [self._record(topic)._replace(configs=dict(own)) for topic, own in configs.items()]
        )
        next(steps, None)
        for topic, own in configs.items():
            topic.configs = own
        for topic, own in configs.items():
            LOG.emit("topic.configured", topic=topic.name, configs=dict(own))
            yield
            next(steps, None)

    def keep_leaders(self, changed: Mapping[Topic, Iterable[LeaderResult]]) -> Steps:
        """Write changed leaders and replicas of topics that still exist.

        The changes are on disk after the first step. If writing fails, all results get the error.
        """
        self.revision += 1
        topics = (topic for topic in changed if self._by_name.get(topic.name) is topic)
        try:
            yield from self._leadership_steps(topics)
        except StorageError as error:
            for results in changed.values():
                for result in results:
                    result.error_code, result.error_message = error.code, error.message

    def allows_unclean_elections(self, topic: Topic) -> bool:
        """Return whether a replica that is not in sync may lead a partition of the topic."""
        name = "unclean.leader.election.enable"
        if name in topic.configs:
            return bool(parse_topic_setting(name, topic.configs[name]))
        return bool(self._config.topic_default(name))

    def delete(self, topics: Sequence[Topic]) -> Steps:
        """Delete topics (at least one) with one write, then delete their files in steps.

        The topics are gone after the first step, and waiting fetches are answered. If the first
        step raises StorageError, none is deleted.
        """
        self.logs.delete_topics([topic.name for topic in topics])
        for topic in topics:
            self._remove(topic)
            for partition in topic.partitions:
                partition.is_deleted = True
        deleted = {topic.name: topic for topic in topics}
        for listener in self.on_deleted:
            listener(deleted)
        for topic in topics:
            LOG.emit("topic.deleted", topic=topic.name)
            for partition in topic.partitions:
                self._changed(partition)
                yield
        try:
            yield from self.logs.finish_deletions()
        except StorageError as error:
            # The topics are deleted, even if some of their files are left.
            LOG.emit("log.failed", topic=topics[0].name, reason=str(error))

    # --- maintenance ------------------------------------------------------------------------------

    @property
    def is_in_maintenance(self) -> bool:
        """Whether a round of maintenance has begun and is not done."""
        return self.maintenance.is_working

    def settings_changed(self) -> None:
        """Apply settings that have changed at run time."""
        self.maintenance.settings_changed()

    def clock_set_back(self, elapsed_ms: int) -> None:
        """Move due times after the clock was set back by `elapsed_ms`. No topics may exist."""
        self.maintenance.clock_set_back(elapsed_ms)

    def maintenance_step(self) -> int:
        """Do a small step of log maintenance; return the milliseconds until the next step."""
        return self.maintenance.step()

    def checkpoint_log_starts(
        self, partitions: Iterable[Partition]
    ) -> Generator[None, None, ErrorCode]:
        """Write the log start offsets of partitions to disk without waiting for maintenance.

        Returns the error if writing fails. The offsets stay in effect, but a crash may lose them.
        """
        try:
            yield from self.logs.checkpoint_log_starts(
                (partition.topic_name, partition.index) for partition in partitions
            )
        except StorageError as error:
            LOG.emit("log.failed", reason=error.message)
            return error.code
        return ErrorCode.NONE

    def volume(self) -> tuple[str, int, int]:
        """Return the data directory, and the total and free size of its volume in bytes."""
        return self.logs.volume()

    def close(self) -> None:
        """Close every log for a clean shutdown."""
        self.logs.close()

    def default_factor(self, name: str) -> int:
        """Return the default replication factor of a topic, at most the number of brokers."""
        setting = "default.replication.factor"
        if name in _COORDINATOR_TOPICS:
            _, setting, _ = _COORDINATOR_TOPICS[name]
        # The default may exceed the number of brokers, because it was set for a larger cluster.
        return min(self._config.integer(setting), len(self.broker_ids))

    def _keep_leadership(self, topics: Iterable[Topic]) -> None:
        """Write the leadership of topics where it differs from the disk. Raises StorageError."""
        deque(self._leadership_steps(topics), maxlen=0)

    def _leadership_steps(self, topics: Iterable[Topic]) -> Steps:
        known = self.logs.topics()
        records = [self._record(topic) for topic in topics]
        changed = [new for new in records if new.leadership != known[new.name].leadership]
        if changed:
            yield from self.logs.change_topics(changed)

    def _record(self, topic: Topic, added: Leaderships = ()) -> TopicRecord:
        """Return the record of a topic for the disk; `added` are partitions about to be added.

        Leadership is left out while the only broker has always led every partition.
        """
        count = len(topic.partitions) + len(added)
        leadership: Leaderships = ()
        has_moved = any(partition.epoch for partition in topic.partitions)
        if len(self.leadership.node_ids) > 1 or has_moved:
            leadership = (*topic.leadership(), *added)
        return TopicRecord(topic.name, topic.topic_id, count, dict(topic.configs), leadership)

    def _topic(
        self, name: str, topic_id: bytes, configs: Mapping[str, str], leadership: Leaderships
    ) -> Topic:
        partitions = [
            self._partition(name, index, placement) for index, placement in enumerate(leadership)
        ]
        return Topic(name, topic_id, configs, partitions)

    def _add(self, topic: Topic) -> None:
        self.revision += 1
        self.created_revision = self.revision
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._collision_keys[collision_key(topic.name)] = topic.name

    def _remove(self, topic: Topic) -> None:
        self.revision += 1
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        del self._collision_keys[collision_key(topic.name)]

    def _partition(self, name: str, index: int, leadership: PartitionLeadership) -> Partition:
        return Partition(name, index, leadership, self.logs, self._changed)
