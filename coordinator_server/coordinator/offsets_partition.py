"""One partition of `__consumer_offsets`, as the coordinator sees it: append records, load groups.

What the core decides becomes a record batch here, in Kafka's own bytes (KafkaCoordinator's
batches: no producer id, base sequence 0, CreateTime), and what the log holds becomes groups again.
Both ways go through `Group.replay` (a snapshot's offsets through `restore`, its form for
many), so a loaded group is the group that was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.coordinator.records_builder import RecordsBuilder
from coordinator_server.coordinator.replay import OffsetsReplay, Restoring
from coordinator_server.coordinator.snapshot import VERSION as SNAPSHOT_VERSION
from coordinator_server.coordinator.snapshot import Decoding, encode_groups
from coordinator_server.events.log import LOG
from coordinator_server.runtime.loader import SkippedRecords
from coordinator_server.runtime.partition import CoordinatorPartition
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.batch import batch_of_section
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.state_snapshot import load_state, save_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.core.groups.effects import ProducerIdAndEpoch, Steps
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.records import CoordinatorRecords
    from coordinator_server.topics.topic import Partition
    from protocol.control_record import EndTransaction

_NO_PRODUCER = (-1, -1)
_FIRST_SEQUENCE = 0  # Kafka's coordinator writes it though there is no producer id


class OffsetsPartition(CoordinatorPartition):
    """One partition of the offsets topic, and what its groups need of it."""

    __slots__ = ("_snapshot_at",)

    topic = OFFSETS_TOPIC

    def __init__(self, partition: Partition, clock: Clock) -> None:
        super().__init__(partition, clock)
        self._snapshot_at = -1  # the log end that the snapshot on the disk belongs to

    def append(
        self, writes: Sequence[CoordinatorRecords], producer: ProducerIdAndEpoch | None = None
    ) -> ErrorCode:
        """Write the records of `writes` as one batch, all or nothing. NONE, or the log's error.

        With a `producer` the batch is part of its transaction.

        NOT_LEADER_OR_FOLLOWER once another broker leads: its log must not get our records.
        """
        now_ms = self._clock.now_ms()
        try:
            builder = RecordsBuilder(self._partition.log.config.max_message_bytes)
        except StorageError as error:
            return self.failed(error)
        for records in writes:
            builder.add(records)
        if builder.is_full and self.is_writable:
            return ErrorCode.MESSAGE_TOO_LARGE
        producer_id, producer_epoch = producer or _NO_PRODUCER
        batch = batch_of_section(
            builder.section(),
            builder.count,
            now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=_FIRST_SEQUENCE,
            transactional=producer is not None,
            key_set=None if producer else builder.key_set,
        )
        return self.append_batch(batch, now_ms)

    def append_end(self, end: EndTransaction) -> ErrorCode:
        """Write the marker that ends a transaction. NONE, or the log's error."""
        if not self.is_writable:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        try:
            self._partition.end_transaction(end, self._clock.now_ms())
        except StorageError as error:
            LOG.emit(
                "marker.failed",
                topic=OFFSETS_TOPIC,
                partition=self.index,
                producer_id=end.producer_id,
                error=error.code.name,
                reason=error.message,
            )
            return error.code
        return ErrorCode.NONE

    def load(self, new_group: Callable[[str], Group], groups: dict[str, Group]) -> Steps:
        """Load the groups in the log into `groups`, by its snapshot or from its records, in steps.

        Raises StorageError when the log cannot be read, ProtocolError when it is damaged.
        """
        log = self._partition.log
        contents = load_state(log, SNAPSHOT_VERSION)
        if contents is not None:
            decoding = Decoding(contents, new_group)
            yield from decoding.steps()
            self._snapshot_at = log.log_end_offset
            groups.update(decoding.groups)
            return
        replay = OffsetsReplay(log)
        yield from replay.steps()
        restoring = Restoring(new_group)
        yield from restoring.steps(replay.latest.items())
        yield from restoring.pending_steps(replay.pending())
        groups.update(restoring.groups)
        skipped = SkippedRecords()
        skipped.add(restoring.last_reason, restoring.skipped)
        skipped.add(replay.last_reason, replay.damaged)
        skipped.log(self.topic, self.index)

    def save_snapshot(self, groups: Iterable[Group]) -> None:
        """Write a snapshot of `groups`, which are all; the next start then reads no log."""
        try:
            log = self._partition.log
            if log.log_end_offset not in (log.log_start_offset, self._snapshot_at):
                save_state(log, SNAPSHOT_VERSION, encode_groups(groups))
        except StorageError as error:
            LOG.emit("log.failed", topic=OFFSETS_TOPIC, partition=self.index, reason=str(error))

    def reload(self, group: Group) -> Group:
        """Replay what the log holds of one group into a fresh `group`; returns the group."""
        replay = OffsetsReplay(self._partition.log)
        for _ in replay.steps():
            pass
        name = group.group_id.encode()
        front = len(name).to_bytes(2, "big") + name  # follows the type in every key
        own = [pair for pair in replay.latest.items() if pair[0].startswith(front, 2)]
        restoring = Restoring(lambda _: group)
        for _ in restoring.steps(own):
            pass
        pending = [one for one in replay.pending() if one.key.startswith(front, 2)]
        for _ in restoring.pending_steps(pending):
            pass
        return restoring.groups.get(group.group_id, group)
