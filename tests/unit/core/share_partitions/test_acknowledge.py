"""Acknowledgements: their effect, refusals, and written state."""

from __future__ import annotations

import pytest

from coordinator_server.core.share_partitions.acknowledge import OFFSETS_PER_STEP
from coordinator_server.core.share_partitions.in_flight import GivenUpRecords
from coordinator_server.core.share_partitions.settings import ShareSettings
from protocol.errors import ErrorCode
from tests.unit.core.share_partitions.context import (
    ACCEPT,
    GAP,
    KEY,
    LOCK_MS,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    ShareContext,
)

NOT_FOUND = "Batch record not found. The request batch offsets are not found in the cache."
FIRST_IS_PAST = "Batch record not found. The first offset in request is past acquired records."
LAST_IS_PAST = "Batch record not found. The last offset in request is past acquired records."
BATCH_IS_NOT_ACQUIRED = "The batch cannot be acknowledged. The batch is not in the acquired state."
BATCH_OF_ANOTHER = "Member is not the owner of batch record"
OFFSET_IS_NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."
OFFSET_OF_ANOTHER = "Member is not the owner of offset"
NO_RENEWAL = "Renewing acquisition locks is not enabled for the group."
NOT_THE_LEADER = "The share coordinator rejected the request because the share-group state epoch"


def fetched(*log: tuple[int, int], settings: ShareSettings | None = None) -> ShareContext:
    """Return a context in which member A has acquired each of these log batches."""
    context = ShareContext(*log, settings=settings).load()
    for _ in log:
        context.fetch(batches=1)
    return context


def test_all_is_accepted() -> None:
    """If all records are accepted, none is in flight, and the start offset moves past them."""
    context = fetched((0, 4), (5, 9))
    assert context.say((0, 9, ACCEPT)) is None
    assert context.states() == ""
    assert context.offsets() == (10, 10, 0)
    assert context.last_write() == [(0, 9, 2, 1)]
    assert context.persister.states[KEY].delivery_complete_count == 10
    assert context.partition.next_fetch_offset() == 10
    assert context.changes == 1
    assert context.partition.locks.next_deadline_ms() is None


def test_types_of_one_batch_each() -> None:
    """Records acknowledged as gaps or as rejected are archived."""
    context = fetched((0, 4), (5, 9), (10, 14), (15, 19))
    assert context.say((0, 4, RELEASE), (5, 9, REJECT), (10, 14, GAP), (15, 19, ACCEPT)) is None
    assert context.states() == (
        "0-4:Availablex1 | 5-9:Archivedx1 | 10-14:Archivedx1 | 15-19:Acknowledgedx1"
    )
    assert context.offsets() == (0, 19, 15)
    assert context.last_write() == [(0, 4, 0, 1), (5, 14, 4, 1), (15, 19, 2, 1)]
    assert context.partition.next_fetch_offset() == 0


def test_a_type_for_each_offset() -> None:
    """Adjacent offsets with the same result form one run."""
    context = fetched((0, 5))
    assert context.say((0, 5, [ACCEPT, ACCEPT, REJECT, RELEASE, GAP, ACCEPT])) is None
    assert context.states() == (
        "0-1:Acknowledgedx1 2-2:Archivedx1 3-3:Availablex1 4-4:Archivedx1 5-5:Acknowledgedx1"
    )
    assert context.offsets() == (3, 5, 2)
    assert context.last_write() == [(0, 1, 2, 1), (2, 2, 4, 1), (3, 3, 0, 1), (4, 4, 4, 1),
                                    (5, 5, 2, 1)]  # fmt: skip


def test_a_part_of_a_batch() -> None:
    """After a part of a batch is acknowledged, its other records keep their member and lock."""
    context = fetched((0, 9))
    context.advance(10_000)
    assert context.say((3, 5, ACCEPT)) is None
    assert context.states() == "0-2:Acquiredx1/A 3-5:Acknowledgedx1 6-9:Acquiredx1/A"
    assert context.offsets() == (0, 9, 3)
    context.advance(LOCK_MS - 10_000)
    assert context.states() == "0-2:Availablex1 3-5:Acknowledgedx1 6-9:Availablex1"
    assert context.last_write() == [(0, 2, 0, 1), (6, 9, 0, 1)]


def test_over_several_batches() -> None:
    """An acknowledgement may start within one batch and end within another."""
    context = fetched((0, 4), (5, 9), (10, 14))
    assert context.say((2, 11, ACCEPT)) is None
    assert context.states() == (
        "0-1:Acquiredx1/A 2-4:Acknowledgedx1 | 5-9:Acknowledgedx1 | "
        "10-11:Acknowledgedx1 12-14:Acquiredx1/A"
    )
    assert context.last_write() == [(2, 11, 2, 1)]
    assert context.say((0, 1, ACCEPT)) is None
    assert context.offsets() == (12, 14, 0)
    assert context.states() == "10-11:Acknowledgedx1 12-14:Acquiredx1/A"
    assert context.say((12, 14, ACCEPT)) is None
    assert context.offsets() == (15, 15, 0)


def test_from_within_a_gap_of_the_log() -> None:
    """An acknowledgement may start in a gap of the log.

    The member must also hold the batch below the gap, which does not change, as in Kafka.
    """
    context = fetched((0, 4), (10, 14))
    assert context.say((7, 12, ACCEPT)) is None
    assert context.states() == "0-4:Acquiredx1/A | 10-12:Acknowledgedx1 13-14:Acquiredx1/A"
    context = fetched((0, 4), (10, 14))
    context.say((0, 3, ACCEPT))
    assert context.say((7, 12, ACCEPT)) is None
    context = ShareContext((0, 4), (10, 14)).load()
    context.fetch("B", batches=1)
    context.fetch("A", batches=1)
    assert context.say((7, 12, ACCEPT)) == BATCH_OF_ANOTHER


def test_runs_that_are_alike_again_are_one() -> None:
    """Runs that become equal are merged, also if they are acknowledged in reverse order."""
    context = fetched((0, 9))
    for offset in (9, 7, 8, 5, 3, 1, 2, 4, 6):
        assert context.say((offset, offset, ACCEPT)) is None
    assert context.states() == "0-0:Acquiredx1/A 1-9:Acknowledgedx1"
    assert context.say((0, 0, ACCEPT)) is None
    assert context.offsets() == (10, 10, 0)


def test_what_is_not_there_is_refused() -> None:
    """Acknowledging offsets that were never fetched is refused."""
    context = ShareContext((5, 9)).load()
    context.keep(5)
    context.reload()
    assert context.say((5, 9, ACCEPT)) == NOT_FOUND
    context.fetch()
    assert context.say((0, 3, ACCEPT)) is None  # the offset is below the log start offset
    assert context.say((10, 12, ACCEPT)) == FIRST_IS_PAST
    assert context.say((5, 10, ACCEPT)) == LAST_IS_PAST
    context = ShareContext((5, 9)).load()
    context.fetch()
    assert context.offsets() == (5, 9, 0)
    context.partition.start_offset = 0
    assert context.say((2, 6, ACCEPT)) == NOT_FOUND


def test_what_somebody_else_has_is_refused() -> None:
    """An acknowledgement is refused if another member has acquired any of its records."""
    context = fetched((0, 9))
    assert context.say((0, 9, ACCEPT), member="B") == BATCH_OF_ANOTHER
    context.say((0, 4, RELEASE))
    context.fetch("B")
    assert context.say((3, 6, ACCEPT)) == OFFSET_OF_ANOTHER
    assert context.states() == "0-4:Acquiredx2/B 5-9:Acquiredx1/A"


def test_what_nobody_has_is_refused() -> None:
    """Acknowledging records that no member has acquired is refused, also a second time."""
    context = fetched((0, 4), (5, 9), (10, 14))
    context.say((5, 9, ACCEPT), (10, 14, [2, 2, 2, 1, 1]))
    assert context.say((5, 9, ACCEPT)) == BATCH_IS_NOT_ACQUIRED
    assert context.say((11, 12, ACCEPT)) == OFFSET_IS_NOT_ACQUIRED


def test_all_of_a_request_or_nothing() -> None:
    """A refused acknowledgement is rolled back entirely, and nothing is written."""
    context = fetched((0, 4), (5, 9))
    assert context.say((0, 2, ACCEPT), (3, 4, RELEASE), (5, 20, ACCEPT)) == LAST_IS_PAST
    assert context.states() == "0-4:Acquiredx1/A | 5-9:Acquiredx1/A"
    assert context.offsets() == (0, 9, 0)
    assert context.persister.writes == []


def test_the_same_offset_twice_in_a_request() -> None:
    """An acknowledgement that names an offset twice is refused."""
    context = fetched((0, 4))
    assert context.say((0, 2, ACCEPT), (2, 4, ACCEPT)) == OFFSET_IS_NOT_ACQUIRED
    assert context.states() == "0-4:Acquiredx1/A"


def test_what_is_released_for_the_last_time_is_archived() -> None:
    """A released record whose delivery count is at the limit is archived."""
    settings = ShareSettings(delivery_count_limit=2, auto_offset_reset="earliest")
    context = fetched((0, 4), settings=settings)
    context.say((0, 4, RELEASE))
    context.fetch()
    assert context.say((0, 2, RELEASE)) is None
    assert context.states() == "0-2:Archivedx2 3-4:Acquiredx2/A"
    assert context.offsets() == (3, 4, 0)
    assert context.say((3, 4, RELEASE)) is None
    assert context.offsets() == (5, 5, 0)
    assert context.given_up == [GivenUpRecords(0, 2, 2, "A"), GivenUpRecords(3, 4, 2, "A")]


def test_while_it_is_written_nothing_else_happens_to_it() -> None:
    """Records whose change is being written can be neither fetched nor acknowledged.

    The start offset waits for the write.
    """
    context = fetched((0, 4), (5, 9))
    context.persister.is_held = True
    assert context.say((0, 4, RELEASE), (5, 9, ACCEPT)) == "..."
    assert context.states() == "0-4:Availablex1? | 5-9:Acknowledgedx1?"
    assert context.fetch("B") == []
    assert context.say((0, 4, ACCEPT)) == BATCH_IS_NOT_ACQUIRED
    assert context.changes == 0
    context.persister.release_held()
    assert context.states() == "0-4:Availablex1 | 5-9:Acknowledgedx1"
    assert context.changes == 1
    assert context.fetch("B") == [(0, 4, 2)]


def test_parts_of_a_batch_while_it_is_written() -> None:
    """While a part of a batch is written, other members can use its other parts."""
    context = fetched((0, 9))
    context.persister.is_held = True
    context.say((0, 3, ACCEPT))
    context.say((4, 6, RELEASE))
    assert context.say((2, 8, ACCEPT)) == OFFSET_IS_NOT_ACQUIRED
    assert context.offsets() == (0, 9, 4)
    context.persister.release_held()
    assert context.states() == "0-3:Acknowledgedx1 4-6:Availablex1 7-9:Acquiredx1/A"
    assert context.offsets() == (4, 9, 0)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_cannot_be_written_is_undone(error: ErrorCode, told: ErrorCode) -> None:
    """If a write fails, the member has its records again and gets the error."""
    context = fetched((0, 4), (5, 9))
    context.persister.errors = [error, error]
    assert context.say((0, 4, ACCEPT), (5, 9, RELEASE))
    assert context.states() == "0-4:Acquiredx1/A | 5-9:Acquiredx1/A"
    assert context.offsets() == (0, 9, 0)
    assert context.changes == 0
    assert context.partition.locks.next_deadline_ms() == 1_000 + LOCK_MS
    answers: list[ErrorCode | None] = []
    context.partition.release("A", lambda refusal: answers.append(refusal and refusal.error))
    assert answers == [told]


def test_a_lock_that_expires_while_it_is_written() -> None:
    """If the lock expires during a failing write, the records are released or archived.

    Records after their last delivery are archived.
    """
    settings = ShareSettings(delivery_count_limit=2, auto_offset_reset="earliest")
    context = fetched((0, 4), settings=settings)
    context.say((0, 1, RELEASE))
    context.fetch()
    context.persister.is_held = True
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    context.say((0, 4, ACCEPT))
    assert context.offsets() == (0, 4, 5)
    context.advance(LOCK_MS)
    assert context.states() == "0-1:Acknowledgedx2? 2-4:Acknowledgedx1?"
    context.persister.release_held()
    assert context.states() == "0-1:Archivedx2 2-4:Availablex1"
    assert context.offsets() == (0, 4, 2)
    assert context.partition.next_fetch_offset() == 2


def test_a_lock_that_expires_while_it_is_written_well() -> None:
    """If the lock expires during a successful write, the acknowledgement stays."""
    context = fetched((0, 4))
    context.persister.is_held = True
    context.say((0, 4, ACCEPT))
    context.advance(LOCK_MS)
    context.persister.release_held()
    assert context.offsets() == (5, 5, 0)


def test_one_of_two_writes_fails() -> None:
    """A failed write of one batch part does not affect written records of the other parts."""
    context = fetched((0, 9))
    context.persister.is_held = True
    context.say((0, 3, ACCEPT))
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    context.say((4, 6, ACCEPT))
    context.persister.release_held()
    assert context.states() == "0-3:Acknowledgedx1 4-9:Acquiredx1/A"
    assert context.offsets() == (4, 9, 0)


def test_a_renewed_lock_stays_when_a_write_beside_it_fails() -> None:
    """After a failed write one member can have records with two locks in a batch."""
    context = fetched((0, 9))
    context.advance(10_000)
    context.say((5, 5, RENEW))
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    context.say((4, 4, ACCEPT))
    context.advance(20_000)
    assert context.states() == "0-4:Availablex1 5-5:Acquiredx1/A 6-9:Availablex1"


def test_locks_are_renewed() -> None:
    """A renewal extends the locks of a whole batch or a part, and writes nothing (KIP-1222)."""
    context = fetched((0, 4), (5, 9))
    context.advance(20_000)
    assert context.say((0, 4, RENEW), (6, 7, RENEW)) is None
    assert context.persister.writes == []
    context.advance(10_000)
    assert context.states() == (
        "0-4:Acquiredx1/A | 5-5:Availablex1 6-7:Acquiredx1/A 8-9:Availablex1"
    )
    context.advance(20_000)
    assert context.states() == "0-4:Availablex1 | 5-9:Availablex1"


def test_renewed_with_others() -> None:
    """One request can renew some records and accept others."""
    context = fetched((0, 4))
    context.advance(20_000)
    assert context.say((0, 4, [ACCEPT, RENEW, RENEW, ACCEPT, RELEASE])) is None
    assert context.states() == (
        "0-0:Acknowledgedx1 1-2:Acquiredx1/A 3-3:Acknowledgedx1 4-4:Availablex1"
    )


def test_renewing_can_be_forbidden() -> None:
    """A group config can forbid renewals of acquisition locks."""
    context = fetched((0, 4), (5, 9))
    context.settings = context.settings._replace(renew_acknowledge_enable=False)
    assert context.say((0, 4, RENEW)) == NO_RENEWAL
    assert context.say((5, 6, RENEW)) == NO_RENEWAL


def test_many_types_are_taken_in_steps() -> None:
    """Many acknowledge types are processed in steps, even if they alternate."""
    count = 2 * OFFSETS_PER_STEP + 5
    context = fetched((0, count - 1))
    types = [ACCEPT, RELEASE] * (count // 2) + [ACCEPT]
    assert context.say((0, count - 1, types)) is None
    assert len(context.last_write()) == count
    assert context.offsets() == (1, count - 1, count // 2)
    assert context.fetch("B", max_records=10_000)[:2] == [(1, 1, 2), (3, 3, 2)]


def test_the_log_begins_later_than_what_is_acknowledged() -> None:
    """Records below the start offset are ignored without an error."""
    context = fetched((0, 4), (5, 9), (10, 14))
    context.partition.move_start_offset(7)
    assert context.say((0, 4, ACCEPT)) is None
    assert context.persister.writes == []
    assert context.say((0, 14, ACCEPT)) is None
    assert context.last_write() == [(7, 14, 2, 1)]
    assert context.offsets()[0] == 7  # the records below the start offset are still acquired
    context.advance(LOCK_MS)
    assert context.states() == ""


def test_only_the_front_of_a_batch_is_left_out() -> None:
    """If the log start is within an acknowledged range, offsets below the log start are ignored."""
    context = fetched((0, 9))
    context.partition.move_start_offset(5)
    assert context.say((0, 9, ACCEPT)) is None
    assert context.states() == "0-4:Acquiredx1/A 5-9:Acknowledgedx1"
    assert context.say((0, 9, [ACCEPT] * 10)) == OFFSET_IS_NOT_ACQUIRED
    context.advance(LOCK_MS)
    assert context.offsets() == (10, 10, 0)


def test_an_acknowledgement_that_begins_below_all_that_is_in_flight() -> None:
    """An acknowledgement may start below all in-flight batches after the log start has moved."""
    context = fetched((0, 4), (5, 9))
    context.say((0, 4, ACCEPT))
    assert context.offsets() == (5, 9, 0)
    assert context.say((3, 9, ACCEPT)) is None
    assert context.offsets() == (10, 10, 0)


def test_records_of_a_limit_are_acknowledged_alone() -> None:
    """With a record limit, only the acquired part of a batch can be acknowledged."""
    context = ShareContext((0, 9)).load()
    context.fetch(max_records=3, mode=RECORD_LIMIT)
    assert context.say((0, 3, ACCEPT)) == OFFSET_IS_NOT_ACQUIRED
    assert context.say((0, 2, ACCEPT)) is None
    assert context.states() == "0-2:Acknowledgedx1 3-9:Availablex0"
    assert context.offsets() == (3, 9, 0)
    assert context.partition.locks.next_deadline_ms() is None
