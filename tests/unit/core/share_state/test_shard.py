"""The shard of the share coordinator: its responses, and the records that it writes."""

from __future__ import annotations

from random import Random
from typing import TypeVar

import pytest

from coordinator_server.core.share_partitions.persister import (
    SharePartitionKey,
    ShareState,
    ShareStateSummary,
    StateBatch,
)
from coordinator_server.core.share_state.records import (
    ShareGroupOffset,
    ShareRecord,
    ShareSnapshot,
    ShareUpdate,
    decode_record,
    encode_record,
)
from coordinator_server.core.share_state.shard import (
    MOST_BATCHES,
    NEGATIVE_LEADER_EPOCH,
    NEGATIVE_PARTITION,
    NEGATIVE_STATE_EPOCH,
    READ_UNINITIALIZED,
    WRITE_UNINITIALIZED,
    ShareCoordinatorShard,
    StateDecision,
    StateOutcome,
    StateWrite,
)
from protocol.errors import ErrorCode as E
from protocol.errors import ProtocolError

T1, T2 = b"1" * 16, b"2" * 16
A = SharePartitionKey("g", T1, 0)
B = SharePartitionKey("g", T1, 1)
OTHER_TOPIC = SharePartitionKey("g", T2, 0)
NEGATIVE = SharePartitionKey("g", T1, -1)
NO_PARTITION = SharePartitionKey("g", T1, 2)
OK = StateOutcome(E.NONE)

R = TypeVar("R")


class Shard:
    """A shard of two topics, `T1` with two partitions, `T2` with one.

    Every record is encoded, and added to `log`, as in the real shard.
    """

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.partition_counts = {T1: 2, T2: 1}
        self.now_ms = 1000
        self.log: list[ShareRecord] = []
        self.core = self.empty()

    def empty(self) -> ShareCoordinatorShard:
        """Return a shard with the same settings and no records."""
        return ShareCoordinatorShard(
            self.updates_per_snapshot, lambda topic_id: self.partition_counts.get(topic_id, 0)
        )

    def apply(self, record: ShareRecord) -> None:
        """Append a record and replay it."""
        assert decode_record(*encode_record(record)) == record
        self.core.replay(record, len(self.log))
        self.log.append(record)

    def _made(self, decision: StateDecision[R]) -> R:
        if decision.record is not None:
            self.apply(decision.record)
        return decision.answer

    def initialize(
        self, key: SharePartitionKey = A, state_epoch: int = 1, start: int = -1
    ) -> StateOutcome:
        """Return the outcome of InitializeShareGroupState."""
        return self._made(self.core.initialize(key, state_epoch, start, self.now_ms))

    def write(
        self,
        key: SharePartitionKey = A,
        *batches: tuple[int, int, int, int],
        start: int = -1,
        state_epoch: int = 1,
        leader_epoch: int = 0,
        complete: int = 0,
    ) -> StateOutcome:
        """Return the outcome of WriteShareGroupState."""
        laid = [StateBatch(*one) for one in batches]
        write = StateWrite(state_epoch, leader_epoch, start, complete, laid)
        return self._made(self.core.write(key, write, self.now_ms))

    def read(self, key: SharePartitionKey = A, leader_epoch: int = 0) -> ShareState:
        """Return the outcome of ReadShareGroupState."""
        return self._made(self.core.read(key, leader_epoch, self.now_ms))

    def summary(self, key: SharePartitionKey = A) -> ShareStateSummary:
        """Return the outcome of ReadShareGroupStateSummary."""
        return self._made(self.core.read_summary(key))

    def delete(self, key: SharePartitionKey = A) -> StateOutcome:
        """Return the outcome of DeleteShareGroupState."""
        return self._made(self.core.delete(key))

    def state(self, key: SharePartitionKey = A) -> ShareGroupOffset:
        """Return the state of an existing share partition."""
        state = self.core.state(key)
        assert state is not None
        return state

    def last_record(self) -> ShareRecord:
        """Return the last written record."""
        return self.log[-1]

    def wrote_snapshot(self) -> bool:
        """Return whether the last record is a snapshot."""
        return isinstance(self.log[-1], ShareSnapshot)

    def is_replayed(self) -> bool:
        """Return whether a replay of the log gives the same state."""
        fresh = self.empty()
        for offset, record in enumerate(self.log):
            fresh.replay(record, offset)
        offsets = fresh.redundant_offsets.last_redundant_offset
        return (
            fresh.hard_state() == self.core.hard_state()
            and offsets == self.core.redundant_offsets.last_redundant_offset
        )


def refused(error: E, message: str | None = None) -> StateOutcome:
    """Return a response with an error."""
    return StateOutcome(error, message or error.message)


def test_an_initialized_share_partition() -> None:
    """Initializing writes a snapshot without batches and without a lag."""
    shard = Shard()
    assert shard.initialize() == OK
    state = ShareGroupOffset(0, 1, 0, -1, -1, (), 1000, 1000)
    assert shard.log == [ShareSnapshot(A, state)]
    assert shard.state() == state
    assert shard.read() == ShareState(E.NONE, 1, -1, ())
    assert shard.summary() == ShareStateSummary(E.NONE, 1, 0, -1, -1)
    assert len(shard.core) == 1


def test_initialized_at_an_offset() -> None:
    """A share partition initialized at an offset counts its lag from this offset.

    AlterShareGroupOffsets initializes share partitions in this way.
    """
    shard = Shard()
    shard.initialize(start=7)
    assert shard.state().delivery_complete_count == 0
    assert shard.summary() == ShareStateSummary(E.NONE, 1, 0, 7, 0)


def test_initialized_anew() -> None:
    """Initializing again drops the state, but keeps snapshot epochs and fenced leaders."""
    shard = Shard()
    shard.initialize()
    shard.read(leader_epoch=5)
    shard.write(A, (0, 9, 2, 1), leader_epoch=5)
    shard.now_ms = 2000
    assert shard.initialize(state_epoch=2, start=3) == OK
    assert shard.state() == ShareGroupOffset(1, 2, 0, 3, 0, (), 2000, 2000)
    assert shard.write(leader_epoch=4, state_epoch=2) == refused(E.FENCED_LEADER_EPOCH)
    assert shard.initialize(state_epoch=1) == refused(E.FENCED_STATE_EPOCH)
    assert shard.initialize(state_epoch=2) == OK
    assert shard.is_replayed()


def test_negative_epochs_are_refused() -> None:
    """Negative epochs are refused, with or without a state."""
    shard = Shard()
    for _ in range(2):
        leader = refused(E.INVALID_REQUEST, NEGATIVE_LEADER_EPOCH)
        state = refused(E.INVALID_REQUEST, NEGATIVE_STATE_EPOCH)
        assert shard.initialize(state_epoch=-1) == state
        assert shard.write(leader_epoch=-1, state_epoch=-1) == leader
        assert shard.write(state_epoch=-1) == state
        assert shard.read(leader_epoch=-1).error is E.INVALID_REQUEST
        shard.initialize()
    assert len(shard.log) == 2


def test_a_start_offset_does_not_move_back() -> None:
    """A write with an older start offset does not change the stored start offset.

    The stored delivery-complete count stays with the stored start offset.
    """
    shard = Shard()
    shard.initialize(start=5)
    shard.write(A, (5, 6, 2, 1), (8, 9, 0, 2), start=3, complete=7)
    assert shard.state().start_offset == 5
    assert shard.state().delivery_complete_count == 0
    shard.write(A, start=5, complete=2)
    shard.write(A, start=5, complete=1)
    assert shard.state().delivery_complete_count == 2
    shard.write(A, start=7, complete=1)
    assert shard.state().delivery_complete_count == 1
    assert shard.is_replayed()


def test_a_batch_that_ends_before_it_begins() -> None:
    """An inverted batch that overlaps stored batches is refused, and nothing is written.

    Kafka's code throws an exception for such a batch.
    """
    shard = Shard()
    shard.initialize()
    shard.write(A, (10, 19, 0, 2), start=0)
    assert shard.write(A, (15, 12, 2, 1), start=0) == refused(E.UNKNOWN_SERVER_ERROR)
    assert len(shard.log) == 2


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (NEGATIVE, E.INVALID_REQUEST, NEGATIVE_PARTITION),
        (NO_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION, None),
        (SharePartitionKey("g", b"?" * 16, 0), E.UNKNOWN_TOPIC_OR_PARTITION, None),
    ],
)
def test_partitions_that_are_not_there(
    key: SharePartitionKey, error: E, message: str | None
) -> None:
    """Nonexistent partitions cannot be initialized, deleted or read."""
    shard = Shard()
    assert shard.initialize(key) == refused(error, message)
    assert shard.delete(key) == refused(error, message)
    assert shard.summary(key) == ShareStateSummary(error, message=message or error.message)
    assert shard.log == []


def test_share_partitions_that_are_not_initialized() -> None:
    """Uninitialized share partitions cannot be read or written.

    The error says that the share partition is uninitialized, even if the partition does not exist.
    """
    shard = Shard()
    assert shard.write(NEGATIVE) == refused(E.INVALID_REQUEST, NEGATIVE_PARTITION)
    assert shard.write(NO_PARTITION) == refused(E.INVALID_REQUEST, WRITE_UNINITIALIZED)
    assert shard.read(NEGATIVE) == ShareState(E.INVALID_REQUEST, message=NEGATIVE_PARTITION)
    assert shard.read(NO_PARTITION) == ShareState(E.INVALID_REQUEST, message=READ_UNINITIALIZED)
    assert shard.summary() == ShareStateSummary(E.NONE, 0, 0, -1, -1)
    assert shard.delete() == OK
    assert shard.log == []


def test_the_topic_is_gone() -> None:
    """A share partition of a deleted topic gets an error; a wrong epoch is reported first."""
    shard = Shard()
    shard.initialize()
    shard.read(leader_epoch=3)
    shard.partition_counts.clear()
    unknown = refused(E.UNKNOWN_TOPIC_OR_PARTITION)
    assert shard.write(leader_epoch=3) == unknown
    assert shard.write(leader_epoch=2) == refused(E.FENCED_LEADER_EPOCH)
    assert shard.write(leader_epoch=3, state_epoch=0) == refused(E.FENCED_STATE_EPOCH)
    assert shard.read(leader_epoch=3) == ShareState(unknown.error, message=unknown.message)
    assert shard.read(leader_epoch=2).error is E.FENCED_LEADER_EPOCH
    assert shard.initialize() == shard.delete() == unknown
    assert shard.summary().error is unknown.error


def test_a_write_is_laid_over_what_is_kept() -> None:
    """A write is combined with the stored state; its record has only the new batches, merged."""
    shard = Shard()
    shard.initialize()
    assert shard.write(A, (0, 4, 2, 1), (5, 9, 2, 1), (10, 19, 0, 1), start=0, complete=10) == OK
    assert shard.last_record() == ShareUpdate(
        A, 0, 0, 0, (StateBatch(0, 9, 2, 1), StateBatch(10, 19, 0, 1)), 10
    )
    shard.write(A, (12, 14, 2, 2), start=10, complete=3)
    batches = (StateBatch(10, 11, 0, 1), StateBatch(12, 14, 2, 2), StateBatch(15, 19, 0, 1))
    assert shard.read() == ShareState(E.NONE, 1, 10, batches)
    assert shard.summary().delivery_complete_count == 3
    assert shard.is_replayed()


def test_a_write_without_a_start_offset_leaves_it() -> None:
    """A write without a start offset keeps the stored start offset and all batches."""
    shard = Shard()
    shard.initialize(start=3)
    shard.write(A, (3, 5, 2, 1))
    assert shard.last_record() == ShareUpdate(A, 0, 0, 3, (StateBatch(3, 5, 2, 1),), 0)
    assert shard.read() == ShareState(E.NONE, 1, 3, (StateBatch(3, 5, 2, 1),))


def test_a_snapshot_after_enough_updates() -> None:
    """After enough updates a snapshot with all batches is written, and counting restarts."""
    shard = Shard(updates_per_snapshot=2)
    shard.initialize(start=0)
    shard.write(A, (0, 4, 0, 1))
    shard.write(A, (5, 9, 2, 1))
    shard.now_ms = 5000
    shard.write(A, (3, 4, 2, 2), start=2, complete=1)
    batches = (StateBatch(2, 2, 0, 1), StateBatch(3, 4, 2, 2), StateBatch(5, 9, 2, 1))
    snapshot = ShareGroupOffset(1, 1, 0, 2, 1, batches, 5000, 5000)
    assert shard.last_record() == ShareSnapshot(A, snapshot)
    assert shard.state() == snapshot
    shard.write(A, (10, 10, 2, 1))
    assert shard.last_record() == ShareUpdate(A, 1, 0, 2, (StateBatch(10, 10, 2, 1),), 1)
    shard.write()
    shard.write(A, (11, 11, 2, 1))
    assert shard.state().start_offset == 2  # a write without a start offset keeps the stored offset
    assert shard.state().snapshot_epoch == 2
    assert shard.is_replayed()


def test_every_write_is_a_snapshot() -> None:
    """With no updates per snapshot every write is a snapshot."""
    shard = Shard(updates_per_snapshot=0)
    shard.initialize()
    shard.write(A, (0, 4, 0, 1))
    shard.write(A, (5, 9, 0, 1))
    assert [type(record) for record in shard.log] == [ShareSnapshot] * 3
    assert shard.state().batches == (StateBatch(0, 9, 0, 1),)


def test_more_batches_than_any_group_has() -> None:
    """Too many batches, in one write or in several writes, are refused before they are written."""
    shard = Shard()
    shard.initialize()
    many = [(2 * first, 2 * first, 0, 1) for first in range(MOST_BATCHES + 1)]
    assert shard.write(A, *many) == refused(E.UNKNOWN_SERVER_ERROR)
    assert shard.write(A, *many[:-1]) == OK
    assert shard.write(A, many[-1]) == refused(E.UNKNOWN_SERVER_ERROR)
    assert len(shard.log) == 2


def test_a_read_fences_the_leaders_before() -> None:
    """A read with a newer leader epoch writes only this epoch.

    A read with the same leader epoch writes nothing; an older leader epoch is fenced.
    """
    shard = Shard(updates_per_snapshot=4)
    shard.initialize()
    shard.write(A, (0, 4, 2, 1), start=0, complete=5)
    before = ShareState(E.NONE, 1, 0, (StateBatch(0, 4, 2, 1),))
    assert shard.read(leader_epoch=7) == before
    assert shard.last_record() == ShareUpdate(A, 0, 7, 0, (), 5)
    assert shard.read(leader_epoch=7) == before
    assert len(shard.log) == 3
    assert shard.read(leader_epoch=6) == ShareState(
        E.FENCED_LEADER_EPOCH, message=E.FENCED_LEADER_EPOCH.message
    )
    assert shard.write(leader_epoch=6) == refused(E.FENCED_LEADER_EPOCH)
    assert shard.write(leader_epoch=9) == OK
    assert shard.state().leader_epoch == 7, "a write makes nobody the leader"
    assert shard.write(leader_epoch=9) == OK
    assert shard.summary().leader_epoch == 7
    shard.read(leader_epoch=10)  # after four updates the read writes a snapshot
    assert shard.wrote_snapshot()
    assert shard.state().leader_epoch == 10
    assert shard.is_replayed()


def test_an_update_without_a_leader_epoch() -> None:
    """An update without a leader epoch, from another writer, keeps the stored leader epoch."""
    shard = Shard()
    shard.initialize()
    shard.read(leader_epoch=4)
    shard.apply(ShareUpdate(A, 0, -1, -1, ()))
    assert shard.state().leader_epoch == 4


def test_a_log_that_begins_with_an_update() -> None:
    """If the log starts with an update record, the loaded state has the fields of this record.

    The state epoch is then 0, so writes with state epoch 0 are accepted.
    """
    shard = Shard()
    batches = (StateBatch(5, 9, 2, 1),)
    shard.apply(ShareUpdate(A, 4, 2, 5, batches, 5))
    assert shard.state() == ShareGroupOffset(4, 0, 2, 5, 5, batches, 0, 0)
    assert shard.write(leader_epoch=2, state_epoch=0) == OK
    assert shard.write(leader_epoch=1) == refused(E.FENCED_LEADER_EPOCH)


def test_a_share_partition_is_deleted() -> None:
    """A deletion writes a tombstone, after which epochs start again.

    Other share partitions stay.
    """
    shard = Shard()
    shard.initialize(A, state_epoch=5)
    shard.initialize(B)
    shard.read(A, leader_epoch=3)
    assert shard.delete() == OK
    assert shard.last_record() == ShareSnapshot(A, None)
    assert shard.read().message == READ_UNINITIALIZED
    assert shard.read(B).error is E.NONE
    assert shard.delete() == OK
    assert len(shard.log) == 4
    shard.apply(ShareSnapshot(A, None))  # a repeated deletion changes no state
    assert shard.initialize(A, state_epoch=1) == OK
    assert shard.read(leader_epoch=0).error is E.NONE
    assert shard.state().snapshot_epoch == 0
    assert shard.is_replayed()


def test_the_share_partitions_of_deleted_topics() -> None:
    """The share partitions of deleted topics are found by topic id."""
    shard = Shard()
    for key in (A, B, OTHER_TOPIC):
        shard.initialize(key)
    assert shard.core.keys_of({T1}) == [A, B]
    assert shard.core.keys_of({b"?" * 16}) == []


def test_snapshots_of_cold_share_partitions() -> None:
    """Idle share partitions get a new snapshot once, when they are old enough.

    Without another write there is no further snapshot.
    """
    shard = Shard(updates_per_snapshot=1)
    assert shard.core.cold_keys(shard.now_ms, 500) == []
    shard.initialize(A)
    shard.write(A, (0, 4, 2, 1))
    shard.now_ms = 1400
    shard.initialize(B)
    assert shard.core.cold_keys(1499, 500) == []
    assert shard.core.cold_keys(1500, 500) == [A]
    snapshot = shard.core.rewritten(A, 1500)
    assert snapshot == ShareSnapshot(
        A, ShareGroupOffset(1, 1, 0, -1, 0, (StateBatch(0, 4, 2, 1),), 1000, 1500)
    )
    shard.apply(snapshot)
    assert shard.core.cold_keys(2000, 500) == [A, B]
    rewritten = shard.core.rewritten(B, 2000)
    assert rewritten is not None
    shard.apply(rewritten)
    assert shard.core.cold_keys(9000, 500) == []
    shard.now_ms = 9000
    shard.write(A)
    assert shard.core.cold_keys(9000, 500) == []
    shard.write(A)  # this write is a snapshot with the current time
    assert shard.core.cold_keys(9000, 500) == [B]
    assert shard.core.rewritten(OTHER_TOPIC, 9000) is None
    assert shard.is_replayed()


def test_a_rewritten_snapshot_ends_no_count_of_updates() -> None:
    """A rewritten snapshot does not restart the count of updates, as in Kafka."""
    shard = Shard(updates_per_snapshot=2)
    shard.initialize()
    shard.write()
    rewritten = shard.core.rewritten(A, 5000)
    assert rewritten is not None
    shard.apply(rewritten)
    shard.write()
    shard.write()
    assert [type(record).__name__ for record in shard.log] == [
        "ShareSnapshot",
        "ShareUpdate",
        "ShareSnapshot",
        "ShareUpdate",
        "ShareSnapshot",
    ]
    assert shard.state().snapshot_epoch == 2


def test_what_the_log_needs_no_more() -> None:
    """Every record below the oldest needed snapshot is reported as redundant."""
    shard = Shard(updates_per_snapshot=1)
    shard.initialize(A)
    shard.initialize(B)
    shard.write(A)
    shard.write(A)  # the second write is a snapshot at offset 3
    assert shard.core.redundant_offsets.last_redundant_offset == 1
    shard.delete(B)
    assert shard.core.redundant_offsets.last_redundant_offset == 3


def test_records_that_are_none() -> None:
    """Updates without a value and keys of other types are not records of the shard."""
    key, value = encode_record(ShareUpdate(A, 0, 0, 0, ()))
    with pytest.raises(ProtocolError):
        decode_record(key, None)
    with pytest.raises(ProtocolError):
        decode_record(b"\x00\x09" + key[2:], value)
    with pytest.raises(ProtocolError):
        decode_record(b"\x00", value)


def test_the_replay_law() -> None:
    """After any requests a replay of the log, or of its needed part, gives the same state."""
    for seed in range(60):
        random = Random(seed)
        shard = Shard(updates_per_snapshot=random.randrange(4))
        for _ in range(80):
            key = random.choice((A, B, OTHER_TOPIC))
            shard.now_ms += random.randrange(1000)
            deed = random.randrange(12)
            if deed == 0:
                shard.initialize(key, random.randrange(4), random.randrange(-1, 30))
            elif deed == 1:
                shard.delete(key)
            elif deed == 2:
                shard.read(key, random.randrange(-1, 4))
            elif deed == 3:
                for cold in shard.core.cold_keys(shard.now_ms, 2000):
                    rewritten = shard.core.rewritten(cold, shard.now_ms)
                    assert rewritten is not None
                    shard.apply(rewritten)
            else:
                first = random.randrange(40)
                batch = (first, first + random.randrange(9), random.choice((0, 2, 4)), 1)
                shard.write(key, batch, start=random.randrange(-1, 30), state_epoch=3)
        assert shard.is_replayed()
        first_needed = shard.core.redundant_offsets.last_redundant_offset or 0
        pruned = shard.empty()
        for offset, record in enumerate(shard.log[first_needed:], start=first_needed):
            pruned.replay(record, offset)
        for key in (A, B, OTHER_TOPIC):
            assert pruned.state(key) == shard.core.state(key)
