"""TopicManager: the topics of the broker and their partitions, by name and by id.

The log manager keeps topics on the disk; here is what clients may do to them: which names and
configs a new topic may have, how topics come into being unasked, who is told of that, and the
wake-up of fetches after an append. Who leads a partition is decided in `leadership`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from coordinator_server.clock.broker_clock import Clock
from coordinator_server.config.config import Config
from coordinator_server.events.log import LOG
from coordinator_server.maintenance.scheduler import MaintenanceScheduler
from coordinator_server.topics.leadership import Leadership
from coordinator_server.topics.names import (
    OFFSETS_TOPIC,
    collision_key,
    is_internal,
    name_error,
)
from protocol.batch import EncodedBatch
from protocol.errors import ErrorCode
from storage.disk import Buffer
from storage.errors import StorageError
from storage.flush import Done
from storage.log_manager import INTERNAL_TOPIC_CONFIGS, LogManager
from storage.partition_log import AppendResult, PartitionLog
from storage.retention import advance_log_start_offset
from storage.topic_catalogue import PartitionLeadership, TopicRecord


class Partition:
    """One partition: its log, its leader, and the wake-up of who waits for it.

    A key of the fetch purgatory. `leader_id` is -1 while nobody leads it. `epoch` is a number that
    changes with the leader: the leader epoch, unless the log has a later one (see `leader_epoch`).
    """

    __slots__ = (
        "_changed",
        "_log",
        "_logs",
        "epoch",
        "index",
        "is_deleted",
        "leader_id",
        "replicas",
        "topic_name",
    )

    def __init__(
        self,
        topic_name: str,
        index: int,
        leadership: PartitionLeadership,
        logs: LogManager,
        changed: Callable[[Partition], None],
    ) -> None:
        self.topic_name = topic_name
        self.index = index
        self.leader_id, self.epoch, self.replicas = leadership
        self._logs = logs
        self._log: PartitionLog | None = None
        self._changed = changed
        self.is_deleted = False

    @property
    def log(self) -> PartitionLog:
        """The log. Raises StorageError when it cannot be opened.

        It is opened when it is first asked for, and anew after a disk error closed it.
        """
        log = self._log
        if log is None or (log.closed and not self.is_deleted):
            log = self._log = self._logs.log(self.topic_name, self.index)
            self._mark_epoch(log)
        return log

    @property
    def leader_epoch(self) -> int:
        """The epoch of the partition's leader. Raises StorageError as `log` does."""
        return self.log.leader_epoch

    @property
    def known_epoch(self) -> int:
        """The leader epoch; -1 when the log, which may have a later one, cannot be opened."""
        try:
            return self.log.leader_epoch
        except StorageError:
            return -1

    def begin_leadership(self, leader_id: int) -> None:
        """Give the partition another leader, or none (-1), and a new leader epoch."""
        try:
            log = self.log
        except StorageError:
            self.epoch += 1  # marked when the log can be opened again
        else:
            self.epoch = max(self.epoch, log.leader_epoch) + 1
            self._mark_epoch(log)
        self.leader_id = leader_id

    def _mark_epoch(self, log: PartitionLog) -> None:
        if log.leader_epoch < self.epoch:
            # It counts even if its checkpoint cannot be written: the batches carry it, and the
            # catalogue of topics has it.
            with suppress(OSError):
                log.begin_leader_epoch(self.epoch)

    def append(self, records: Buffer, now_ms: int) -> AppendResult:
        """Append a client's batch and wake the fetches that wait for it. Raises StorageError."""
        result = self.log.append(records, now_ms)
        self._changed(self)
        return result

    def append_own(self, batch: EncodedBatch, now_ms: int) -> AppendResult:
        """Append a batch that the broker built, and wake the fetches. Raises StorageError."""
        result = self.log.append_own(batch, now_ms)
        self._changed(self)
        return result

    @property
    def flush_is_due(self) -> bool:
        """Whether the last append must be synced before anybody is told of it."""
        return self._log is not None and self._log.flush_is_due

    def delete_records(self, offset: int) -> int:
        """Hide what is below `offset`; the first offset. Raises OffsetOutOfRangeError."""
        first = advance_log_start_offset(self.log, offset)
        self._changed(self)
        return first

    def when_flushed(self, done: Done) -> None:
        """Call `done` once the last append is synced, later."""
        flusher = self._logs.flusher
        assert self._log is not None, "nothing was appended"
        assert flusher is not None, "the log was to sync it"
        flusher.when_flushed(self._log, done)

    def leader_epoch_error(self, leader_epoch: int) -> ErrorCode:
        """What to tell a client that knows this leader epoch; -1 knows none (KIP-320)."""
        if leader_epoch == -1 or leader_epoch == self.log.leader_epoch:
            return ErrorCode.NONE
        if leader_epoch < self.log.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH


class Topic:
    """One topic; `configs` are its own, without the defaults of the broker."""

    __slots__ = ("configs", "is_internal", "name", "partitions", "topic_id")

    def __init__(
        self, name: str, topic_id: bytes, configs: Mapping[str, str], partitions: list[Partition]
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = configs
        self.partitions = partitions
        self.is_internal = is_internal(name)

    def leadership(self) -> tuple[PartitionLeadership, ...]:
        """Who leads each partition, as it is kept on the disk."""
        return tuple(
            PartitionLeadership(one.leader_id, one.epoch, one.replicas) for one in self.partitions
        )


Listener = Callable[[Topic], None]


def new_topic_id() -> bytes:
    """A random UUID (version 4) whose text does not begin with a dash, as Kafka's randomUuid."""
    topic_id = bytearray(os.urandom(16))
    topic_id[0] &= 0x7F
    topic_id[6] = topic_id[6] & 0x0F | 0x40
    topic_id[8] = topic_id[8] & 0x3F | 0x80
    return bytes(topic_id)


class TopicManager:
    """All topics. `changed` is told of every append, and of partitions that go away.

    `on_created`, `on_deleted` and `on_widened` are lists of callables that get the Topic; those of
    `on_deleted` run when the topic cannot be found any more and its logs are closed.
    `node_ids` are the brokers of the process; replicas are placed on all of them. `timer_s` is for
    `MaintenanceScheduler`.
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
        self.on_created: list[Listener] = []
        self.on_deleted: list[Listener] = []
        self.on_widened: list[Listener] = []
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        self.broker_ids = frozenset(node_ids)
        self.leadership = Leadership(node_ids, logs.keep_leadership)
        self._logs = logs
        self._config = config
        self._changed = changed
        self._auto_create = config.boolean("auto.create.topics.enable")
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._collision_keys: dict[str, str] = {}
        for record in tuple(logs.topics().values()):
            self._add(record, self.leadership.at_start(record, self._default_factor(record.name)))
        self._keep_leadership()
        self._maintenance = MaintenanceScheduler(logs, config, clock, timer_s)
        self._maintenance.report_recovery()

    # --- finding ----------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic of this id (16 bytes)."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """One partition of the topic of this name."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def partition_count(self, name: str) -> int:
        """How many partitions a topic has; 0 when there is no such topic."""
        topic = self._by_name.get(name)
        return 0 if topic is None else len(topic.partitions)

    def log(self, name: str, index: int) -> PartitionLog:
        """The log of a partition that is known to exist."""
        return self._by_name[name].partitions[index].log

    def all_topics(self) -> Iterator[Topic]:
        """Every topic, in no order that means anything."""
        return iter(tuple(self._by_name.values()))

    # --- changing ---------------------------------------------------------------------------------

    def creation_error(self, name: str) -> tuple[ErrorCode, str] | None:
        """Why no topic of this name can be created, as (code, text of Kafka); None when one can."""
        message = name_error(name)
        if message is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, message
        if name in self._by_name:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
        other = self._collision_keys.get(collision_key(name))
        if other is not None:
            message = f"Topic '{name}' collides with existing topic: {other}"
            return ErrorCode.INVALID_TOPIC_EXCEPTION, message
        return None

    def create(
        self,
        name: str,
        partition_count: int,
        configs: Mapping[str, str],
        factor: int | None = None,
        places: Mapping[int, Iterable[int]] | None = None,
    ) -> Topic:
        """Create a topic that `creation_error` has nothing against. Raises StorageError.

        `factor` replicas per partition, or those of `places` (partition -> broker ids).
        """
        assert self.creation_error(name) is None, name
        factor = factor or self._default_factor(name)
        leadership = self.leadership.at_creation(name, factor, range(partition_count), places)
        record = self._logs.create_topic(
            name, new_topic_id(), partition_count, dict(configs), self._kept(leadership)
        )
        topic = self._add(record, leadership)
        LOG.emit("topic.created", topic=name, partitions=partition_count)
        for listener in self.on_created:
            listener(topic)
        return topic

    def create_internal(self, name: str) -> Topic:
        """Create one of the broker's own topics, if it is not there yet. Raises StorageError."""
        assert name == OFFSETS_TOPIC, name
        topic = self._by_name.get(name)
        if topic is not None:
            return topic
        configs = {
            **INTERNAL_TOPIC_CONFIGS,
            "segment.bytes": str(self._config.integer("offsets.topic.segment.bytes")),
        }
        return self.create(name, self._config.integer("offsets.topic.num.partitions"), configs)

    def auto_create(self, name: str) -> None:
        """Create a topic because somebody asked for it, if the broker's settings allow that.

        What cannot be created stays unknown; whoever asked is told no more, as in Kafka.
        """
        if not self._auto_create or self.creation_error(name) is not None:
            return
        try:
            if name == OFFSETS_TOPIC:
                self.create_internal(name)
            elif not is_internal(name):
                self.create(name, self._config.integer("num.partitions"), {})
        except StorageError as error:
            LOG.emit("log.failed", topic=name, reason=f"it cannot be created: {error}")

    def add_partitions(
        self,
        topic: Topic,
        partition_count: int,
        places: Mapping[int, Iterable[int]] | None = None,
    ) -> None:
        """Give a topic more partitions, up to `partition_count` in all. Raises StorageError."""
        there = len(topic.partitions)
        assert partition_count > there
        added = self.leadership.at_creation(
            topic.name,
            len(topic.partitions[0].replicas),
            range(there, partition_count),
            places,
        )
        leadership = self._kept((*topic.leadership(), *added))
        self._logs.add_partitions(topic.name, partition_count, leadership)
        for index, one in enumerate(added, there):
            topic.partitions.append(self._partition(topic.name, index, one))
        LOG.emit("partitions.created", topic=topic.name, partitions=partition_count)
        for listener in self.on_widened:
            listener(topic)

    def set_configs(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Give a topic these configs of its own, from now on. Raises StorageError."""
        topic.configs = self._logs.set_configs(topic.name, dict(configs)).configs
        LOG.emit("topic.configured", topic=topic.name, configs=dict(configs))

    def delete(self, topic: Topic) -> None:
        """Delete a topic; fetches that wait for it are answered. Raises StorageError."""
        try:
            self._logs.delete_topic(topic.name)
        except StorageError as error:
            if topic.name in self._logs.topics():
                raise
            # It is gone, only its files are still there.
            LOG.emit("log.failed", topic=topic.name, reason=str(error))
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        del self._collision_keys[collision_key(topic.name)]
        LOG.emit("topic.deleted", topic=topic.name)
        for partition in topic.partitions:
            partition.is_deleted = True
            self._changed(partition)
        for listener in self.on_deleted:
            listener(topic)

    # --- maintenance ------------------------------------------------------------------------------

    @property
    def is_in_maintenance(self) -> bool:
        """Whether a round of maintenance has begun and is not done."""
        return self._maintenance.is_working

    def clock_set_back(self, elapsed_ms: int) -> None:
        """Move due times after the clock was set back by `elapsed_ms`; there are no topics now."""
        self._maintenance.clock_set_back(elapsed_ms)

    def maintenance_step(self) -> int:
        """Do a small step of what the logs need; returns the milliseconds until the next one."""
        return self._maintenance.step()

    def checkpoint(self) -> None:
        """Keep the first offsets of partitions now, not with the next round of maintenance."""
        try:
            self._logs.checkpoint()
        except StorageError as error:
            LOG.emit("log.failed", reason=error.message)

    def volume(self) -> tuple[str, int, int]:
        """The data directory, and the size of its volume and what is free of it, in bytes."""
        return self._logs.volume()

    def close(self) -> None:
        """Close every log as for a clean stop."""
        self._logs.close()

    def _default_factor(self, name: str) -> int:
        """Replicas of a topic that names none; never more than there are brokers."""
        setting = "default.replication.factor"
        if name == OFFSETS_TOPIC:
            setting = "offsets.topic.replication.factor"
        # A default made for a bigger cluster must not keep topics from being created here.
        return min(self._config.integer(setting), len(self.broker_ids))

    def _kept(self, leadership: tuple[PartitionLeadership, ...]) -> tuple[PartitionLeadership, ...]:
        """What goes to the disk: nothing while one broker leads everything since ever."""
        several = len(self.broker_ids) > 1 or any(one.leader_epoch for one in leadership)
        return leadership if several else ()

    def _keep_leadership(self) -> None:
        """Write down who leads, where that differs from what the disk says."""
        changed = {}
        for record in self._logs.topics().values():
            if len(self.broker_ids) == 1 and not record.leadership:
                continue
            leadership = self._kept(self._by_name[record.name].leadership())
            if leadership != record.leadership:
                changed[record.name] = leadership
        if changed:
            self._logs.keep_leadership(changed)

    def _add(self, record: TopicRecord, leadership: tuple[PartitionLeadership, ...]) -> Topic:
        """Take a topic from the log manager into the tables."""
        name = record.name
        partitions = [self._partition(name, index, one) for index, one in enumerate(leadership)]
        topic = Topic(name, record.topic_id, record.configs, partitions)
        self._by_name[name] = topic
        self._by_id[topic.topic_id] = topic
        self._collision_keys[collision_key(name)] = name
        return topic

    def _partition(self, name: str, index: int, leadership: PartitionLeadership) -> Partition:
        return Partition(name, index, leadership, self._logs, self._changed)
