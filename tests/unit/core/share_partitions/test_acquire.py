"""Acquisition: the records that a member gets, in which batches, and how often."""

from __future__ import annotations

import pytest

from coordinator_server.core.share_partitions.acquire import AcquiredRange, without
from coordinator_server.core.share_partitions.fetched import FetchedBatches
from coordinator_server.core.share_partitions.settings import ShareSettings
from protocol.batch import end_transaction_batch
from protocol.batch_header import BEFORE_CRC
from protocol.control_record import EndTransaction
from tests.unit.core.share_partitions.context import (
    ACCEPT,
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    LOCK_MS,
    RECORD_LIMIT,
    RELEASE,
    ShareContext,
    log_batch,
)


def marker(offset: int, producer_id: int, *, commits: bool) -> bytes:
    """Return a control batch that ends a transaction."""
    header, body, _, _ = end_transaction_batch(EndTransaction(producer_id, 0, commits, 0, 0), 1)
    return BEFORE_CRC.pack(offset, header.length, 0, 2, header.crc) + body


def test_new_records_are_acquired_as_one_batch() -> None:
    """Several log batches are acquired as one batch, up to the batch size."""
    context = ShareContext((0, 4), (5, 7), (8, 11)).load()
    assert context.fetch() == [(0, 11, 1)]
    assert context.states() == "0-11:Acquiredx1/A"
    assert context.offsets() == (0, 11, 0)
    assert context.partition.next_fetch_offset() == 12
    assert context.fetch() == []


def test_batch_size_cuts_at_ends_of_log_batches() -> None:
    """With batch size 4, log batches of 5, 3 and 4 records are acquired as two batches."""
    context = ShareContext((0, 4), (5, 7), (8, 11)).load()
    assert context.fetch(batch_size=4) == [(0, 4, 1), (5, 11, 1)]
    assert context.states() == "0-4:Acquiredx1/A | 5-11:Acquiredx1/A"


def test_a_batch_size_of_none_gives_an_empty_batch_first() -> None:
    """With batch size 0 the first batch is empty, as in Kafka, and not in flight."""
    context = ShareContext((0, 4), (5, 7)).load()
    assert context.fetch(batch_size=0) == [(0, -1, 1), (0, 4, 1), (5, 7, 1)]
    assert context.states() == "0-4:Acquiredx1/A | 5-7:Acquiredx1/A"


def test_batch_size_cuts_only_what_is_acquired() -> None:
    """Only acquired log batches use up the batch size."""
    context = ShareContext((0, 4), (5, 9), (10, 14), (15, 19)).load()
    assert context.fetch(max_records=6, batch_size=2) == [(0, 4, 1), (5, 9, 1)]


def test_the_limit_of_records_is_soft() -> None:
    """The record limit is soft: the batch that reaches the limit is still acquired entirely."""
    context = ShareContext((0, 4), (5, 9), (10, 14)).load()
    assert context.fetch(max_records=6) == [(0, 9, 1)]
    assert context.fetch("B", max_records=6) == [(10, 14, 1)]


def test_record_limit_acquires_exactly_so_many() -> None:
    """In strict mode exactly the record limit is acquired, also within a batch (KIP-1206).

    The batch's other records stay available.
    """
    context = ShareContext((0, 9), (10, 19)).load()
    assert context.fetch(max_records=4, mode=RECORD_LIMIT) == [(0, 3, 1)]
    assert context.states() == "0-3:Acquiredx1/A 4-9:Availablex0"
    assert context.partition.next_fetch_offset() == 4
    assert context.fetch("B", max_records=3, mode=RECORD_LIMIT) == [(4, 6, 1)]
    assert context.fetch("C", max_records=5, mode=RECORD_LIMIT) == [(7, 9, 1), (10, 11, 1)]
    assert context.fetch("D", max_records=500, mode=RECORD_LIMIT) == [(12, 19, 1)]


def test_record_limit_takes_a_part_of_what_was_given_back() -> None:
    """In strict mode a released batch that is larger than the limit is split."""
    context = ShareContext((0, 9)).load()
    context.fetch()
    context.say((0, 9, RELEASE))
    assert context.fetch("B", max_records=3, mode=RECORD_LIMIT) == [(0, 2, 2)]
    assert context.states() == "0-2:Acquiredx2/B 3-9:Availablex1"


def test_nothing_to_acquire() -> None:
    """Nothing is acquired without records, with a limit of 0, or from an inactive partition.

    The same holds for a log that ends below the start offset.
    """
    context = ShareContext((0, 4))
    assert context.acquire("A", 10).ranges == []
    context.load()
    assert context.fetch(max_records=0) == []
    assert context.fetch(max_records=-1) == []
    assert context.fetch(batches=0) == []
    context.partition.start_offset = 5
    context.partition.end_offset = 0
    assert context.fetch() == []


def test_what_was_given_back_comes_again_whole() -> None:
    """Released records are acquired again, together with new records.

    Their delivery count rises by one.
    """
    context = ShareContext((0, 4), (5, 9)).load()
    context.fetch(batches=1)
    context.say((0, 4, RELEASE))
    assert context.fetch("B") == [(0, 4, 2), (5, 9, 1)]
    assert context.states() == "0-4:Acquiredx2/B | 5-9:Acquiredx1/B"


def test_what_was_given_back_comes_up_to_the_limit() -> None:
    """Released batches are acquired entirely until the limit is reached."""
    context = ShareContext((0, 4), (5, 9), (10, 14)).load()
    context.fetch(batch_size=5)
    context.release()
    assert context.fetch("B", max_records=6) == [(0, 4, 2), (5, 9, 2)]


def test_what_is_acquired_is_left_out() -> None:
    """A fetch skips the records that other members have acquired."""
    context = ShareContext((0, 4), (5, 9), (10, 14)).load()
    context.fetch("A", batches=1)
    context.fetch("B", batches=1)
    context.fetch("C", batches=1)
    context.release("A")
    context.release("C")
    assert context.fetch("D") == [(0, 4, 2), (10, 14, 2)]
    assert context.partition.next_fetch_offset() == 15


def test_a_part_of_a_batch_comes_again() -> None:
    """Adjacent released offsets with the same delivery count are acquired as one range."""
    context = ShareContext((0, 9)).load()
    context.fetch()
    context.say((0, 9, [ACCEPT, 2, 2, 2, ACCEPT, ACCEPT, 2, 2, ACCEPT, ACCEPT]))
    assert context.partition.next_fetch_offset() == 1
    assert context.fetch("B") == [(1, 3, 2), (6, 7, 2)]
    assert context.say((1, 2, RELEASE), member="B") is None
    assert context.fetch("C") == [(1, 2, 3)]


def test_a_fetch_from_within_a_batch_takes_it_whole() -> None:
    """A stored batch that lies within a log batch is acquired entirely."""
    context = ShareContext((0, 9))
    context.keep(5, (5, 9, AVAILABLE, 1))
    context.load()
    assert context.partition.next_fetch_offset() == 5
    assert context.fetch() == [(5, 9, 2)]


def test_a_batch_that_begins_below_the_start_offset() -> None:
    """Records below the start offset are not acquired."""
    context = ShareContext((0, 9))
    context.keep(5)
    context.load()
    assert context.fetch() == [(5, 9, 1)]


def test_only_the_end_of_what_is_kept_was_read() -> None:
    """If a stored batch ends after the fetched log batches, only its fetched part is acquired."""
    context = ShareContext((0, 4), (5, 9))
    context.keep(0, (0, 9, AVAILABLE, 1))
    context.load()
    assert context.fetch(batches=1) == [(0, 4, 2)]
    assert context.states() == "0-4:Acquiredx2/A 5-9:Availablex1"
    assert context.fetch("B") == [(5, 9, 2)]


def test_a_kept_batch_that_is_acquired_is_not_taken_apart() -> None:
    """An acquired batch is not split if a part of it is fetched again."""
    context = ShareContext((0, 4), (5, 9))
    context.keep(0, (0, 9, AVAILABLE, 1))
    context.load()
    context.fetch()
    context.partition.finds_next_offset = False
    context.partition.end_offset = 3
    assert context.acquire("B", 10, batches=1).ranges == []
    assert not next(iter(context.partition.in_flight)).by_offset


def test_gaps_that_were_in_flight_are_fetched_again() -> None:
    """Gaps between stored batches were never acknowledged and are fetched again."""
    context = ShareContext((0, 4), (5, 9), (10, 14), (15, 19), (20, 24))
    context.keep(0, (5, 9, ACKNOWLEDGED, 1), (15, 19, ACKNOWLEDGED, 1))
    context.load()
    assert context.partition.next_fetch_offset() == 0
    assert context.fetch(max_records=4, batches=2) == [(0, 4, 1)]
    assert context.partition.next_fetch_offset() == 10
    assert context.fetch(batches=1) == [(10, 14, 1)]
    assert context.partition.next_fetch_offset() == 20
    assert context.say((0, 4, ACCEPT), (10, 14, ACCEPT)) is None
    # The gap may be longer; only a fetch shows its end.
    assert context.offsets() == (15, 19, 5)
    assert context.fetch() == [(20, 24, 1)]
    assert context.say((20, 24, ACCEPT)) is None
    assert context.offsets() == (25, 25, 0)


def test_a_gap_ends_where_the_kept_batch_begins() -> None:
    """A gap ends at the stored batch, also within a log batch or with a limit in the gap."""
    context = ShareContext((0, 9), (10, 29))
    context.keep(0, (15, 29, AVAILABLE, 1))
    context.load()
    assert context.fetch(max_records=1) == [(0, 9, 1)]
    assert context.fetch(max_records=3) == [(10, 14, 1)]
    assert context.fetch() == [(15, 29, 2)]
    assert context.partition.next_fetch_offset() == 30


def test_a_gap_is_filled_up_to_the_limit() -> None:
    """If a gap has as many records as the limit, the next fetch gets the records after the gap."""
    context = ShareContext((0, 4), (5, 9))
    context.keep(0, (5, 9, AVAILABLE, 1))
    context.load()
    assert context.fetch(max_records=5) == [(0, 4, 1)]
    assert context.fetch(max_records=5) == [(5, 9, 2)]


def test_two_gaps_in_one_fetch() -> None:
    """A fetch may fill two gaps, up to the limit."""
    context = ShareContext((0, 4), (5, 9), (10, 14), (15, 19))
    context.keep(0, (5, 9, ACKNOWLEDGED, 1), (15, 19, AVAILABLE, 2))
    context.load()
    assert context.fetch(max_records=11) == [(0, 4, 1), (10, 14, 1), (15, 19, 3)]


def test_batches_that_compaction_removed_are_archived() -> None:
    """Released batches that compaction has removed are archived."""
    context = ShareContext((0, 4), (5, 9), (10, 14)).load()
    context.fetch(batch_size=5)
    context.say((0, 14, RELEASE))
    del context.log[0:2]
    assert context.fetch("B") == [(10, 14, 2)]
    assert context.states() == "0-4:Archivedx1 | 5-9:Archivedx1 | 10-14:Acquiredx2/B"
    assert context.offsets() == (0, 14, 10)
    assert context.say((10, 14, ACCEPT), member="B") is None
    assert context.offsets() == (15, 15, 0)


def test_a_part_that_compaction_removed_is_archived() -> None:
    """After compaction the missing records of a released batch are archived."""
    context = ShareContext((0, 4), (5, 9)).load()
    context.fetch(batch_size=5)
    context.say((0, 4, [ACCEPT, ACCEPT, 2, 2, 2]))
    del context.log[0]
    assert context.fetch("B") == []
    assert context.states() == "0-1:Acknowledgedx1 2-4:Archivedx1 | 5-9:Acquiredx1/A"
    assert context.offsets() == (2, 9, 3)


def test_all_that_may_be_in_flight_is_gone_from_the_log() -> None:
    """If all in-flight records are gone from the log, the start offset moves past them.

    Kafka does not move it, because no records are left to acknowledge.
    """
    settings = ShareSettings(partition_max_record_locks=10, auto_offset_reset="earliest")
    context = ShareContext((0, 9), (10, 19), settings=settings).load()
    context.fetch(batches=1)
    context.release()
    del context.log[0]
    assert context.fetch() == []
    assert context.offsets() == (0, 9, 10)
    assert context.fetch() == [(10, 19, 1)]
    assert context.offsets() == (10, 19, 0)


def test_all_that_may_be_in_flight_lies_behind_a_gap() -> None:
    """The start offset moves even if records within a filled gap were delivered again."""
    settings = ShareSettings(partition_max_record_locks=10, auto_offset_reset="earliest")
    context = ShareContext((0, 3), (4, 7), (8, 11), (12, 20), (21, 30), settings=settings)
    context.keep(0, (4, 7, AVAILABLE, 1), (12, 20, ACKNOWLEDGED, 1))
    context.load()
    assert context.fetch() == [(0, 3, 1), (4, 7, 2), (8, 11, 1)]
    context.say((4, 7, RELEASE))
    assert context.fetch() == [(4, 7, 3)]
    assert context.say((0, 11, ACCEPT)) is None
    assert context.offsets() == (8, 20, 13)
    assert context.fetch() == [(21, 30, 1)]


def test_a_long_aborted_transaction() -> None:
    """An aborted transaction may have more records than can be in flight."""
    settings = ShareSettings(partition_max_record_locks=10, auto_offset_reset="earliest")
    context = ShareContext(settings=settings).load()
    context.log = [log_batch(first, first + 9, producer_id=7) for first in range(0, 50, 10)]
    context.aborted = [(7, 0)]
    assert [context.fetch() for _ in range(5)] == [[]] * 5
    assert context.offsets() == (40, 49, 10)


def test_so_many_may_be_in_flight() -> None:
    """At the in-flight limit no new records are acquired, but released records are."""
    settings = ShareSettings(partition_max_record_locks=10, auto_offset_reset="earliest")
    context = ShareContext((0, 4), (5, 9), (10, 14), settings=settings).load()
    assert context.fetch(batches=1) == [(0, 4, 1)]
    assert context.acquire("A", 500).ranges == [(5, 9, 1)]
    assert not context.partition.can_acquire()
    assert context.acquire("A", 500).ranges == []
    context.say((5, 9, RELEASE))
    assert context.partition.can_acquire()
    assert context.fetch("B") == [(5, 9, 2)]
    context.say((7, 7, RELEASE), member="B")
    assert context.fetch("C", max_records=1) == [(7, 7, 3)]


@pytest.mark.parametrize(
    ("limit", "pieces"),
    [
        (5, [10, 10, 10, 5, 1]),
        (6, [10, 10, 10, 5, 2, 1]),
        (2, [10, 10]),
        (3, [10, 10, 1]),
        (10, [10, 10, 10, 10, 10, 5, 2, 1, 1]),
    ],
)
def test_what_fails_again_and_again_comes_in_smaller_pieces(limit: int, pieces: list[int]) -> None:
    """Records that fail repeatedly are acquired in smaller batches.

    From half of the delivery limit on, each delivery halves the batch; the last has one record.
    """
    settings = ShareSettings(delivery_count_limit=limit, auto_offset_reset="earliest")
    context = ShareContext((0, 9), settings=settings).load()
    sizes = []
    for _ in pieces:
        ((first, last, _),) = context.fetch()
        sizes.append(last - first + 1)
        assert first == 0
        context.release()
    assert sizes == pieces


def test_every_record_ends_when_all_are_poison() -> None:
    """If every delivery fails, each record is delivered up to the limit and then archived."""
    context = ShareContext((0, 9)).load()
    deliveries: dict[int, int] = {}
    for _ in range(200):
        for first, last, count in context.fetch():
            for offset in range(first, last + 1):
                deliveries[offset] = count
        context.release()
    assert deliveries == dict.fromkeys(range(10), 5)
    assert context.offsets() == (10, 10, 0)


def test_throttled_batches_come_alone() -> None:
    """A throttled batch is acquired in a fetch of its own."""
    context = ShareContext((0, 4), (5, 9), (10, 14), (15, 19))
    context.keep(0, (0, 4, AVAILABLE, 1), (5, 9, AVAILABLE, 3), (10, 14, AVAILABLE, 1))
    context.load()
    assert context.fetch("A") == [(0, 4, 2)]
    assert context.fetch("B") == [(5, 6, 4)]
    assert context.fetch("C") == [(7, 8, 4)]
    assert context.fetch("D") == [(9, 9, 4)]
    assert context.fetch("E") == [(10, 14, 2), (15, 19, 1)]


def test_throttled_parts_come_alone() -> None:
    """Throttled parts of a split batch are acquired alone; parts in other states are ignored."""
    context = ShareContext((0, 9)).load()
    context.fetch()
    context.say((0, 9, [ACCEPT] * 5 + [RELEASE] * 5))
    for _ in range(2):
        context.fetch()
        context.release()
    assert context.states() == "0-4:Acknowledgedx1 5-9:Availablex3"
    assert context.fetch() == [(5, 9, 4)]
    context.say((5, 5, ACCEPT))
    context.release()
    assert context.fetch("B") == [(6, 6, 5)]


def test_before_the_last_time_others_come_first() -> None:
    """A record before its last delivery is acquired alone, and never after other records."""
    context = ShareContext((0, 3)).load()
    context.fetch()
    for _ in range(3):
        context.say((2, 2, RELEASE))
        assert context.fetch()[0][:2] == (2, 2)
    context.release()
    assert context.states() == "0-1:Availablex1 2-2:Availablex4 3-3:Availablex1"
    assert [context.fetch() for _ in range(3)] == [[(0, 1, 2)], [(2, 2, 5)], [(3, 3, 2)]]


def test_aborted_records_are_archived() -> None:
    """For a read_committed group acquired records of aborted transactions are archived.

    The fetch does not return these records.
    """
    context = ShareContext().load()
    context.log = [
        log_batch(0, 4, producer_id=7),
        log_batch(5, 9, producer_id=8),
        log_batch(10, 11),
        marker(12, 7, commits=False),
        log_batch(13, 14, producer_id=7),
        marker(15, 8, commits=True),
        marker(16, 7, commits=True),
    ]
    context.aborted = [(7, 0)]
    acquired = context.acquire("A", 500)
    assert acquired.ranges == [(5, 16, 1)]
    assert acquired.total == 12
    assert context.states() == "0-4:Archivedx1 5-16:Acquiredx1/A"
    assert context.offsets() == (0, 16, 5)


def test_aborted_records_within_what_was_acquired() -> None:
    """Aborted records within an acquired range are cut out."""
    context = ShareContext().load()
    context.log = [log_batch(0, 4), log_batch(5, 9, producer_id=7), log_batch(10, 14)]
    context.aborted = [(7, 5), (9, 100)]
    assert context.fetch() == [(0, 4, 1), (10, 14, 1)]
    assert context.offsets() == (0, 14, 5)


def test_aborted_records_that_begin_below_the_start_offset() -> None:
    """A log batch with aborted records may start below the in-flight records."""
    context = ShareContext()
    context.keep(3)
    context.load()
    context.log = [log_batch(0, 4, producer_id=7), log_batch(5, 9)]
    context.aborted = [(7, 0)]
    assert context.fetch() == [(5, 9, 1)]


def test_a_control_batch_without_a_marker_ends_nothing() -> None:
    """A control batch that compaction has emptied ends no transaction."""
    empty = bytearray(log_batch(5, 5, producer_id=7))
    empty[22] |= 0x20
    empty[57:61] = bytes(4)
    records = log_batch(0, 4, producer_id=7) + bytes(empty) + log_batch(6, 7, producer_id=7)
    assert FetchedBatches(records, [(7, 0)]).aborted_ranges() == [(0, 4), (5, 5), (6, 7)]


def test_records_are_sliced_to_what_was_acquired() -> None:
    """The response has the whole log batches from the first acquired offset to the last."""
    batches = [log_batch(0, 4), log_batch(5, 9), log_batch(10, 14)]
    fetched = FetchedBatches(b"".join(batches))
    assert fetched.slice(0, 14) == fetched.records
    assert fetched.slice(7, 8) == batches[1]
    assert fetched.slice(2, 5) == batches[0] + batches[1]
    assert fetched.slice(12, 14) == batches[2]
    assert FetchedBatches(batches[1]).slice(3, 7) == batches[1]


def test_no_more_batches_than_can_be_acquired() -> None:
    """The number of log batches that are read is limited to the batches that can be acquired.

    The limit counts from the first offset, or from the end of the in-flight records.
    """
    batches = [log_batch(first, first + 4) for first in range(10, 50, 5)]
    records = b"".join(batches)
    assert FetchedBatches(records).last_offset == 49
    fetched = FetchedBatches(records, (), 0, 7)
    assert (fetched.last_offset, fetched.stop_offset) == (19, 17)
    assert fetched.slice(10, 19) == batches[0] + batches[1]
    assert FetchedBatches(records, (), 22, 7).last_offset == 29
    assert FetchedBatches(b"").stop_offset == -1


def test_the_end_of_the_batch_with_an_offset() -> None:
    """`end_of_batch_with` returns the offset itself if no batch contains the offset."""
    fetched = FetchedBatches(log_batch(5, 9) + log_batch(15, 19))
    assert [fetched.end_of_batch_with(one) for one in (3, 5, 7, 12, 16)] == [3, 9, 9, 12, 19]


def test_ranges_without_others() -> None:
    """`without` removes ranges that may start and end anywhere."""
    ranges = [AcquiredRange(0, 9, 1), AcquiredRange(20, 29, 2), AcquiredRange(30, 39, 1)]
    left = without(ranges, [(0, 2), (5, 6), (8, 22), (35, 50)])
    assert left == [(3, 4, 1), (7, 7, 1), (23, 29, 2), (30, 34, 1)]


def test_locks_end_by_their_time() -> None:
    """Each acquisition has a separate lock, which ends at its own time."""
    context = ShareContext((0, 4), (5, 9)).load()
    context.fetch(batches=1)
    context.now_ms += 10_000
    context.fetch(batches=1)
    context.advance(LOCK_MS - 10_000)
    assert context.states() == "0-4:Availablex1 | 5-9:Acquiredx1/A"
    context.advance(10_000)
    assert context.states() == "0-4:Availablex1 | 5-9:Availablex1"
    assert ARCHIVED.label == "Archived"
