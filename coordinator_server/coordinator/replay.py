"""Restores the groups of one partition of `__consumer_offsets` from its log.

A log holds many values per key, so the scan keeps the last value of each key as bytes and decodes
only these last values. Both phases run in short steps, so that the event loop can serve other
requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.offsets import NO_EXPIRE_TIMESTAMP, CommittedOffset
from coordinator_server.runtime.loader import LogReader
from protocol.batch_header import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    iterate_header_fields,
)
from protocol.control_record import end_marker
from protocol.errors import ProtocolError
from protocol.offsets_log import (
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    group_of,
)
from protocol.raw_records import batch_records, raw_records
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinator_server.core.groups.group import Group
    from protocol.schema import Message
    from storage.partition_log import PartitionLog

STEP_BYTES = 128 * 1024
STEP_RECORDS = 2000
"""Limit for records decoded in one step; STEP_BYTES limits the log bytes read in one step."""

# Layout of a committed offset without metadata: version, offset, leader epoch, metadata
# length, commit timestamp. Tagged fields follow: none, or only the topic id.
_PLAIN_VALUE = Struct(">hqiBq")
_PLAIN_VERSION = 4
_EMPTY_METADATA = 1
_NO_TAGS = b"\x00"
_TOPIC_ID_TAG = b"\x01\x00\x10"  # tagged field count 1, tag 0, size 16


KeyValue = tuple[bytes, bytes | None]


class PendingRecord(NamedTuple):
    """A record of an open transaction; `is_superseded` if its key was committed again later."""

    offset: int
    producer_id: int
    key: bytes
    value: bytes | None
    is_superseded: bool


class OffsetsReplay:
    """Collects the last committed value of each key in `latest`; None is a tombstone.

    Transactional records take effect when their commit marker is read, unless a later record for
    the same key already took effect. Records of transactions without a marker are returned by
    `pending`. `damaged` counts batches and records that cannot be parsed although their CRC
    matches.
    """

    __slots__ = ("_counting", "_open", "_reader", "damaged", "last_reason", "latest")

    def __init__(self, log: PartitionLog) -> None:
        self.latest: dict[bytes, bytes | None] = {}
        self.damaged = 0
        self.last_reason = ""
        self._reader = LogReader(log)
        # producer id -> key -> offset and value of the last write in the open transaction
        self._open: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}
        # key -> offset of the current record, for keys written while a transaction was open
        self._counting: dict[bytes, int] = {}

    def steps(self) -> Iterator[None]:
        """Read the log to its end in short steps.

        Raises StorageError if the log cannot be read, ProtocolError if the log has bytes that are
        no batch.
        """
        for data in self._reader.chunks():
            self._take(data)
            yield

    def _take(self, data: bytes) -> None:
        """Process a chunk of whole batches.

        Raises ProtocolError for a batch of another format than v2.
        """
        latest = self.latest
        for fields in iterate_header_fields(data):
            base_offset, length, _, magic, _, flags, delta, _, _, _, _, _, count, position = fields
            if magic != 2:
                raise ProtocolError(f"a record batch of magic {magic} at offset {base_offset}")
            try:
                if flags & (TRANSACTIONAL | CONTROL) or self._open:
                    self._take_with_transactions(data, BatchHeader._make(fields))
                else:
                    if flags & COMPRESSION_MASK:
                        records = batch_records(data, BatchHeader._make(fields))
                    else:
                        end = position + LOG_OVERHEAD_BYTES + length
                        records = raw_records(data, count, position + HEADER_BYTES, end)
                    for _, _, _, _, key, value, _ in records:
                        latest[key or b""] = value
            except ProtocolError as error:
                self.damaged += 1
                self.last_reason = f"the batch at offset {base_offset}: {error}"
            self._reader.offset = base_offset + delta + 1

    def _take_with_transactions(self, data: bytes, header: BatchHeader) -> None:
        """Process a transactional batch, a marker, or any batch while a transaction is open."""
        base_offset, producer_id = header.base_offset, header.producer_id
        records = [
            (base_offset + offset_delta, key or b"", value)
            for _, _, _, offset_delta, key, value, _ in batch_records(data, header)
        ]
        if header.is_control:
            # Compaction may have emptied the batch.
            marker = end_marker(records[0][1], records[0][2]) if records else None
            if marker is None:
                return
            ended = self._open.pop(producer_id, {})
            for key, (offset, value) in ended.items() if marker.commits else ():
                if self._counting.get(key, -1) < offset:
                    self._counting[key] = offset
                    self.latest[key] = value
            if not self._open:
                self._counting.clear()
        elif header.is_transactional:
            written = self._open.setdefault(producer_id, {})
            for offset, key, value in records:
                written[key] = offset, value
        else:
            for offset, key, value in records:
                self._counting[key] = offset
                self.latest[key] = value
                if value is None:  # a tombstone also drops pending offsets of its key
                    for left in self._open.values():
                        left.pop(key, None)

    def pending(self) -> list[PendingRecord]:
        """Return the records of open transactions in log order. Call this after `steps`."""
        pending = [
            PendingRecord(offset, producer_id, key, value, self._counting.get(key, -1) > offset)
            for producer_id, records in self._open.items()
            for key, (offset, value) in records.items()
        ]
        pending.sort()
        return pending


class Restoring:
    """Builds groups from the last value of each key.

    `skipped` counts records with an unknown key type or a malformed key or value.
    """

    __slots__ = ("_make", "_offsets", "_topic_ids", "groups", "last_reason", "skipped")

    def __init__(self, make: Callable[[str], Group]) -> None:
        self.groups: dict[str, Group] = {}
        self.skipped = 0
        self.last_reason = ""
        self._make = make
        # (group, topic) part of a key -> the offsets of this group and topic
        self._offsets: dict[bytes, dict[int, CommittedOffset]] = {}
        # tagged fields of an undecoded value -> topic id, so that equal ids share one object
        self._topic_ids: dict[bytes, bytes] = {_NO_TAGS: ZERO_UUID}

    def steps(self, latest: Iterable[KeyValue]) -> Iterator[None]:
        """Apply the last value of each key, in short steps."""
        unpack = _PLAIN_VALUE.unpack
        size = _PLAIN_VALUE.size
        offsets = self._offsets
        topic_ids = self._topic_ids
        for number, (key, value) in enumerate(latest, start=1):
            if not number % STEP_RECORDS:
                yield
            if value is None:
                continue
            previous = offsets.get(key[:-4])
            topic_id = topic_ids.get(value[size:])
            if previous is None or topic_id is None:
                self._take(key, value)
                continue
            version, offset, leader_epoch, metadata, timestamp_ms = unpack(value[:size])
            if version != _PLAIN_VERSION or metadata != _EMPTY_METADATA:
                self._take(key, value)
                continue
            previous[int.from_bytes(key[-4:], "big", signed=True)] = CommittedOffset(
                offset, leader_epoch, "", timestamp_ms, NO_EXPIRE_TIMESTAMP, topic_id
            )

    def pending_steps(self, pending: Iterable[PendingRecord]) -> Iterator[None]:
        """Apply the records of open transactions; run this after `steps`."""
        for number, record in enumerate(pending, start=1):
            if not number % STEP_RECORDS:
                yield
            decoded = None if record.value is None else self._decoded(record.key, record.value)
            if decoded is None:
                continue
            key, value = decoded
            if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                offsets = self._group(key.group).offsets
                kept = None if record.is_superseded else CommittedOffset.of(value)
                offsets.pending.add(record.producer_id, key.topic, key.partition, kept)
                self._group(key.group).is_new = False

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = self._make(group_id)
        return group

    def _decoded(
        self, key_bytes: bytes, value_bytes: bytes
    ) -> tuple[Message, Message | None] | None:
        """Return the key and value of a record, or None if the record is skipped."""
        record_type = int.from_bytes(key_bytes[:2], "big", signed=True)
        try:
            key = decode_key(key_bytes)
            if isinstance(key, UnknownKey):
                self._skip(f"records of type {record_type} are not served")
                return None
            return key, decode_value(key, value_bytes)
        except ProtocolError as error:
            self._skip(str(error))
            return None

    def _take(self, key_bytes: bytes, value_bytes: bytes) -> None:
        """Decode one record in full and replay it."""
        decoded = self._decoded(key_bytes, value_bytes)
        if decoded is None:
            return
        key, value = decoded
        group_id = group_of(key)
        group = self.groups[group_id] = self._group(group_id).replay((key, value))
        if isinstance(key, OffsetCommitKey) and key_bytes == encode_key(key):
            self._offsets[key_bytes[:-4]] = group.offsets.by_topic[key.topic]
            if isinstance(value, OffsetCommitValue) and value.topic_id != ZERO_UUID:
                self._topic_ids[_TOPIC_ID_TAG + value.topic_id] = value.topic_id

    def _skip(self, reason: str) -> None:
        self.skipped += 1
        self.last_reason = reason
