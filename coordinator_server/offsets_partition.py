"""One partition of `__consumer_offsets`, as the coordinator sees it: append records, load groups.

What the heart decides becomes a record batch here, in Kafka's own bytes (KafkaCoordinator's
batches: no producer id, base sequence 0, CreateTime), and what the log holds becomes groups again.
Both ways go through `GroupMetadata.replay`, so a loaded group is the group that was written.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.events import LOG
from coordinator_server.group.records import encode_record
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.batch import BatchHeader, Record, build_batch, iterate_batches, iterate_records
from protocol.errors import ErrorCode, ProtocolError
from protocol.offsets_log import (
    GroupMetadataKey,
    OffsetCommitKey,
    decode_key,
    decode_value,
)
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from coordinator_server.clock import Clock
    from coordinator_server.group.metadata import GroupMetadata
    from coordinator_server.group.records import Record as GroupRecord
    from coordinator_server.topics.manager import Partition
    from storage.partition_log import PartitionLog

_FIRST_SEQUENCE = 0  # Kafka's coordinator writes it though there is no producer id
_COMMIT_MARKER = 1  # type of a control record (KIP-98)
_LOAD_SLICE_BYTES = 256 * 1024  # read and replayed before the loop may do something else


class LoadedRecord(NamedTuple):
    """A record as it was read: its offset, its key as bytes, whose it is, and what it says."""

    offset: int
    key: bytes
    group_id: str
    record: GroupRecord


class PartitionState(Enum):
    """Whether the groups of a partition can be served (Kafka's CoordinatorState)."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class OffsetsPartition:
    """One partition of the offsets topic, and what its groups need of it."""

    __slots__ = ("_clock", "_epoch", "_partition", "index", "state")

    def __init__(self, partition: Partition, clock: Clock) -> None:
        self.index = partition.index
        self.state = PartitionState.LOADING
        self._partition = partition
        self._epoch = partition.epoch
        self._clock = clock

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to load. False as well when that cannot be told."""
        try:
            log = self._partition.log
        except StorageError:
            return False
        return log.log_start_offset == log.log_end_offset

    def append(self, records: Sequence[GroupRecord]) -> ErrorCode:
        """Write records as one batch, all or nothing. NONE, or the log's error.

        NOT_LEADER_OR_FOLLOWER once another broker leads: its log must not get our records.
        """
        if self.state is PartitionState.CLOSED or self._partition.epoch != self._epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        now_ms = self._clock.now_ms()
        encoded = [
            Record(offset, now_ms, *encode_record(record)) for offset, record in enumerate(records)
        ]
        batch = build_batch(encoded, base_sequence=_FIRST_SEQUENCE)
        try:
            self._partition.append_own(batch, now_ms)
        except StorageError as error:
            LOG.emit(
                "log.failed",
                topic=OFFSETS_TOPIC,
                partition=self.index,
                error=error.code.name,
                reason=str(error),
            )
            return error.code
        return ErrorCode.NONE

    async def load(self, make: Callable[[str], GroupMetadata]) -> dict[str, GroupMetadata]:
        """Read the whole log and give the groups in it; lets the loop run between slices.

        Raises StorageError when the log cannot be read.
        """
        groups: dict[str, GroupMetadata] = {}
        reader = LogReader(self._partition.log)
        while True:
            slice_of_records = reader.next_slice()
            if slice_of_records is None:
                break
            for loaded in slice_of_records:
                group = groups.get(loaded.group_id)
                if group is None:
                    group = groups[loaded.group_id] = make(loaded.group_id)
                group.replay(loaded.record)
            await asyncio.sleep(0)
        if reader.unreadable:
            LOG.emit(
                "records.skipped",
                topic=OFFSETS_TOPIC,
                partition=self.index,
                records=reader.unreadable,
                reason=reader.last_reason,
            )
        return groups

    def reload(self, group: GroupMetadata) -> None:
        """Replay what the log holds of one group into a fresh `group`."""
        reader = LogReader(self._partition.log)
        while (slice_of_records := reader.next_slice()) is not None:
            for loaded in slice_of_records:
                if loaded.group_id == group.group_id:
                    group.replay(loaded.record)


class LogReader:
    """Reads the records of one partition of the offsets topic, slice by slice, in log order.

    Records of a transaction count once its commit marker comes, and never without it; then each
    one counts only if no plain commit of the same offset came behind it. `unreadable` counts what
    is of no known kind, or damaged inside a batch whose CRC is right.
    """

    __slots__ = ("_log", "_offset", "_open", "_plain", "last_reason", "unreadable")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._offset = log.log_start_offset
        # By producer id: what its open transaction has written so far.
        self._open: dict[int, list[LoadedRecord]] = {}
        # Where the last plain record of a key lies, for keys written while a transaction is open.
        self._plain: dict[bytes, int] = {}
        self.unreadable = 0
        self.last_reason = ""

    def next_slice(self) -> list[LoadedRecord] | None:
        """The records of the next batches that count by now; None at the end of the log."""
        if self._offset >= self._log.log_end_offset:
            return None
        data = self._log.read(self._offset, _LOAD_SLICE_BYTES).records
        if not data:
            return None
        found: list[LoadedRecord] = []
        for header in iterate_batches(data):
            self._offset = header.next_offset
            if header.is_control:
                ended = self._open.pop(header.producer_id, [])
                if _is_commit(data, header):
                    found += [one for one in ended if self._plain.get(one.key, -1) < one.offset]
                if not self._open:
                    self._plain.clear()
            elif header.is_transactional:
                self._open.setdefault(header.producer_id, []).extend(self._records(data, header))
            else:
                records = list(self._records(data, header))
                if self._open:
                    self._plain.update((one.key, one.offset) for one in records)
                found += records
        return found

    def _records(self, data: bytes, header: BatchHeader) -> Iterator[LoadedRecord]:
        for record in iterate_records(data, header):
            key_bytes = record.key or b""
            try:
                key = decode_key(key_bytes)
                if isinstance(key, OffsetCommitKey | GroupMetadataKey):
                    decoded = (key, decode_value(key, record.value))
                    yield LoadedRecord(record.offset, key_bytes, key.group, decoded)
                    continue
                self.last_reason = f"offset {record.offset}: {type(key).__name__} is not served"
            except ProtocolError as error:
                self.last_reason = f"offset {record.offset}: {error}"
            self.unreadable += 1


def _is_commit(data: bytes, header: BatchHeader) -> bool:
    """Whether a control batch is the marker of a commit, not of an abort (key: version, type)."""
    return any(
        record.key is not None and int.from_bytes(record.key[2:4], "big") == _COMMIT_MARKER
        for record in iterate_records(data, header)
    )
