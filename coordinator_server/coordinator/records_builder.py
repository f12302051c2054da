"""Encodes the records of one batch of `__consumer_offsets` (Kafka's MemoryRecordsBuilder).

Commits of many partitions are the most frequent writes, and successive commits of one consumer
differ only in numbers. The bytes of each record before the offset and after the timestamp are
encoded once by the schema codec and cached in the `CommitLayout`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from coordinator_server.core.groups.offsets import CommittedOffset
from coordinator_server.core.groups.records import OffsetRecords, encode_record, value_version
from protocol.batch import record_bytes
from protocol.offsets_log import OffsetCommitKey, encode_key, encode_value
from protocol.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from coordinator_server.core.groups.commit_layout import CommitLayout
    from coordinator_server.core.groups.records import CoordinatorRecord, CoordinatorRecords

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
            if least_bytes > self._left_bytes:  # reject far too large writes without encoding them
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
        self._arguments: list[object] = [one for head in heads for one in (head, 0, 0, b"")]

    def pack(self, values: Collection[CommittedOffset]) -> bytes:
        """Return the records of these offsets, in the order of the layout.

        All share one commit timestamp.
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
