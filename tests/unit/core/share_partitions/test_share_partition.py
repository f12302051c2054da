"""The life of a share partition: loading, expiring locks, and moving offsets."""

from __future__ import annotations

import pytest

from coordinator_server.core.share_partitions.in_flight import GivenUpRecords, Run
from coordinator_server.core.share_partitions.locks import SMALLEST_SWEEP, AcquisitionLocks
from coordinator_server.core.share_partitions.persister import StateBatch
from coordinator_server.core.share_partitions.record_state import LEGAL_TRANSITIONS, RecordState
from coordinator_server.core.share_partitions.settings import ShareSettings
from coordinator_server.core.share_partitions.share_partition import SharePartitionState
from protocol.errors import ErrorCode
from tests.unit.core.share_partitions.context import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    KEY,
    LOCK_MS,
    RECORD_LIMIT,
    RELEASE,
    ShareContext,
)


def test_a_group_that_has_read_nothing_begins_where_its_config_says() -> None:
    """A state with start offset -1 starts at the offset of the group's config."""
    context = ShareContext((0, 4)).load()
    assert context.loaded == [ErrorCode.NONE]
    assert context.offsets() == (0, 0, 0)
    assert context.partition.state_epoch == 2
    context.settings = ShareSettings()
    context.reload()
    assert context.offsets() == (100, 100, 0)


def test_where_to_begin_cannot_be_found_out() -> None:
    """A log error during the offset reset fails the load."""
    context = ShareContext((0, 4))
    context.initial_error = ErrorCode.KAFKA_STORAGE_ERROR
    context.load()
    assert context.loaded == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert context.partition.state is SharePartitionState.FAILED


def test_a_state_is_read_once() -> None:
    """The state is loaded once; calls during the load are refused, and later calls succeed."""
    context = ShareContext((0, 4))
    context.persister.is_held = True
    context.load().load()
    assert context.loaded == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert not context.partition.is_active
    context.persister.release_held()
    context.load()
    assert context.loaded[1:] == [ErrorCode.NONE, ErrorCode.NONE]
    assert context.partition.is_active


def test_a_state_that_cannot_be_read() -> None:
    """A failed load gives Kafka's error, and the share partition stays failed."""
    context = ShareContext((0, 4))
    context.persister.errors = [ErrorCode.FENCED_LEADER_EPOCH]
    context.load().load()
    assert context.loaded == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR]


def test_fenced_while_its_state_is_read() -> None:
    """A share partition that is fenced during its load never becomes active."""
    context = ShareContext((0, 4))
    context.persister.is_held = True
    context.load()
    context.partition.fence()
    context.persister.release_held()
    context.load()
    assert context.loaded == [ErrorCode.LEADER_NOT_AVAILABLE] * 2
    assert context.partition.state is SharePartitionState.FENCED


@pytest.mark.parametrize(
    "batch", [(4, 6, 0, 1), (8, 7, 0, 1), (5, 7, 9, 1)], ids=["below", "turned", "state"]
)
def test_a_state_that_cannot_be(batch: tuple[int, int, int, int]) -> None:
    """A state with batches below the start offset, without offsets or in odd states is refused."""
    context = ShareContext((0, 9))
    context.keep(5)
    kept = context.persister.states[KEY]
    kept.offsets = {}
    context.persister.odd_batches = [StateBatch(*batch)]
    context.load()
    assert context.loaded == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_state_goes_on() -> None:
    """A new leader does not deliver records that are done; it delivers all others again.

    The redelivered records keep their delivery counts.
    """
    context = ShareContext((0, 4), (5, 9), (10, 14)).load()
    context.fetch(batch_size=5)
    context.say((5, 9, ACCEPT), (10, 14, RELEASE))
    context.reload()
    assert context.states() == "5-9:Acknowledgedx1 | 10-14:Availablex1"
    assert context.offsets() == (0, 14, 5)
    assert context.fetch() == [(0, 4, 1), (10, 14, 2)]
    assert context.say((0, 4, ACCEPT), (10, 14, ACCEPT)) is None
    assert context.offsets() == (15, 15, 0)
    context.reload()
    assert context.offsets() == (15, 15, 0)


def test_a_state_in_which_the_first_are_done() -> None:
    """If the first batches of a loaded state are done, the start offset moves past them at once."""
    context = ShareContext((0, 9))
    context.keep(0, (0, 4, ARCHIVED, 1), (5, 9, AVAILABLE, 2))
    context.load()
    assert context.offsets() == (5, 9, 0)


def test_what_was_read_is_only_written_with_an_acknowledgement() -> None:
    """A fetch alone writes nothing; an acknowledgement writes the fetched state."""
    context = ShareContext((0, 4)).load()
    context.fetch()
    assert context.persister.writes == []
    assert context.persister.states[KEY].start_offset == -1


def test_locks_expire() -> None:
    """Expired locks release their records, write the new state, and wake waiting fetches."""
    context = ShareContext((0, 4)).load()
    context.fetch()
    context.advance(LOCK_MS - 1)
    assert context.states() == "0-4:Acquiredx1/A"
    assert context.changes == 0
    context.advance(1)
    assert context.states() == "0-4:Availablex1"
    assert context.last_write() == [(0, 4, 0, 1)]
    assert context.changes == 1
    assert context.fetch("B") == [(0, 4, 2)]


def test_locks_expire_after_the_last_delivery() -> None:
    """A lock that expires after the last delivery archives its records.

    The start offset moves on.
    """
    settings = ShareSettings(delivery_count_limit=2, auto_offset_reset="earliest")
    context = ShareContext((0, 4), settings=settings).load()
    for _ in range(2):
        context.fetch()
        context.advance(LOCK_MS)
    assert context.offsets() == (5, 5, 0)
    assert context.last_write() == [(0, 4, 4, 2)]
    assert context.given_up == [GivenUpRecords(0, 4, 2, "A")]
    assert list(context.partition.given_up) == context.given_up


def test_locks_expire_even_if_that_cannot_be_written() -> None:
    """Locks expire even if the state cannot be written, as in Kafka."""
    context = ShareContext((0, 4)).load()
    context.fetch()
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    context.advance(LOCK_MS)
    assert context.states() == "0-4:Availablex1"
    assert context.persister.writes == []


def test_a_session_ends() -> None:
    """Closing a session releases its records with their delivery counts.

    Other members keep their records.
    """
    context = ShareContext((0, 4), (5, 9), (10, 14)).load()
    context.fetch("A", batches=1)
    context.fetch("B", batches=1)
    context.fetch("A", batches=1)
    context.say((11, 12, ACCEPT))
    context.release("A")
    assert context.states() == (
        "0-4:Availablex1 | 5-9:Acquiredx1/B | "
        "10-10:Availablex1 11-12:Acknowledgedx1 13-14:Availablex1"
    )
    assert context.last_write() == [(0, 4, 0, 1), (10, 10, 0, 1), (13, 14, 0, 1)]
    writes = len(context.persister.writes)
    context.release("A")
    assert len(context.persister.writes) == writes


def test_a_session_that_ends_after_the_last_delivery() -> None:
    """A session that ends after the last delivery archives its records."""
    settings = ShareSettings(delivery_count_limit=2, auto_offset_reset="earliest")
    context = ShareContext((0, 4), settings=settings).load()
    for _ in range(2):
        context.fetch()
        context.release()
    assert context.offsets() == (5, 5, 0)
    assert context.given_up == [GivenUpRecords(0, 4, 2, "A")]


def test_the_log_begins_later() -> None:
    """If the log start moves, available records below are archived.

    Acquired records stay until their lock expires.
    """
    context = ShareContext((0, 4), (5, 9), (10, 14), (15, 19)).load()
    context.fetch(batch_size=5)
    context.say((0, 4, RELEASE), (5, 9, ACCEPT), (15, 19, RELEASE))
    context.partition.move_start_offset(12)
    assert context.states() == (
        "0-4:Archivedx1 | 5-9:Acknowledgedx1 | 10-14:Acquiredx1/A | 15-19:Availablex1"
    )
    assert context.offsets() == (12, 19, 0)
    assert context.partition.next_fetch_offset() == 15
    context.partition.move_start_offset(12)
    context.partition.move_start_offset(17)
    assert context.states().endswith("15-16:Archivedx1 17-19:Availablex1")
    context.advance(LOCK_MS)
    assert context.last_write() == [(10, 14, 4, 1)]
    assert context.fetch() == [(17, 19, 2)]
    assert context.say((17, 17, ACCEPT)) is None
    assert context.states() == "15-16:Archivedx1 17-17:Acknowledgedx2 18-19:Acquiredx2/A"
    assert context.offsets() == (18, 19, 0)


def test_the_log_begins_within_what_somebody_has() -> None:
    """Released records below a moved log start are archived, but not counted as done."""
    context = ShareContext((0, 9)).load()
    context.fetch()
    context.partition.move_start_offset(4)
    context.release()
    assert context.last_write() == [(0, 3, 4, 1), (4, 9, 0, 1)]
    assert context.offsets() == (4, 9, 0)
    context = ShareContext((0, 9)).load()
    context.fetch()
    context.partition.move_start_offset(4)
    context.advance(LOCK_MS)
    assert context.last_write() == [(0, 3, 4, 1), (4, 9, 0, 1)]


def test_the_log_begins_after_all_that_is_in_flight() -> None:
    """If the log start passes all in-flight records, the next fetch starts there.

    Acquired records are archived when they are released.
    """
    context = ShareContext((0, 9), (10, 19), (20, 29)).load()
    context.fetch(batches=1)
    context.partition.move_start_offset(20)
    assert context.offsets() == (20, 20, 0)
    assert context.partition.next_fetch_offset() == 20
    assert context.partition.can_acquire()
    context.release()
    assert context.last_write() == [(0, 9, 4, 1)]
    assert context.offsets() == (20, 20, 0)
    assert context.states() == ""


def test_the_log_begins_later_with_nothing_in_flight() -> None:
    """Without in-flight records the start offset follows the log start."""
    context = ShareContext((0, 9)).load()
    context.partition.move_start_offset(7)
    assert context.offsets() == (7, 7, 0)


def test_the_log_begins_later_while_an_acknowledgement_is_written() -> None:
    """Records that a moved log start has archived stay archived if an acknowledgement fails."""
    context = ShareContext((0, 9)).load()
    context.fetch()
    context.persister.is_held = True
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    context.say((0, 9, RELEASE))
    context.partition.move_start_offset(4)
    assert context.states() == "0-3:Archivedx1 4-9:Availablex1?"
    context.persister.release_held()
    assert context.states() == "0-3:Archivedx1 4-9:Acquiredx1/A"


def test_undone_below_the_start_offset() -> None:
    """After a failed write, records below the log start are not counted as done."""
    context = ShareContext((0, 9)).load()
    context.fetch()
    context.persister.is_held = True
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    context.say((0, 9, ACCEPT))
    context.partition.move_start_offset(4)
    assert context.offsets() == (4, 9, 6)
    context.persister.release_held()
    assert context.offsets() == (4, 9, 0)


def test_the_start_offset_waits_for_what_is_before() -> None:
    """The start offset waits for earlier batches that are not done."""
    context = ShareContext((0, 4), (5, 9), (10, 14)).load()
    context.fetch(batch_size=5)
    context.say((5, 9, ACCEPT))
    assert context.offsets() == (0, 14, 5)
    context.say((0, 1, ACCEPT))
    assert context.offsets() == (2, 14, 5)
    context.say((2, 4, ACCEPT))
    assert context.offsets() == (10, 14, 0)
    assert context.states() == "10-14:Acquiredx1/A"


def test_the_start_offset_stops_at_a_gap() -> None:
    """The start offset stops at a gap that was never written; the gap is fetched again."""
    context = ShareContext((0, 4), (5, 9), (10, 14), (15, 19), (20, 24))
    context.keep(0, (0, 4, AVAILABLE, 1), (10, 14, ACKNOWLEDGED, 1), (20, 24, AVAILABLE, 1))
    context.load()
    assert context.fetch(batches=1) == [(0, 4, 2)]
    assert context.say((0, 4, ACCEPT)) is None
    assert context.offsets() == (5, 24, 5)
    assert context.partition.next_fetch_offset() == 5
    assert context.fetch(batches=1) == [(5, 9, 1)]
    assert context.say((5, 9, ACCEPT)) is None
    assert context.offsets()[0] == 10


def test_nothing_is_done_below_the_start_offset() -> None:
    """An available record at the start offset prevents the start offset from moving."""
    context = ShareContext((0, 4)).load()
    context.fetch()
    context.say((0, 4, RELEASE))
    assert not context.partition.advance()
    context.partition.start_offset = -1
    assert not context.partition.advance()


def test_the_first_batches_are_not_done_but_what_is_at_the_start_offset() -> None:
    """Acquired records below the start offset stay acquired, although later records are done."""
    context = ShareContext((0, 4), (5, 9)).load()
    context.fetch(batch_size=5)
    context.partition.move_start_offset(5)
    context.say((5, 9, ACCEPT))
    assert context.offsets() == (5, 9, 5)


def test_what_is_available_in_part_is_fetched_next() -> None:
    """The next fetch starts at available records within a split batch."""
    context = ShareContext((0, 9)).load()
    context.fetch(max_records=3, mode=RECORD_LIMIT)
    assert context.partition.next_fetch_offset() == 3
    assert context.partition.can_acquire()


def test_dead_locks_do_not_pile_up() -> None:
    """Unused locks are removed before they outnumber the locks in use."""
    context = ShareContext(*((n, n) for n in range(200))).load()
    for offset in range(200):
        context.fetch(batches=1)
        context.say((offset, offset, ACCEPT))
    assert len(context.partition.locks) <= SMALLEST_SWEEP
    assert context.partition.locks.has_new_deadline
    assert context.partition.locks.next_deadline_ms() is None
    assert AcquisitionLocks().expired(10**15) == []


def test_an_expired_lock_of_what_is_done() -> None:
    """An expired lock of a record that is done has no effect."""
    context = ShareContext((0, 4)).load()
    context.fetch()
    context.say((0, 4, ACCEPT))
    context.advance(LOCK_MS)
    assert context.changes == 1


def test_fencing_forgets_the_locks() -> None:
    """A fenced share partition drops its locks and writes nothing."""
    context = ShareContext((0, 4)).load()
    context.fetch()
    context.partition.fence()
    context.advance(LOCK_MS)
    assert context.persister.writes == []
    assert context.fetch() == []


def test_only_legal_transitions() -> None:
    """A record's state can change only by a transition in the table."""
    for state, legal in LEGAL_TRANSITIONS.items():
        for other in RecordState:
            run = Run(0, 1, state, 1)
            if other in legal:
                run.to(other)
                assert run.state is other
            else:
                with pytest.raises(AssertionError):
                    run.to(other)
    assert ACQUIRED.label == "Acquired"
    assert ACKNOWLEDGED.is_terminal
    assert not AVAILABLE.is_terminal


def test_settings_of_a_group() -> None:
    """A group's own settings override the broker's."""
    settings = ShareSettings()
    assert settings.of_group({}) is settings
    own = settings.of_group(
        {
            "share.delivery.count.limit": "10",
            "share.isolation.level": "READ_COMMITTED",
            "share.renew.acknowledge.enable": "false",
            "consumer.session.timeout.ms": "1",
        }
    )
    assert own == ShareSettings(
        delivery_count_limit=10,
        isolation_level="read_committed",
        renew_acknowledge_enable=False,
    )
    assert own.reads_committed
    assert not settings.reads_committed
    assert [settings._replace(delivery_count_limit=n).throttle_limit for n in (2, 4, 5, 10)] == [
        2, 2, 3, 5,
    ]  # fmt: skip
