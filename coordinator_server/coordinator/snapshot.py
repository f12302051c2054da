"""Encodes the groups of one partition of `__consumer_offsets` as a snapshot, and decodes them.

The format is optimized for loading: committed offsets are stored in columns, one run per group,
topic and topic id, so that one `unpack` reads a run. Group records are stored as in the log.
`storage.state_snapshot` stores and validates the bytes, so the decoder does not check them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct, calcsize, pack, unpack_from
from typing import TYPE_CHECKING, cast

from coordinator_server.core.groups.offsets import CommittedOffset
from coordinator_server.core.groups.records import encode_record, value_version
from protocol.offsets_log import (
    OffsetCommitKey,
    decode_key,
    decode_value,
    encode_value,
)
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinator_server.core.groups.group import Group
    from coordinator_server.core.groups.offsets import PendingOffsets
    from protocol.schema import Message

VERSION = 3
_OFFSET_KEY = OffsetCommitKey()
STEP_RECORDS = 2000
"""Limit for records or offsets decoded in one step."""

_COUNT = Struct(">i")
_PRODUCER = Struct(">q")
_COLUMNS = ">{0}i{0}q{0}i{0}q{0}q"  # partition, offset, leader epoch, commit and expire timestamp


def encode_groups(groups: Iterable[Group]) -> bytes:
    """Return the durable state of these groups, encoded."""
    parts: list[bytes] = []
    for group in groups:
        _put(parts, group.group_id.encode())
        records = group.state_records()
        parts.append(_COUNT.pack(len(records)))
        for record in records:
            key, value = encode_record(record)
            _put(parts, key)
            _put(parts, value)
        runs = [
            (topic, topic_id, values)
            for topic, partitions in group.offsets.by_topic.items()
            for topic_id, values in _by_topic_id(partitions)
        ]
        parts.append(_COUNT.pack(len(runs)))
        for topic, topic_id, values in runs:
            _put(parts, topic.encode())
            parts.append(topic_id)
            _put_offsets(parts, values)
        _put_pending(parts, group.offsets.pending)
    return b"".join(parts)


def _put_pending(parts: list[bytes], pending: PendingOffsets) -> None:
    """Append the pending transactional offsets, per partition in log order."""
    offsets = [
        (producer_id, topic, partition, value)
        for topic, partition, by_producer in pending
        for producer_id, value in by_producer
    ]
    parts.append(_COUNT.pack(len(offsets)))
    for producer_id, topic, partition, value in offsets:
        parts.append(_PRODUCER.pack(producer_id) + _COUNT.pack(partition))
        _put(parts, topic.encode())
        _put(parts, None if value is None else _encoded(value))


def _by_topic_id(
    partitions: dict[int, CommittedOffset],
) -> Iterable[tuple[bytes, dict[int, CommittedOffset]]]:
    runs: dict[bytes, dict[int, CommittedOffset]] = {}
    for partition, value in partitions.items():
        runs.setdefault(value.topic_id, {})[partition] = value
    return runs.items()


def _put_offsets(parts: list[bytes], offsets: dict[int, CommittedOffset]) -> None:
    values = offsets.values()
    parts.append(_COUNT.pack(len(offsets)))
    parts.append(
        pack(
            _COLUMNS.format(len(offsets)),
            *offsets,
            *[value.offset for value in values],
            *[value.leader_epoch for value in values],
            *[value.commit_timestamp for value in values],
            *[value.expire_timestamp for value in values],
        )
    )
    with_metadata = [(index, value) for index, value in offsets.items() if value.metadata]
    parts.append(_COUNT.pack(len(with_metadata)))
    for partition, value in with_metadata:
        parts.append(_COUNT.pack(partition))
        _put(parts, value.metadata.encode())


def _encoded(offset: CommittedOffset) -> bytes:
    value = offset.to_value()
    return encode_value(value, value_version(value))


def _put(parts: list[bytes], data: bytes | None) -> None:
    """Append bytes with a length prefix; length -1 is null."""
    parts.append(_COUNT.pack(-1 if data is None else len(data)))
    if data is not None:
        parts.append(data)


class Decoding:
    """Decodes a snapshot into `groups`, in short steps."""

    __slots__ = ("_data", "_make", "_position", "groups")

    def __init__(self, data: bytes, make: Callable[[str], Group]) -> None:
        self.groups: dict[str, Group] = {}
        self._data = data
        self._make = make
        self._position = 0

    def steps(self) -> Iterator[None]:
        """Decode all groups; yield between steps."""
        pending = 0
        while self._position < len(self._data):
            group = self._make(self._text())
            for _ in range(self._count()):
                key = decode_key(self._take() or b"")
                group = group.replay((cast("Message", key), decode_value(key, self._take())))
                pending += 1
                if pending >= STEP_RECORDS:
                    pending = 0
                    yield
            self.groups[group.group_id] = group
            for _ in range(self._count()):
                pending += self._take_run(group)
                if pending >= STEP_RECORDS:
                    pending = 0
                    yield
            self._take_pending(group)

    def _take_pending(self, group: Group) -> None:
        """Decode the pending transactional offsets of a group."""
        pending = group.offsets.pending
        for _ in range(self._count()):
            producer_id, partition, topic = self._producer_id(), self._count(), self._text()
            encoded, value = self._take(), None
            if encoded is not None:
                decoded = decode_value(_OFFSET_KEY, encoded)
                assert decoded is not None
                value = CommittedOffset.of(decoded)
            pending.add(producer_id, topic, partition, value)
            group.is_new = False

    def _producer_id(self) -> int:
        producer_id: int = _PRODUCER.unpack_from(self._data, self._position)[0]
        self._position += _PRODUCER.size
        return producer_id

    def _take_run(self, group: Group) -> int:
        """Decode one run of offsets into the group; return the number of offsets."""
        topic = self._text()
        topic_id = self._data[self._position : self._position + len(ZERO_UUID)]
        self._position += len(ZERO_UUID)
        count = self._count()
        form = _COLUMNS.format(count)
        column = unpack_from(form, self._data, self._position)
        self._position += calcsize(form)
        metadata = {self._count(): self._text() for _ in range(self._count())}
        columns = [column[at : at + count] for at in range(0, 5 * count, count)]
        offsets = {
            partition: CommittedOffset(
                offset,
                leader_epoch,
                metadata.get(partition, ""),
                commit_timestamp,
                expire_timestamp,
                topic_id,
            )
            for partition, offset, leader_epoch, commit_timestamp, expire_timestamp in zip(
                *columns, strict=True
            )
        }
        group.restore(topic, offsets)
        return count

    def _count(self) -> int:
        number: int = _COUNT.unpack_from(self._data, self._position)[0]
        self._position += _COUNT.size
        return number

    def _take(self) -> bytes | None:
        size = self._count()
        if size < 0:
            return None
        start = self._position
        self._position += size
        return self._data[start : self._position]

    def _text(self) -> str:
        return (self._take() or b"").decode()
