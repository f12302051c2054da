"""The share partitions whose keys belong to one partition of `__share_group_state`.

The checks and their order are those of ShareCoordinatorShard. Requests return a `StateDecision`;
the state changes only when `replay` applies the record of a decision or of the log.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from coordinator_server.core.share_partitions.persister import ShareState, ShareStateSummary
from coordinator_server.core.share_state.batches import NO_OFFSET, cannot_combine, combine_batches
from coordinator_server.core.share_state.records import ShareGroupOffset, ShareSnapshot, ShareUpdate
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from coordinator_server.core.share_partitions.persister import SharePartitionKey, StateBatch
    from coordinator_server.core.share_state.records import ShareRecord


NO_EPOCH = -1
"""The leader epoch of an update that keeps the current epoch."""

_UNKNOWN_EPOCH = -(2**31)

MOST_BATCHES = 20_000
"""The most state batches of one share partition: twice the largest number of record locks.

Kafka has no such limit, except for the record size.
"""

NEGATIVE_PARTITION = "The partition id cannot be a negative number."
NEGATIVE_LEADER_EPOCH = "The leader epoch cannot be a negative number."
NEGATIVE_STATE_EPOCH = "The state epoch cannot be a negative number."
WRITE_UNINITIALIZED = "Write operation on uninitialized share partition not allowed."
READ_UNINITIALIZED = "Read operation on uninitialized share partition not allowed."

R = TypeVar("R")


class StateOutcome(NamedTuple):
    """The answer to a request that returns no state; `message` is set with an error."""

    error: ErrorCode
    message: str | None = None


class StateDecision(NamedTuple, Generic[R]):
    """The answer to a request, and the record to write before replying."""

    answer: R
    record: ShareRecord | None = None


class StateWrite(NamedTuple):
    """The changes that a share-partition leader writes; fields as in `SharePersister.write`."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class _Entry:
    """A share partition with the highest epochs received, which may exceed its state's epochs."""

    __slots__ = ("leader_epoch", "state", "state_epoch", "update_count")

    def __init__(self, state: ShareGroupOffset) -> None:
        self.state = state
        self.leader_epoch = self.state_epoch = _UNKNOWN_EPOCH
        self.update_count = 0


class ShareCoordinatorShard:
    """The share partitions of one `__share_group_state` partition.

    `partition_count(topic_id)` returns the number of partitions of a topic, 0 for a missing topic.
    After `updates_per_snapshot` updates a snapshot is written.
    """

    def __init__(self, updates_per_snapshot: int, partition_count: Callable[[bytes], int]) -> None:
        self.redundant_offsets = RedundantOffsets()
        self._entries: dict[SharePartitionKey, _Entry] = {}
        self._updates_per_snapshot = updates_per_snapshot
        self._partition_count = partition_count

    # --- state ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of share partitions."""
        return len(self._entries)

    def state(self, key: SharePartitionKey) -> ShareGroupOffset | None:
        """Return the state of a share partition, or None if it is not initialized."""
        entry = self._entries.get(key)
        return None if entry is None else entry.state

    def replay(self, record: ShareRecord, offset: int) -> None:
        """Apply a record of the log; records must be in offset order."""
        if isinstance(record, ShareSnapshot):
            self._replay_snapshot(record.key, record.state)
            is_tombstone = record.state is None
            self.redundant_offsets.snapshot_at(record.key, offset, is_tombstone=is_tombstone)
        else:
            self._replay_update(record)

    def _replay_snapshot(self, key: SharePartitionKey, state: ShareGroupOffset | None) -> None:
        if state is None:
            self._entries.pop(key, None)
            return
        entry = self._entries.setdefault(key, _Entry(state))
        entry.state = state
        entry.leader_epoch = max(entry.leader_epoch, state.leader_epoch)
        entry.state_epoch = max(entry.state_epoch, state.state_epoch)
        if entry.update_count >= self._updates_per_snapshot:
            entry.update_count = 0

    def _replay_update(self, update: ShareUpdate) -> None:
        entry = self._entries.get(update.key)
        if entry is None:  # the log starts after the snapshot
            state = ShareGroupOffset(
                snapshot_epoch=update.snapshot_epoch,
                leader_epoch=update.leader_epoch,
                start_offset=update.start_offset,
                delivery_complete_count=update.delivery_complete_count,
                batches=update.batches,
            )
            entry = self._entries[update.key] = _Entry(state)
        else:
            state = entry.state
            start = update.start_offset if update.start_offset != NO_OFFSET else state.start_offset
            epoch = update.leader_epoch if update.leader_epoch != NO_EPOCH else state.leader_epoch
            entry.state = state._replace(
                leader_epoch=epoch,
                start_offset=start,
                delivery_complete_count=update.delivery_complete_count,
                batches=combine_batches(state.batches, update.batches, start),
            )
        entry.leader_epoch = max(entry.leader_epoch, update.leader_epoch)
        entry.update_count += 1

    def hard_state(self) -> Mapping[SharePartitionKey, tuple[ShareGroupOffset, int, int, int]]:
        """Return the replayed state except the redundant offsets, for comparison in tests."""
        return {
            key: (entry.state, entry.leader_epoch, entry.state_epoch, entry.update_count)
            for key, entry in self._entries.items()
        }

    # --- requests ---------------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int
    ) -> StateDecision[StateOutcome]:
        """Return the decision that initializes the state or replaces an existing state."""
        entry = self._entries.get(key)
        if key.partition < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        if state_epoch < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_STATE_EPOCH)
        if entry is not None and state_epoch < entry.state_epoch:
            return _refused(ErrorCode.FENCED_STATE_EPOCH)
        if not self._exists(key):
            return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state = ShareGroupOffset(
            snapshot_epoch=0 if entry is None else entry.state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            start_offset=start_offset,
            # Without a start offset no record was read, so the lag is unknown.
            delivery_complete_count=-1 if start_offset == NO_OFFSET else 0,
            create_ms=now_ms,
            write_ms=now_ms,
        )
        return StateDecision(StateOutcome(ErrorCode.NONE), ShareSnapshot(key, state))

    def write(
        self, key: SharePartitionKey, write: StateWrite, now_ms: int
    ) -> StateDecision[StateOutcome]:
        """Return the decision that applies the leader's changes to the state."""
        if key.partition < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        if write.leader_epoch < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_LEADER_EPOCH)
        if write.state_epoch < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_STATE_EPOCH)
        entry = self._entries.get(key)
        if entry is None:
            return _refused(ErrorCode.INVALID_REQUEST, WRITE_UNINITIALIZED)
        if write.leader_epoch < entry.leader_epoch:
            return _refused(ErrorCode.FENCED_LEADER_EPOCH)
        if write.state_epoch < entry.state_epoch:
            return _refused(ErrorCode.FENCED_STATE_EPOCH)
        if not self._exists(key):
            return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if len(write.batches) + len(entry.state.batches) > MOST_BATCHES:
            return _refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        start_offset = max(write.start_offset, entry.state.start_offset)
        if cannot_combine(entry.state.batches, write.batches, start_offset):
            return _refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        # Keep the leader epoch, because only a read changes it.
        record = self._record(key, entry, write, entry.state.leader_epoch, now_ms)
        return StateDecision(StateOutcome(ErrorCode.NONE), record)

    def read(
        self, key: SharePartitionKey, leader_epoch: int, now_ms: int
    ) -> StateDecision[ShareState]:
        """Return the decision with the whole state for the partition leader.

        Earlier leaders are fenced.
        """
        if key.partition < 0:
            return _unread(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        if leader_epoch < 0:
            return _unread(ErrorCode.INVALID_REQUEST, NEGATIVE_LEADER_EPOCH)
        entry = self._entries.get(key)
        if entry is None:
            return _unread(ErrorCode.INVALID_REQUEST, READ_UNINITIALIZED)
        if leader_epoch < entry.leader_epoch:
            return _unread(ErrorCode.FENCED_LEADER_EPOCH)
        if not self._exists(key):
            return _unread(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state = entry.state
        answer = ShareState(ErrorCode.NONE, state.state_epoch, state.start_offset, state.batches)
        if leader_epoch == entry.leader_epoch:
            return StateDecision(answer)
        unchanged = StateWrite(
            state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ()
        )
        return StateDecision(answer, self._record(key, entry, unchanged, leader_epoch, now_ms))

    def read_summary(self, key: SharePartitionKey) -> StateDecision[ShareStateSummary]:
        """Return the state without its batches; defaults if the state is not initialized."""
        error, message = ErrorCode.NONE, None
        if key.partition < 0:
            error, message = ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION
        elif not self._exists(key):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if error is not ErrorCode.NONE:
            return StateDecision(ShareStateSummary(error, message=message or error.message))
        state = self.state(key)
        if state is None:
            return StateDecision(ShareStateSummary(ErrorCode.NONE))
        return StateDecision(
            ShareStateSummary(
                ErrorCode.NONE,
                state.state_epoch,
                state.leader_epoch,
                state.start_offset,
                state.delivery_complete_count,
            )
        )

    def delete(self, key: SharePartitionKey) -> StateDecision[StateOutcome]:
        """Return the decision that deletes the state; a missing state is not an error."""
        if key.partition < 0:
            return _refused(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION)
        if not self._exists(key):
            return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        record = ShareSnapshot(key, None) if key in self._entries else None
        return StateDecision(StateOutcome(ErrorCode.NONE), record)

    def _exists(self, key: SharePartitionKey) -> bool:
        return key.partition < self._partition_count(key.topic_id)

    def _record(
        self,
        key: SharePartitionKey,
        entry: _Entry,
        write: StateWrite,
        leader_epoch: int,
        now_ms: int,
    ) -> ShareRecord:
        """Return an update, or a snapshot after enough updates.

        If the write has a lower start offset, the current start offset and delivery-complete count
        are kept.
        """
        state = entry.state
        start_offset = max(write.start_offset, state.start_offset)
        count = write.delivery_complete_count
        if write.start_offset == state.start_offset:
            count = max(count, state.delivery_complete_count)
        elif write.start_offset < state.start_offset:
            count = state.delivery_complete_count
        if entry.update_count < self._updates_per_snapshot:
            return ShareUpdate(
                key,
                state.snapshot_epoch,
                leader_epoch,
                start_offset,
                combine_batches((), write.batches, start_offset),
                count,
            )
        snapshot = ShareGroupOffset(
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            batches=combine_batches(state.batches, write.batches, start_offset),
            create_ms=now_ms,
            write_ms=now_ms,
        )
        return ShareSnapshot(key, snapshot)

    # --- maintenance ------------------------------------------------------------------------------

    def cold_keys(self, now_ms: int, interval_ms: int) -> list[SharePartitionKey]:
        """Return the share partitions whose snapshot is older than `interval_ms`.

        Returns none if every snapshot has already been rewritten: then there is no activity, and
        new snapshots would free no records.
        """
        if all(entry.state.create_ms != entry.state.write_ms for entry in self._entries.values()):
            return []
        return [
            key
            for key, entry in self._entries.items()
            if now_ms - entry.state.write_ms >= interval_ms
        ]

    def rewritten(self, key: SharePartitionKey, now_ms: int) -> ShareSnapshot | None:
        """Return a new snapshot of the current state, or None without state."""
        state = self.state(key)
        if state is None:
            return None
        epoch = state.snapshot_epoch + 1
        return ShareSnapshot(key, state._replace(snapshot_epoch=epoch, write_ms=now_ms))

    def keys_of(self, topic_ids: Container[bytes]) -> list[SharePartitionKey]:
        """Return the share partitions of these topics."""
        return [key for key in self._entries if key.topic_id in topic_ids]


def _refused(error: ErrorCode, message: str | None = None) -> StateDecision[StateOutcome]:
    return StateDecision(StateOutcome(error, message or error.message))


def _unread(error: ErrorCode, message: str | None = None) -> StateDecision[ShareState]:
    return StateDecision(ShareState(error, message=message or error.message))


class RedundantOffsets:
    """The offset of the last snapshot of each share partition, earliest first.

    A share partition needs its last snapshot and the records after it. Source:
    ShareCoordinatorOffsetsManager.
    """

    __slots__ = ("_first_needed", "_snapshots")

    def __init__(self) -> None:
        self._snapshots: OrderedDict[SharePartitionKey, int] = OrderedDict()
        self._first_needed = 0

    def snapshot_at(self, key: SharePartitionKey, offset: int, *, is_tombstone: bool) -> None:
        """Record a snapshot or tombstone at an offset above all earlier snapshots."""
        self._snapshots[key] = offset
        self._snapshots.move_to_end(key)
        self._first_needed = next(iter(self._snapshots.values()))
        if is_tombstone:
            del self._snapshots[key]

    @property
    def last_redundant_offset(self) -> int | None:
        """Return the offset below which records are obsolete, or None if none can be deleted."""
        return self._first_needed or None
