"""The records of one batch of `__consumer_offsets`, encoded (Kafka's MemoryRecordsBuilder).

A commit of many partitions is the hottest write there is. Its records differ in offset delta,
partition, offset and leader epoch alone: the rest of a key and of a value is encoded once, by the
declared codec, and one packing per record puts both together.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby, repeat
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING

from coordinator_server.group.offsets import NO_EXPIRE_TIMESTAMP
from coordinator_server.group.records import OffsetRecords, encode_record, value_version
from protocol.batch import record_bytes
from protocol.offsets_log import OffsetCommitKey, encode_key, encode_value
from protocol.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coordinator_server.group.offsets import CommittedOffset
    from coordinator_server.group.records import CoordinatorRecord, CoordinatorRecords

_PREPARED_SINCE = 4  # records; encoding what they have in common pays from here on
_KEY_TAIL = 4  # the partition
_VALUE_FRONT, _VALUE_FIXED = 2, 14  # the version; and with it offset and leader epoch
_LEADING_BYTES = b"\x00\x00"  # attributes, and a timestamp delta of 0
_NO_HEADERS = b"\x00"
_metadata_of = attrgetter("metadata")


class RecordsBuilder:
    """Collects records, all of one timestamp, up to `max_bytes`; beyond it `is_full`.

    A record that does not fit is not encoded, nor is what follows it.
    """

    __slots__ = ("_left_bytes", "_parts", "count", "is_full")

    def __init__(self, max_bytes: int) -> None:
        self.count = 0
        self.is_full = False
        self._left_bytes = max_bytes
        self._parts: list[bytes] = []

    def add(self, records: CoordinatorRecords) -> None:
        """Add the records of one write."""
        if isinstance(records, OffsetRecords) and len(records) >= _PREPARED_SINCE:
            for topic, offsets in records.topics:
                self._add_topic(records.group_id, topic, offsets)
        else:
            self._add_each(records)

    def _add_each(self, records: Iterable[CoordinatorRecord]) -> None:
        for record in records:
            if self.is_full:
                return
            key, value = encode_record(record)
            if self._fits(len(key) + len(value or b"")):
                self._parts.append(record_bytes(0, self.count, key, value))
                self.count += 1

    def section(self) -> bytes:
        """The records as they are stored in a batch."""
        return b"".join(self._parts)

    def _fits(self, size_bytes: int) -> bool:
        self._left_bytes -= size_bytes
        self.is_full = self.is_full or self._left_bytes < 0
        return not self.is_full

    def _add_topic(self, group_id: str, topic: str, offsets: dict[int, CommittedOffset]) -> None:
        encoded = encode_key(OffsetCommitKey(group=group_id, topic=topic, partition=0))
        key = encode_varint(len(encoded)) + encoded[:-_KEY_TAIL]
        partitions = list(offsets)
        start = 0
        for _, run in groupby(offsets.values(), _metadata_of):
            values = list(run)
            end = start + len(values)
            first = values[0]
            if first.expire_timestamp != NO_EXPIRE_TIMESTAMP:
                self._add_expiring(group_id, topic, partitions[start:end], values)
            else:
                self._add_run(key, partitions[start:end], values)
            start = end

    def _add_expiring(
        self, group_id: str, topic: str, partitions: Sequence[int], values: list[CommittedOffset]
    ) -> None:
        """Offsets that expire at a time of their own, which few clients ask for."""
        for partition, value in zip(partitions, values, strict=True):
            key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
            self._add_each([(key, value.to_value())])

    def _add_run(
        self, key: bytes, partitions: Sequence[int], values: list[CommittedOffset]
    ) -> None:
        """Offsets that differ in partition, offset and leader epoch alone."""
        sample = values[0].to_value()
        encoded = encode_value(sample, value_version(sample))
        value = encode_varint(len(encoded)) + encoded[:_VALUE_FRONT]
        rest = encoded[_VALUE_FIXED:] + _NO_HEADERS
        if not self._fits(len(values) * (len(key) + _KEY_TAIL + len(encoded))):
            return
        start = 0
        while start < len(values):
            deltas = _deltas(self.count, self.count + len(values) - start)
            delta_bytes, end = len(deltas[0]), start + len(deltas)
            size = len(_LEADING_BYTES) + delta_bytes + len(key) + _KEY_TAIL + len(value)
            size += _VALUE_FIXED - _VALUE_FRONT + len(rest)
            front = encode_varint(size) + _LEADING_BYTES
            run = values[start:end]
            self._parts += map(
                _packer(len(front), delta_bytes, len(key), len(value), len(rest)),
                repeat(front),
                deltas,
                repeat(key),
                partitions[start:end],
                repeat(value),
                [offset.offset for offset in run],
                [offset.leader_epoch for offset in run],
                repeat(rest),
            )
            self.count += len(deltas)
            start = end


@lru_cache(maxsize=256)
def _packer(front: int, delta: int, key: int, value: int, rest: int) -> Callable[..., bytes]:
    """Packs a record: front, offset delta, key, partition, value, offset, leader epoch, rest."""
    return Struct(f">{front}s{delta}s{key}si{value}sqi{rest}s").pack


_CACHED_DELTAS = 1 << 13
_encoded_deltas: list[bytes] = []


def _deltas(start: int, stop: int) -> list[bytes]:
    """Encoded offset deltas from `start`, to `stop` or as far as they are of one length."""
    for limit in (1 << 6, 1 << 13, 1 << 20):
        if start < limit:
            stop = min(stop, limit)
            break
    if stop > _CACHED_DELTAS:
        return list(map(encode_varint, range(start, stop)))
    if len(_encoded_deltas) < stop:
        _encoded_deltas.extend(map(encode_varint, range(len(_encoded_deltas), stop)))
    return _encoded_deltas[start:stop]
