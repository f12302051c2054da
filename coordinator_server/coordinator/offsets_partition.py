"""One partition of `__consumer_offsets` as the coordinator uses it: append records, load groups.

Records are written in Kafka's binary format, in batches like those of Kafka's coordinator (no
producer id, base sequence 0, CreateTime). New and loaded records are both applied by
`Group.replay`, so a loaded group equals the group that was written. Offsets of a snapshot are
applied by `Group.restore`, the bulk form.
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
    from coordinator_server.core.groups.effects import ProducerIdAndEpoch
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.records import CoordinatorRecords
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition
    from protocol.control_record import EndTransaction

_NO_PRODUCER = (-1, -1)
_FIRST_SEQUENCE = 0  # Kafka's coordinator writes sequence 0, although the batch has no producer id


class OffsetsPartition(CoordinatorPartition):
    """One partition of the offsets topic and the operations on it that groups need."""

    __slots__ = ("_snapshot_at",)

    topic = OFFSETS_TOPIC

    def __init__(self, partition: Partition, clock: Clock) -> None:
        super().__init__(partition, clock)
        self._snapshot_at = -1  # log end offset of the snapshot on disk, -1 if no snapshot is known

    def append(
        self, writes: Sequence[CoordinatorRecords], producer: ProducerIdAndEpoch | None = None
    ) -> ErrorCode:
        """Append all records of `writes` as one batch; return NONE or the error of the log.

        With a `producer`, the batch is part of the producer's transaction. Returns
        NOT_LEADER_OR_FOLLOWER if another broker has become leader.
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
        """Append the marker that ends a transaction; return NONE or the error of the log."""
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
        """Load the groups into `groups`, from the snapshot or the log records, in steps.

        Raises StorageError if the log cannot be read, ProtocolError if the log is corrupt.
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
        """Write a snapshot of all groups; with a snapshot, the next start does not read the log."""
        try:
            log = self._partition.log
            if log.log_end_offset not in (log.log_start_offset, self._snapshot_at):
                save_state(log, SNAPSHOT_VERSION, encode_groups(groups))
        except StorageError as error:
            LOG.emit("log.failed", topic=OFFSETS_TOPIC, partition=self.index, reason=str(error))

    def reload(self, group: Group) -> Group:
        """Replay one group's records from the log into the empty `group`; return the group."""
        replay = OffsetsReplay(self._partition.log)
        for _ in replay.steps():
            pass
        name = group.group_id.encode()
        # The group id follows the 2-byte version in every key.
        front = len(name).to_bytes(2, "big") + name
        own = [pair for pair in replay.latest.items() if pair[0].startswith(front, 2)]
        restoring = Restoring(lambda _: group)
        for _ in restoring.steps(own):
            pass
        pending = [one for one in replay.pending() if one.key.startswith(front, 2)]
        for _ in restoring.pending_steps(pending):
            pass
        return restoring.groups.get(group.group_id, group)
