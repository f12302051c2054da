"""ShareCoordinator: keeps the state of share partitions and serves all requests for that state.

A share partition belongs to the partition of `__share_group_state` that its key hashes to. The
broker that leads that partition keeps the state once the partition is loaded. The core
(`core.share_state`) decides each request; its record is appended and replayed before the response
is sent. Requests are handled synchronously, without locks, mailbox or linger. Source:
ShareCoordinatorService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from coordinator_server.core.share_partitions.persister import ShareState, ShareStateSummary
from coordinator_server.core.share_state.coordinator_key import coordinator_key
from coordinator_server.core.share_state.records import ShareSnapshot, decode_record, encode_record
from coordinator_server.core.share_state.shard import ShareCoordinatorShard, StateOutcome
from coordinator_server.events.log import LOG
from coordinator_server.runtime.coordinator import CoordinatorRuntime
from coordinator_server.runtime.loader import LogReader, SkippedRecords
from coordinator_server.runtime.partition import CoordinatorPartition, PartitionState
from coordinator_server.topics.names import SHARE_STATE_TOPIC
from protocol.batch import batch_of_section, record_bytes
from protocol.errors import ErrorCode, ProtocolError
from protocol.raw_records import batch_records
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from coordinator_server.clock.broker_clock import BrokerClock, Clock
    from coordinator_server.clock.step_runner import StepRunner
    from coordinator_server.core.share_partitions.persister import SharePartitionKey
    from coordinator_server.core.share_state.records import ShareRecord
    from coordinator_server.core.share_state.settings import ShareStateSettings
    from coordinator_server.core.share_state.shard import StateDecision, StateWrite
    from coordinator_server.events.log import EventLog
    from coordinator_server.runtime.topic import CoordinatorTopic
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from coordinator_server.topics.topic import Partition, Topic


_RECORDS_PER_BATCH = 20
"""Snapshots and tombstones per batch; a snapshot may have thousands of state batches."""


class ShareStatePartition(CoordinatorPartition):
    """One partition of the share-state topic on its leader; `shard` has its share partitions."""

    __slots__ = ("_pruned_offset", "shard")

    topic = SHARE_STATE_TOPIC

    def __init__(self, partition: Partition, clock: Clock, shard: ShareCoordinatorShard) -> None:
        super().__init__(partition, clock)
        self.shard = shard
        self._pruned_offset: int | None = None

    def append(self, records: Sequence[ShareRecord]) -> ErrorCode:
        """Append records as one batch and replay them; return NONE or the error of the log.

        Returns NOT_LEADER_OR_FOLLOWER if another broker has become leader.
        """
        section = b"".join(
            record_bytes(0, delta, *encode_record(record)) for delta, record in enumerate(records)
        )
        now_ms = self._clock.now_ms()
        batch = batch_of_section(section, len(records), now_ms, base_sequence=_FIRST_SEQUENCE)

        def replay(base_offset: int) -> None:
            for offset, record in enumerate(records, start=base_offset):
                self.shard.replay(record, offset)

        return self.append_batch(batch, now_ms, replay)

    def prune(self) -> Partition | None:
        """Delete redundant records; return the partition, or None if nothing was deleted."""
        offset = self.shard.redundant_offsets.last_redundant_offset
        if offset is None or offset == self._pruned_offset or not self.is_writable:
            return None
        try:
            self._partition.delete_records(offset)
        except StorageError as error:
            self.failed(error)
            return None
        self._pruned_offset = offset
        return self._partition

    def load(self) -> Steps:
        """Load the share partitions from the log, in steps.

        Raises StorageError if the log cannot be read, ProtocolError if the log has bytes that are
        no batch.
        """
        reader, skipped, number = LogReader(self._partition.log), SkippedRecords(), 0
        for data in reader.chunks():
            for header in reader.batches(data):
                for _, _, _, delta, key, value, _ in batch_records(data, header):
                    try:
                        record = decode_record(key or b"", value)
                    except ProtocolError as error:
                        skipped.add(str(error))
                    else:
                        self.shard.replay(record, header.base_offset + delta)
                    number += 1
                    if not number % _STEP_RECORDS:
                        yield
            yield
        skipped.log(self.topic, self.index)


R = TypeVar("R", StateOutcome, ShareState, ShareStateSummary)


class ShareCoordinator(CoordinatorRuntime[ShareStatePartition, None]):
    """The share-partition state that one broker keeps."""

    keys = "share partitions"

    def __init__(
        self,
        settings: ShareStateSettings,
        clock: BrokerClock,
        step_runner: StepRunner,
        topics: TopicManager,
        share_state_topic: CoordinatorTopic,
        *,
        node_id: int,
        log: EventLog = LOG,
    ) -> None:
        super().__init__(clock, step_runner, topics, share_state_topic, node_id=node_id, log=log)
        self.settings = settings

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> None:
        """Start loading state from the log; prune and rewrite snapshots periodically."""
        super().start()
        self._repeat(self.prune, self.settings.prune_interval_ms)
        self._repeat(self.rewrite_cold, self.settings.cold_snapshot_interval_ms)

    def _unload(self, closing: set[ShareStatePartition]) -> None:
        for partition in closing:
            partition.state = PartitionState.CLOSED

    def take_over(self, partition: Partition) -> ShareStatePartition:
        """Return the share-state partition that this broker now leads."""
        shard = ShareCoordinatorShard(self.settings.updates_per_snapshot, self._partition_count)
        return ShareStatePartition(partition, self.clock, shard)

    def _partition_count(self, topic_id: bytes) -> int:
        topic = self._topics.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def _load(self, partition: ShareStatePartition, _: dict[str, None]) -> Steps:
        """Replay one partition into its shard."""
        yield from partition.load()

    def _serve(self, partition: ShareStatePartition, _: dict[str, None], elapsed_ms: int) -> None:
        self.log.emit(
            "coordinator.loaded",
            topic=SHARE_STATE_TOPIC,
            partition=partition.index,
            share_partitions=len(partition.shard),
            elapsed_ms=elapsed_ms,
        )

    # --- requests ---------------------------------------------------------------------------------

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        done: Callable[[StateOutcome], None],
    ) -> None:
        """Initialize a share partition of this broker; `done` gets the result, without retries."""
        self._submit(
            key,
            lambda shard, now_ms: shard.initialize(key, state_epoch, start_offset, now_ms),
            done,
            _failed("initialize"),
        )

    def read(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareState], None]
    ) -> None:
        """Read the state of a share partition of this broker; `done` gets it, without retries."""
        self._submit(
            key,
            lambda shard, now_ms: shard.read(key, leader_epoch, now_ms),
            done,
            lambda error, reason: ShareState(
                error, message=f"Unable to read share group state: {reason}"
            ),
        )

    def write(
        self, key: SharePartitionKey, write: StateWrite, done: Callable[[StateOutcome], None]
    ) -> None:
        """Write changes to a share partition of this broker, without retries.

        `done` gets the result.
        """
        self._submit(
            key,
            lambda shard, now_ms: shard.write(key, write, now_ms),
            done,
            _failed("write"),
        )

    def delete(self, key: SharePartitionKey, done: Callable[[StateOutcome], None]) -> None:
        """Delete a share partition of this broker; `done` gets the result, without retries."""
        self._submit(
            key,
            lambda shard, _: shard.delete(key),
            done,
            _failed("delete"),
        )

    def read_summary(
        self, key: SharePartitionKey, done: Callable[[ShareStateSummary], None]
    ) -> None:
        """Read the state without its batches; `done` gets the result, without retries.

        There is no leader epoch parameter, because Kafka ignores the leader epoch of this request.
        """
        self._submit(
            key,
            lambda shard, _: shard.read_summary(key),
            done,
            lambda error, reason: ShareStateSummary(
                error, message=f"Unable to read share group state summary: {reason}"
            ),
        )

    def _submit(
        self,
        key: SharePartitionKey,
        decide: Callable[[ShareCoordinatorShard, int], StateDecision[R]],
        done: Callable[[R], None],
        failed: Callable[[ErrorCode, str], R],
    ) -> None:
        """Let the core decide, append its record, then call `done` with the result."""
        partition, error = self.partition_of(coordinator_key(key))
        if partition is None or error is not ErrorCode.NONE:
            done(failed(error, error.message))
            return

        def written(decision: StateDecision[R], error: ErrorCode, reason: str) -> None:
            done(decision.answer if error is ErrorCode.NONE else failed(error, reason))

        decision = decide(partition.shard, self.clock.now_ms())
        self.carry_out(partition, decision, lambda record: partition.append([record]), written)

    # --- maintenance ------------------------------------------------------------------------------

    def _forget(self, topics: Mapping[str, Topic]) -> None:
        self.step_runner.run(self._forget_topics({topic.topic_id for topic in topics.values()}))

    def _forget_topics(self, topic_ids: set[bytes]) -> Steps:
        """Write tombstones for the share partitions of deleted topics."""
        for partition in self.active():
            keys = partition.shard.keys_of(topic_ids)
            for start in range(0, len(keys), _RECORDS_PER_BATCH):
                tombstones = keys[start : start + _RECORDS_PER_BATCH]
                partition.append([ShareSnapshot(key, None) for key in tombstones])
                yield
            yield

    def rewrite_cold(self) -> None:
        """Rewrite old snapshots at the log end, so that earlier records can be deleted."""
        self.step_runner.run(self._rewrite_cold())

    def _rewrite_cold(self) -> Iterator[None]:
        interval_ms = self.settings.cold_snapshot_interval_ms
        for partition in self.active():
            keys = partition.shard.cold_keys(self.clock.now_ms(), interval_ms)
            for start in range(0, len(keys), _RECORDS_PER_BATCH):
                now_ms = self.clock.now_ms()
                cold = keys[start : start + _RECORDS_PER_BATCH]
                rewritten = [partition.shard.rewritten(key, now_ms) for key in cold]
                records = [record for record in rewritten if record is not None]
                if records:
                    partition.append(records)
                yield
            yield

    def prune(self) -> None:
        """Delete records before the last redundant offset of each partition."""
        self.step_runner.run(self._prune())

    def _prune(self) -> Iterator[None]:
        moved: list[Partition] = []
        for partition in self.active():
            pruned = partition.prune()
            if pruned is not None:
                moved.append(pruned)
            yield
        if moved:
            yield from self._topics.checkpoint_log_starts(moved)


def _failed(verb: str) -> Callable[[ErrorCode, str], StateOutcome]:
    return lambda error, reason: StateOutcome(
        error, f"Unable to {verb} share group state: {reason}"
    )


_STEP_RECORDS = 20
_FIRST_SEQUENCE = 0
"""The base sequence of Kafka's coordinators, although their batches have no producer id."""
