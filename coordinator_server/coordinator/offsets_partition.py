"""One partition of `__consumer_offsets` as the coordinator uses it: append records, load groups.

Records are written in Kafka's binary format, in batches like those of Kafka's coordinator (no
producer id, base sequence 0, CreateTime). New and loaded records are both applied by
`Group.replay`, so a loaded group equals the group that was written. Offsets of a snapshot are
applied by `Group.restore`, the bulk form.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from coordinator_server.coordinator.replay import OffsetsReplay, Restoring
from coordinator_server.coordinator.snapshot import VERSION as SNAPSHOT_VERSION
from coordinator_server.coordinator.snapshot import Decoding, encode_groups
from coordinator_server.core.groups.offsets import CommittedOffset
from coordinator_server.core.groups.records import OffsetRecords, encode_record, value_version
from coordinator_server.events.log import LOG
from coordinator_server.runtime.loader import SkippedRecords
from coordinator_server.runtime.partition import CoordinatorPartition
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.batch import batch_of_section, record_bytes
from protocol.errors import ErrorCode
from protocol.offsets_log import OffsetCommitKey, encode_key, encode_value
from protocol.varint import encode_varint
from storage.errors import StorageError
from storage.state_snapshot import load_state, save_state

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.core.groups.commit_layout import CommitLayout
    from coordinator_server.core.groups.effects import ProducerIdAndEpoch
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.records import CoordinatorRecord, CoordinatorRecords
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
        self._snapshot_at = -1  # log end offset of the snapshot file; -1 without a file

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
        pending = [record for record in replay.pending() if record.key.startswith(front, 2)]
        for _ in restoring.pending_steps(pending):
            pass
        return restoring.groups.get(group.group_id, group)


LEAST_KEY_SET = 16
"""Smaller batches get no key set: reading their keys is cheap, and there may be very many of
them."""

LEAST_OFFSET_BYTES = 35
"""Lower bound for the size of an offset record, excluding its group id."""

_LEADING_BYTES = b"\x00\x00"  # attributes and timestamp delta, both 0
_NO_HEADERS = b"\x00"
_PARTITION = Struct(">i")
_VERSION_BYTES = 2
_OFFSET_AND_EPOCH = Struct(">qi")
_EMPTY_METADATA = b"\x01"  # compact length of an empty string
_TIMESTAMP = Struct(">q")
_TAGS_AT = _VERSION_BYTES + _OFFSET_AND_EPOCH.size + len(_EMPTY_METADATA) + _TIMESTAMP.size


class RecordsBuilder:
    """Collects records with one timestamp, up to `max_bytes`; `is_full` is set on overflow.

    A record that does not fit is not encoded, nor are the records after it. `key_set` is the same
    object for batches with equal keys, None if unknown.
    """

    __slots__ = ("_left_bytes", "_parts", "count", "is_full", "key_set")

    def __init__(self, max_bytes: int) -> None:
        self.count = 0
        self.is_full = False
        self.key_set: object | None = None
        self._left_bytes = max_bytes
        self._parts: list[bytes] = []

    def add(self, records: CoordinatorRecords) -> None:
        """Add the records of one write."""
        if isinstance(records, OffsetRecords):
            least_bytes = len(records) * (LEAST_OFFSET_BYTES + len(records.group_id))
            # Refuse a far too large write without encoding its records.
            if least_bytes > self._left_bytes:
                self.is_full = True
                return
        layout = records.layout if isinstance(records, OffsetRecords) else None
        self.key_set = None
        if layout is None or self.count:
            self._add_each(records)
        else:
            assert isinstance(records, OffsetRecords)
            self._add_layout(records, layout)

    def section(self) -> bytes:
        """Return the records section of the batch."""
        return b"".join(self._parts)

    def _add_each(self, records: Iterable[CoordinatorRecord]) -> None:
        for record in records:
            if self.is_full:
                return
            key, value = encode_record(record)
            self._left_bytes -= len(key) + len(value or b"")
            if self._left_bytes < 0:
                self.is_full = True
                return
            self._parts.append(record_bytes(0, self.count, key, value))
            self.count += 1

    def _add_layout(self, records: OffsetRecords, layout: CommitLayout) -> None:
        """Add a commit as the first records of the batch.

        The cached heads contain offset deltas that start at 0.
        """
        layout.record_packers = layout.record_packers or _record_packers(layout)
        for packer, (_, offsets) in zip(layout.record_packers, records.topics, strict=True):
            self._parts.append(packer.pack(offsets.values()))
        self.count = layout.count
        if self.count >= LEAST_KEY_SET:
            self.key_set = layout.key_set
        self._left_bytes -= sum(map(len, self._parts))
        self.is_full = self._left_bytes < 0


class RecordsPacker:
    """Packs the records of one topic of a layout in one call.

    The bytes of each record before its offset and after its commit timestamp are cached.
    """

    __slots__ = ("_arguments", "_pack", "_tags")

    def __init__(self, heads: Sequence[bytes], tags: bytes) -> None:
        rest_bytes = len(_EMPTY_METADATA) + _TIMESTAMP.size + len(tags)
        letters = [f"{len(head)}sqi{rest_bytes}s" for head in heads]
        self._pack = Struct(">" + "".join(letters)).pack
        self._tags = tags
        self._arguments: list[object] = [value for head in heads for value in (head, 0, 0, b"")]

    def pack(self, values: Collection[CommittedOffset]) -> bytes:
        """Return the records of these offsets, in the order of the layout.

        All offsets must have the same commit timestamp.
        """
        offsets, epochs, _, times_ms, *_ = zip(*values, strict=True)
        rest = _EMPTY_METADATA + _TIMESTAMP.pack(times_ms[0]) + self._tags
        arguments = self._arguments
        arguments[1::4], arguments[2::4] = offsets, epochs
        arguments[3::4] = [rest] * len(offsets)
        return self._pack(*arguments)


def _record_packers(layout: CommitLayout) -> list[RecordsPacker]:
    """Return a packer for each topic of the layout."""
    packers: list[RecordsPacker] = []
    delta = 0
    for topic, topic_id, partitions in layout.topics:
        sample = CommittedOffset(0, topic_id=topic_id).to_value()
        value = encode_value(sample, value_version(sample))
        value_front = encode_varint(len(value)) + value[:_VERSION_BYTES]
        key = encode_key(OffsetCommitKey(group=layout.group_id, topic=topic, partition=0))
        key_front = encode_varint(len(key)) + key[: -_PARTITION.size]
        after_front = len(key_front) + _PARTITION.size + len(value_front) + len(value)
        after_front += len(_NO_HEADERS) - _VERSION_BYTES
        heads: list[bytes] = []
        for partition in partitions:
            front = _LEADING_BYTES + encode_varint(delta)
            heads.append(
                encode_varint(len(front) + after_front)
                + front
                + key_front
                + _PARTITION.pack(partition)
                + value_front
            )
            delta += 1
        packers.append(RecordsPacker(heads, value[_TAGS_AT:] + _NO_HEADERS))
    return packers
