"""The state of a partition's idempotent producers (Kafka's ProducerStateManager, KIP-98).

The state of a producer id has the last five batches (to detect retried batches and gaps), the epoch
(to fence older producers), and the first offset of an open transaction (which bounds the last
stable offset). The state can be rebuilt from batch headers; `.snapshot` files in Kafka's format
avoid reading the whole log at a start.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from protocol.batch_header import (
    CONTROL,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    add_to_sequence,
)
from protocol.control_record import EndMarker, EndTransaction
from protocol.crc32c import crc32c
from storage.disk import Disk
from storage.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from storage.transaction_index import AbortedTxn

CACHED_BATCHES = 5
SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1
SNAPSHOT_SUFFIX = ".snapshot"

# Version, CRC-32C of the following bytes, number of producers.
_SNAPSHOT_HEADER = struct.Struct(">hIi")
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, and
# first offset of the open transaction.
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1
_NO_EPOCH = -1


class CachedBatch(NamedTuple):
    """One of the last batches of a producer (Kafka's BatchMetadata)."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The base offset in the response to the producer."""
        return self.last_offset - self.offset_delta


# Create a CachedBatch with tuple's constructor, which takes half the time of the class's own.
_cached: Callable[[tuple[int, int, int, int]], CachedBatch] = partial(tuple.__new__, CachedBatch)


class ProducerEntry:
    """The state of one producer id in one partition."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "transaction_start")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_start = -1
        self.batches: list[CachedBatch] = []


class PendingVerification(NamedTuple):
    """A transaction that the coordinator must verify before its first records are appended.

    `bumps_epochs` tells whether the producer uses transactions v2. Source: Kafka's
    VerificationStateEntry (KIP-890).
    """

    epoch: int
    lowest_sequence: int
    bumps_epochs: bool
    since_ms: int


class ProducerState:
    """The states of all producers of a partition."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        # Open transactions: producer id -> first offset.
        self.transactions: dict[int, int] = {}
        # Verifications by producer id; not in snapshots, because a restart ends the requests.
        self._verifications: dict[int, PendingVerification] = {}

    def check(self, header: BatchHeader) -> CachedBatch | None:
        """Return the stored batch that a client's batch duplicates; None for a new batch in order.

        An unknown producer id may begin with any sequence, since its state may have expired
        (KIP-360). Raises InvalidProducerEpochError for an older epoch, OutOfOrderSequenceError for
        a gap, and InvalidTxnStateError for a non-transactional batch in an open transaction.
        Source: UnifiedLog.analyzeAndValidateProducerState, ProducerAppendInfo.
        """
        entry = self.entries.get(header.producer_id)
        if (
            entry is not None
            and header.producer_epoch == entry.epoch
            and entry.batches
            and header.base_sequence == entry.batches[-1].last_sequence + 1
            and (entry.transaction_start < 0 or header.attributes & TRANSACTIONAL)
            and not self._verifications
        ):
            return None  # no duplicate: the batch is the next in sequence
        return self._check(header, entry)

    def _check(self, header: BatchHeader, entry: ProducerEntry | None) -> CachedBatch | None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        sequence = header.base_sequence
        if entry is None:
            if epoch < _NO_EPOCH:
                raise _fenced(producer_id, epoch, _NO_EPOCH)
            if self._verifications:
                self._check_verified(producer_id, sequence, is_empty=True)
            return None
        batches = entry.batches
        last_sequence = NO_SEQUENCE
        if epoch == entry.epoch and batches:
            last_sequence = batches[-1].last_sequence
            # A batch in sequence cannot be a duplicate.
            if sequence != last_sequence + 1:
                offset_delta = header.last_offset_delta
                final = add_to_sequence(sequence, offset_delta)
                for batch in batches:
                    if batch.last_sequence == final and batch.offset_delta == offset_delta:
                        return batch
        elif epoch < entry.epoch:
            raise _fenced(producer_id, epoch, entry.epoch)
        if self._verifications:
            self._check_verified(producer_id, sequence, is_empty=not batches)
        if epoch != entry.epoch:
            if sequence != 0 and entry.epoch != _NO_EPOCH:
                raise OutOfOrderSequenceError(
                    f"Invalid sequence number for new epoch of producer {producer_id}: "
                    f"{epoch} (request epoch), {sequence} (seq. number), {entry.epoch} "
                    "(current producer epoch)"
                )
        elif sequence != last_sequence + 1 and (sequence or last_sequence != SEQUENCE_MAX):
            raise OutOfOrderSequenceError(
                f"Out of order sequence number for producer {producer_id}: {sequence} "
                f"(incoming seq. number), {last_sequence} (current end sequence number)"
            )
        if entry.transaction_start >= 0 and not header.attributes & TRANSACTIONAL:
            raise InvalidTxnStateError(
                f"Expected transactional write from producer {producer_id}, whose transaction is "
                f"open since offset {entry.transaction_start}"
            )
        return None

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether this producer epoch has an open transaction in the partition.

        Source: Kafka's hasOngoingTransaction.
        """
        entry = self.entries.get(producer_id)
        return entry is not None and entry.epoch == producer_epoch and entry.transaction_start >= 0

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epochs: bool, now_ms: int
    ) -> None:
        """Record that the coordinator is verifying a transaction whose first batch has `sequence`.

        Until records of the transaction are appended, batches with a higher sequence are rejected,
        and in transactions v2 a producer without state must begin with sequence 0.
        """
        pending = self._verifications.get(producer_id)
        if pending is None:
            pending = PendingVerification(epoch, sequence, bumps_epochs, now_ms)
        elif epoch > pending.epoch:
            pending = pending._replace(epoch=epoch, lowest_sequence=sequence)
        elif epoch == pending.epoch and sequence < pending.lowest_sequence:
            pending = pending._replace(lowest_sequence=sequence)
        self._verifications[producer_id] = pending

    def _check_verified(self, producer_id: int, sequence: int, *, is_empty: bool) -> None:
        """Check the sequence of the first batch of a transaction that is being verified.

        `is_empty` tells that no batches of the producer are known. Raises OutOfOrderSequenceError.
        """
        pending = self._verifications.get(producer_id)
        if pending is None:
            return
        if pending.bumps_epochs and sequence != 0 and is_empty:
            raise OutOfOrderSequenceError(
                f"Invalid sequence number for producer {producer_id}: {sequence} "
                "(incoming seq. number), expected 0 from a producer without state here"
            )
        if sequence > pending.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"Out of order sequence number for producer {producer_id}: {sequence} "
                f"(incoming seq. number), {pending.lowest_sequence} (earliest seen sequence)"
            )

    def check_end(self, end: EndTransaction) -> None:
        """Check a transaction marker before it is written.

        Raises InvalidProducerEpochError for an old producer epoch and
        TransactionCoordinatorFencedError for an old coordinator epoch. In transactions v2 the
        marker's epoch is above the epoch of the records; it is equal for a repeated marker, and
        for the last epoch (KIP-1228). Source: ProducerAppendInfo.
        """
        entry = self.entries.get(end.producer_id)
        if entry is None:
            return
        epoch = end.producer_epoch
        is_old = epoch < entry.epoch
        if end.transaction_version >= 2 and epoch == entry.epoch:
            is_old = entry.transaction_start >= 0 and epoch != EPOCH_MAX
        if is_old:
            raise _fenced(end.producer_id, epoch, entry.epoch)
        if end.coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"Invalid coordinator epoch for producer {end.producer_id}: "
                f"{end.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)"
            )

    def append(
        self, header: BatchHeader, last_offset: int, marker: EndMarker | None
    ) -> AbortedTxn | None:
        """Update the state for a producer's batch in the log that ends at `last_offset`.

        `marker` is the marker in a control batch; None for a control batch emptied by compaction,
        which is ignored (Kafka's ProducerAppendInfo). Returns the transaction that the marker
        aborts, or None.
        """
        if marker is not None:
            return self._end_transaction(header, last_offset, marker)
        _, _, _, _, _, attributes, delta, _, time_ms, producer_id, epoch, sequence, _, _ = header
        if attributes & CONTROL:
            return None
        entry = self.entries.get(producer_id)
        if entry is None or entry.epoch != epoch:
            entry = self._begin_epoch(producer_id, epoch)
        batches = entry.batches
        if len(batches) == CACHED_BATCHES:
            del batches[0]
        last_sequence = add_to_sequence(sequence, delta) if delta else sequence
        batches.append(_cached((last_sequence, last_offset, delta, time_ms)))
        entry.last_timestamp = time_ms
        if attributes & TRANSACTIONAL:
            if entry.transaction_start < 0:
                entry.transaction_start = last_offset - delta
                self.transactions[producer_id] = entry.transaction_start
            self._verifications.pop(producer_id, None)
        return None

    def _end_transaction(
        self, header: BatchHeader, last_offset: int, marker: EndMarker
    ) -> AbortedTxn | None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        entry = self.entries.get(producer_id)
        if entry is None or entry.epoch != epoch:
            entry = self._begin_epoch(producer_id, epoch)
        start = entry.transaction_start
        entry.transaction_start = -1
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp_ms
        self.transactions.pop(producer_id, None)
        pending = self._verifications.get(producer_id)
        # With transactions v2, the producer may already verify its next transaction, at the epoch
        # of this marker. Keep that verification.
        if pending is not None and not (pending.bumps_epochs and pending.epoch == epoch):
            del self._verifications[producer_id]
        if start < 0 or marker.commits:
            return None
        stable = self.first_unstable_offset
        end = last_offset + 1 if stable is None else stable
        return AbortedTxn(producer_id, start, last_offset, end)

    def _begin_epoch(self, producer_id: int, epoch: int) -> ProducerEntry:
        """Begin a new producer epoch and return the producer's entry, without batches."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(epoch)
        else:
            entry.epoch = epoch
            entry.batches.clear()
        return entry

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None without open transactions."""
        return min(self.transactions.values()) if self.transactions else None

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers that were idle for `expiration_ms` and have no open transaction."""
        gone = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_start < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self.entries[producer_id]
        for producer_id, pending in tuple(self._verifications.items()):
            if now_ms - pending.since_ms >= expiration_ms:
                del self._verifications[producer_id]

    # --- snapshots --------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """Return the contents of a `.snapshot` file."""
        parts = [len(self.entries).to_bytes(4, "big")]
        for producer_id, entry in self.entries.items():
            last = entry.batches[-1] if entry.batches else None
            parts.append(
                _SNAPSHOT_ENTRY.pack(
                    producer_id,
                    entry.epoch,
                    last.last_sequence if last else NO_SEQUENCE,
                    last.last_offset if last else -1,
                    last.offset_delta if last else 0,
                    entry.last_timestamp,  # the timestamp of the last batch or marker
                    entry.coordinator_epoch,
                    entry.transaction_start,
                )
            )
        body = b"".join(parts)
        return struct.pack(">hI", _SNAPSHOT_VERSION, crc32c(body)) + body

    @staticmethod
    def decode(contents: bytes) -> ProducerState | None:
        """Return the state in a `.snapshot` file; None if damaged or of another version."""
        if len(contents) < _SNAPSHOT_HEADER.size:
            return None
        version, crc, count = _SNAPSHOT_HEADER.unpack_from(contents)
        size_bytes = _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size
        if version != _SNAPSHOT_VERSION or size_bytes != len(contents):
            return None
        if crc != crc32c(contents[6:]):
            return None
        state = ProducerState()
        for values in _SNAPSHOT_ENTRY.iter_unpack(contents[_SNAPSHOT_HEADER.size :]):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, start = (
                values
            )
            entry = state.entries[producer_id] = ProducerEntry(epoch)
            entry.coordinator_epoch = coordinator
            entry.last_timestamp = timestamp
            entry.transaction_start = start
            if start >= 0:
                state.transactions[producer_id] = start
            if last_offset >= 0:
                entry.batches.append(CachedBatch(last_sequence, last_offset, delta, timestamp))
        return state


def _fenced(producer_id: int, epoch: int, last_epoch: int) -> InvalidProducerEpochError:
    return InvalidProducerEpochError(
        f"Epoch of producer {producer_id} is {epoch}, and the last seen epoch is {last_epoch}"
    )


def snapshot_path(directory: str, offset: int) -> str:
    """Return the path of the snapshot for all batches below `offset`."""
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def save_snapshot(disk: Disk, directory: str, offset: int, state: ProducerState) -> None:
    """Write the snapshot for all batches below `offset`. A CRC reveals an incomplete file."""
    path = snapshot_path(directory, offset)
    if disk.exists(path):
        disk.unlink(path)
    file = disk.open(path, create=True)
    try:
        file.append([state.encode()])
        if state.entries:  # a snapshot without producers need not be synced
            file.sync()
    finally:
        file.close()


def snapshot_offsets(names: list[str]) -> list[int]:
    """Return the offsets of the snapshots in a list of file names, ascending."""
    return sorted(
        int(name[: -len(SNAPSHOT_SUFFIX)])
        for name in names
        if name.endswith(SNAPSHOT_SUFFIX) and name[: -len(SNAPSHOT_SUFFIX)].isdigit()
    )
