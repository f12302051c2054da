"""Dead letter queues: records are Archiving until their dead letters are written (KIP-1191)."""

from __future__ import annotations

import tracemalloc
from unittest.mock import Mock

import pytest

from coordinator_server.core.share_partitions.dead_letters import (
    Copies,
    LetterCause,
    cause_of,
    header_parts,
    read_copies,
    with_offset,
)
from coordinator_server.core.share_partitions.in_flight import DeadLetters, GivenUpRecords
from coordinator_server.core.share_partitions.settings import ShareSettings
from coordinator_server.steps import run_all
from protocol.batch import Record, build_batch
from protocol.compression import Compression, compress
from protocol.errors import ErrorCode, ProtocolError
from tests.legacy_entries import legacy_entry
from tests.unit.core.share_partitions.context import (
    ACCEPT,
    ACKNOWLEDGED,
    ARCHIVING,
    AVAILABLE,
    GAP,
    LOCK_MS,
    REJECT,
    RELEASE,
    ShareContext,
)

SETTINGS = ShareSettings(
    auto_offset_reset="earliest", delivery_count_limit=2, dead_letter_topic="queue"
)


def fetched(*log: tuple[int, int], times: int = 1) -> ShareContext:
    """Return a context in which A has acquired everything for the `times`-th time."""
    context = ShareContext(*log, settings=SETTINGS).load()
    for _ in range(times - 1):
        context.fetch(max_records=100)
        context.release()
    context.fetch(max_records=100)
    return context


def test_rejected_records_are_sent_once_that_is_written() -> None:
    """Rejected records stay Archiving until their dead letters are sent.

    Archiving records are not done and hold back the start offset.
    """
    context = fetched((0, 4), (5, 9))
    context.persister.is_held = True
    assert context.say((0, 4, REJECT)) == "..."
    assert context.states().startswith("0-4:Archivingx1? ")
    assert context.sent == []
    context.persister.release_held()
    assert context.last_write() == [(0, 4, ARCHIVING, 1)]
    assert context.states().startswith("0-4:Archivingx1 ")
    assert context.offsets() == (0, 9, 0)
    assert context.given_up == []
    assert context.deliver() == [DeadLetters(0, 4, 1, True, "A")]
    assert context.last_write() == [(0, 4, 4, 1)]
    assert context.offsets() == (5, 9, 0)
    assert context.given_up == [GivenUpRecords(0, 4, 1, "A", True, "queue", None)]
    assert context.changes == 1


def test_letters_that_cannot_be_sent_are_archived_as_well() -> None:
    """Records whose dead letters cannot be written are archived, with a reason.

    The archived records count as done behind a record that is not done.
    """
    context = fetched((0, 4))
    context.say((2, 4, REJECT))
    context.deliver("no such topic")
    assert context.states() == "0-1:Acquiredx1/A 2-4:Archivedx1"
    assert context.offsets() == (0, 4, 3)
    assert context.given_up == [GivenUpRecords(2, 4, 1, "A", True, "queue", "no such topic")]
    context.say((0, 1, ACCEPT))
    assert context.offsets() == (5, 5, 0)


def test_the_start_offset_moves_even_if_archived_cannot_be_written() -> None:
    """The start offset moves even if the archived state cannot be written, as in Kafka.

    The state is written with the next change.
    """
    context = fetched((0, 4))
    context.say((0, 4, REJECT))
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    context.deliver()
    assert context.offsets() == (5, 5, 0)


def test_a_rejection_that_cannot_be_written_sends_nothing() -> None:
    """If a rejection cannot be written, no dead letter is sent and the records stay acquired."""
    context = fetched((0, 4))
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert context.say((0, 4, REJECT)) is not None
    assert context.states() == "0-4:Acquiredx1/A"
    assert context.sent == []
    assert context.given_up == []


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT])
def test_a_lock_that_ends_before_a_failed_write_sends_nothing(kind: int) -> None:
    """If the lock expires before a failed write, records at the limit are archived.

    As in Kafka no dead letter is sent; the group's record has the reason.
    """
    context = fetched((0, 4), times=2)
    context.persister.is_held = True
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    context.say((0, 4, kind))
    context.advance(LOCK_MS)
    context.persister.release_held()
    assert context.states() == "0-4:Archivedx2"
    assert context.sent == []
    reason = "the acknowledgement could not be written"
    assert context.given_up == [GivenUpRecords(0, 4, 2, "A", False, "queue", reason)]


def test_the_settings_of_the_group_are_read_once() -> None:
    """The group's settings are read once per expired lock, even if the lock has many runs."""
    context = fetched((0, 99), times=2)
    context.say(*((offset, offset, RELEASE) for offset in range(0, 100, 2)))
    read = Mock(wraps=context.partition._settings)
    context.partition._settings = read
    context.advance(LOCK_MS)
    assert len(context.sent) > 1
    assert read.call_count < 10


def test_a_refused_acknowledgement_sends_nothing() -> None:
    """A refused acknowledgement sends no dead letters: its first range is rolled back."""
    context = fetched((0, 4))
    assert context.say((0, 4, REJECT), (7, 8, REJECT)) is not None
    assert context.states() == "0-4:Acquiredx1/A"
    assert context.sent == []


def test_other_acknowledgements_are_not_sent() -> None:
    """Accepted records and gaps send no dead letters."""
    context = fetched((0, 4))
    context.say((0, 4, [ACCEPT, GAP, REJECT, REJECT, RELEASE]))
    assert context.deliver() == [DeadLetters(2, 3, 1, True, "A")]
    assert context.sent == []
    assert context.states() == "0-0:Acknowledgedx1 1-3:Archivedx1 4-4:Availablex1"
    assert context.offsets() == (4, 4, 0)


@pytest.mark.parametrize("how", ["released", "session ended", "lock expired"])
def test_records_over_the_limit_are_sent(how: str) -> None:
    """Records at the delivery limit become dead letters, however their last delivery ends."""
    context = fetched((0, 4), times=2)
    if how == "released":
        context.say((0, 4, RELEASE))
    elif how == "session ended":
        context.release()
    else:
        context.advance(LOCK_MS)
    assert context.states() == "0-4:Archivingx2"
    assert context.last_write() == [(0, 4, ARCHIVING, 2)]
    assert context.deliver() == [DeadLetters(0, 4, 2, False, "A")]
    assert context.offsets() == (5, 5, 0)
    assert context.given_up == [GivenUpRecords(0, 4, 2, "A", False, "queue", None)]


def test_locks_expire_and_letters_are_sent_even_if_that_cannot_be_written() -> None:
    """After a lock expires, dead letters are sent even if the state cannot be written.

    Kafka does the same.
    """
    context = fetched((0, 4), times=2)
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    context.advance(LOCK_MS)
    assert context.deliver() == [DeadLetters(0, 4, 2, False, "A")]


def test_archiving_records_are_nobodys() -> None:
    """Archiving records can be neither acquired nor acknowledged."""
    context = fetched((0, 4))
    context.say((0, 4, REJECT))
    assert context.fetch("B") == []
    assert context.say((0, 4, ACCEPT)) is not None
    assert context.states() == "0-4:Archivingx1"


def test_archiving_records_are_sent_again_when_the_state_is_read() -> None:
    """The dead letters of Archiving records in a loaded state are sent again, without a member id.

    The delivery count tells whether a record was rejected or reached the delivery limit.
    """
    context = ShareContext((0, 9), settings=SETTINGS)
    context.keep(0, (0, 1, ARCHIVING, 1), (2, 2, ACKNOWLEDGED, 1), (4, 5, ARCHIVING, 2))
    context.keep(0, (6, 6, AVAILABLE, 1))
    context.load()
    assert context.loaded == [ErrorCode.NONE]
    assert context.deliver() == [DeadLetters(0, 1, 1, True, ""), DeadLetters(4, 5, 2, False, "")]
    assert context.sent == []
    assert context.last_write() == [(0, 1, 4, 1), (4, 5, 4, 2)]
    # The start offset stays at 3, because the share partition must fetch the gap there.
    assert context.offsets() == (3, 6, 2)


def test_records_below_a_start_offset_that_has_moved_are_sent() -> None:
    """Archiving records below the new log start offset are sent, but do not count as done."""
    context = fetched((0, 4), (5, 9))
    context.say((0, 4, REJECT))
    context.partition.move_start_offset(3)
    context.deliver()
    assert context.offsets() == (5, 9, 0)


def test_a_rolled_back_release_that_archives_counts() -> None:
    """If the lock expires while a rejection is written, and the write fails, records are Archived.

    The records have reached the delivery limit, so delivery_complete_count includes them.
    """
    context = fetched((0, 4), (5, 9), times=2)
    context.persister.is_held = True
    context.persister.errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    context.say((5, 9, REJECT))
    context.advance(LOCK_MS)
    context.persister.release_held()
    assert context.states() == "0-4:Archivingx2 5-9:Archivedx2"
    assert context.partition.delivery_complete_count == 5
    context.deliver()
    assert context.offsets() == (10, 10, 0)


def test_headers() -> None:
    """The headers of a dead letter have Kafka's names, bytes and order."""
    letters = DeadLetters(5, 6, 3, False, "A")
    assert with_offset(header_parts("jobs", 2, "g\u00e9", letters), 6) == (
        ("__dlq.errors.topic", b"jobs"),
        ("__dlq.errors.partition", b"2"),
        ("__dlq.errors.offset", b"6"),
        ("__dlq.errors.group", "g\u00e9".encode()),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", b"Offset delivery count exceeded the threshold."),
    )
    assert cause_of(letters._replace(is_rejected=True)) is LetterCause.REJECTED


def log_of(
    *sizes: int, compression: Compression = Compression.NONE, value: bytes = b"v" * 10
) -> bytes:
    """Return batches of `count` records of about 20 bytes, from offset 0 on."""
    data, offset = b"", 0
    for size in sizes:
        records = [
            Record(offset + number, 1, b"%d" % (offset + number), value) for number in range(size)
        ]
        data += build_batch(records, compression=compression).to_bytes()
        offset += size
    return data


@pytest.mark.parametrize("compression", Compression)
def test_copies_are_read_from_the_log(compression: Compression) -> None:
    """Only the requested records are copied to the queue, whatever their compression."""
    copies: Copies = {}
    end = run_all(read_copies(log_of(3, 3, compression=compression), 2, 4, 1000, copies))
    assert end == 4
    assert copies == {offset: (b"%d" % offset, b"v" * 10) for offset in (2, 3, 4)}


@pytest.mark.parametrize(("compression", "copied"), [(0, [0, 2]), (1, []), (4, [])])
def test_large_records_are_not_copied(compression: int, copied: list[int]) -> None:
    """A record above the size limit is not copied; a compressed batch is skipped entirely."""
    records = [Record(n, 1, None, b"v" * (200 if n == 1 else 1)) for n in range(3)]
    data = build_batch(records, compression=Compression(compression)).to_bytes()
    copies: Copies = {}
    assert run_all(read_copies(data, 0, 2, 100, copies)) == 2
    assert sorted(copies) == copied


@pytest.mark.parametrize("compression", [one for one in Compression if one])
def test_a_batch_is_not_decompressed_far_beyond_the_limit(compression: Compression) -> None:
    """Decompression of a batch stops at the limit; the records after the batch are copied."""
    large = log_of(1, compression=compression, value=b"v" * 400_000)
    small = build_batch([Record(1, 1, None, b"s")], base_offset=1).to_bytes()
    copies: Copies = {}
    assert run_all(read_copies(large + small, 0, 1, 100, copies)) == 1
    assert copies == {1: (None, b"s")}


@pytest.mark.parametrize("magic", [0, 1])
def test_copies_are_read_from_the_older_formats(magic: int) -> None:
    """Key and value are copied from older message formats, except from large records."""
    entries = [(b"k", b"v"), (None, b"v" * 200), (None, b"w")]
    data = b"".join(
        legacy_entry(magic, offset, value, key=key) for offset, (key, value) in enumerate(entries)
    )
    copies: Copies = {}
    assert run_all(read_copies(data, 0, 2, 100, copies)) == 2
    assert copies == {0: (b"k", b"v"), 2: (None, b"w")}


@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_entries_of_the_older_formats_have_limits(magic: int) -> None:
    """In older formats an entry that decompresses to too many bytes or entries is skipped early."""
    copies: Copies = {}
    tiny = b"".join(legacy_entry(magic, offset, b"") for offset in range(10_001))
    for plain, limit in (
        (legacy_entry(magic, 0, b"v" * 30), 100),
        (legacy_entry(magic, 0, b"v" * 30_000_000), 100),
        (tiny, 1 << 20),
    ):
        value = compress(Compression.GZIP, plain)
        data = legacy_entry(magic, 0, value, attributes=int(Compression.GZIP))
        tracemalloc.start()
        try:
            assert run_all(read_copies(data, 0, 0, limit, copies)) == 0
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()
        assert copies == {0: (None, b"v" * 30)}


def test_copies_are_read_up_to_a_limit() -> None:
    """Copying ends with the batch that reaches the limit."""
    copies: Copies = {}
    assert run_all(read_copies(log_of(3, 3, 3), 0, 8, 60, copies)) == 5
    assert sorted(copies) == [0, 1, 2, 3, 4, 5]


def test_a_gap_of_compaction_is_read_once() -> None:
    """If the next batch starts above the last requested offset, copying is complete."""
    after = build_batch([Record(100, 1, None, b"v")], base_offset=100).to_bytes()
    copies: Copies = {}
    assert run_all(read_copies(after, 3, 50, 1000, copies)) == 50
    assert run_all(read_copies(log_of(3) + after, 0, 50, 1000, copies)) == 50
    assert sorted(copies) == [0, 1, 2]


def test_damaged_records_are_not_copied() -> None:
    """Records before a damaged record are copied; later records are not."""
    data = bytearray(log_of(3))
    data[-1] = 99
    data[-14:] = b"\xff" * 14  # the last record cannot be parsed
    copies: Copies = {}
    with pytest.raises(ProtocolError):
        run_all(read_copies(bytes(data), 0, 2, 1000, copies))
    assert sorted(copies) == [0, 1]
