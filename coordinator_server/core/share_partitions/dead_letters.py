"""Dead letter queues of share groups (KIP-1191): selection and content of dead letters.

If the group has a dead letter queue, records that a member rejects or that reach the delivery limit
become Archiving. Once this state is written, the records are sent to the queue, and then become
Archived, whether sending succeeded or not. A broker that stops in between sends the records again
after loading the state, so the queue can get a record twice. `coordinator.dead_letters` handles
topics and logs. Source: SharePartition.initiateDLQAndArchive, ShareGroupDLQStateManager.
"""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.share_partitions.in_flight import DeadLetters, GivenUpRecords, Run
from coordinator_server.core.share_partitions.persister import StateBatch
from coordinator_server.core.share_partitions.record_state import RecordState
from protocol.batch_header import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    iterate_batches,
)
from protocol.large_payload import decompress_small
from protocol.raw_records import raw_records
from protocol.step_limit import StepLimit, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from coordinator_server.core.share_partitions.share_partition import SharePartition
    from protocol.batch_header import BatchHeader
    from protocol.compression import Compression
    from protocol.errors import ErrorCode

    Done = Callable[[Sequence["QueueOutcome"]], Generator[None, None, None]]
    Send = Callable[[SharePartition, Sequence[DeadLetters], Done], None]
    """Writes dead letters of a share partition, then runs the steps that `Done` returns."""

Copies = dict[int, tuple[bytes | None, bytes | None]]
"""Offset -> key and value of the record."""
Headers = tuple[tuple[str, bytes], ...]

RECORDS_PER_STEP = 512
MOST_DECOMPRESSED_BYTES = 8 << 20
"""The largest compressed batch that is copied, in decompressed bytes of records."""
_MOST_PARTS = 10_000
_ZSTD_BLOCK_BYTES = 128 << 10
"""zstd_bound() overestimates by at most one block."""


class LetterCause(StrEnum):
    """Why a record is a dead letter; the value of the header `__dlq.errors.message`."""

    REJECTED = "Offset rejected by client."
    DELIVERY_LIMIT = "Offset delivery count exceeded the threshold."


class QueueOutcome(NamedTuple):
    """The result of sending dead letters: `error` is None if all of them are in `queue`."""

    letters: DeadLetters
    queue: str
    error: str | None


def cause_of(letters: DeadLetters) -> LetterCause:
    """Return the cause of the dead letters: rejected, or at the delivery limit."""
    return LetterCause.REJECTED if letters.is_rejected else LetterCause.DELIVERY_LIMIT


def header_parts(topic: str, partition: int, group_id: str, letters: DeadLetters) -> Headers:
    """Return the headers that these dead letters share; `with_offset` adds the offset."""
    return (
        ("__dlq.errors.topic", topic.encode()),
        ("__dlq.errors.partition", b"%d" % partition),
        ("__dlq.errors.group", group_id.encode()),
        ("__dlq.errors.delivery.count", b"%d" % letters.delivery_count),
        ("__dlq.errors.message", cause_of(letters).encode()),
    )


def with_offset(parts: Headers, offset: int) -> Headers:
    """Return the headers of one dead letter, in Kafka's order."""
    return (*parts[:2], ("__dlq.errors.offset", b"%d" % offset), *parts[2:])


def read_copies(
    data: bytes, first: int, last: int, limit: int, copies: Copies
) -> Generator[None, None, int]:
    """Add keys and values of the records `first` to `last` in `data`; return the last offset read.

    Records and compressed batches of more than `limit` bytes are skipped. Reading stops after the
    batch that reaches `limit` bytes. The result is `last` if the next batch begins above `last`.
    Raises ProtocolError. Source: ShareGroupDLQRecordFetcher.
    """
    size, end = 0, first
    for header in iterate_batches(data):
        if header.base_offset > last:
            return last
        if size >= limit:
            break
        with suppress(TooLargeError):
            for number, record in enumerate(_records(data, header, limit)):
                offset, key, value, record_size = record
                if first <= offset <= last and record_size <= limit:
                    copies[offset] = key, value
                    size += record_size
                if number % RECORDS_PER_STEP == RECORDS_PER_STEP - 1:
                    yield
        end = max(end, min(header.last_offset, last))
        yield
    return end


def _records(
    data: bytes, header: BatchHeader, limit: int
) -> Iterator[tuple[int, bytes | None, bytes | None, int]]:
    """Yield offset, key, value and size of the records of a batch.

    Raises ProtocolError, and TooLargeError for a compressed batch of more than `limit` bytes.
    """
    decompressor = partial(_decompressed, min(limit, MOST_DECOMPRESSED_BYTES))
    if header.magic < 2:
        # Imported here, because few logs have batches of the formats 0 and 1.
        from protocol.legacy_batch import legacy_records

        for offset, _, key, value in legacy_records(data, header, 0, decompressor, _MOST_PARTS):
            yield offset, key, value, len(key or b"") + len(value or b"")
        return
    begin = header.position + HEADER_BYTES
    end = header.position + header.length + LOG_OVERHEAD_BYTES
    section = data
    if header.attributes & COMPRESSION_MASK:
        section = decompressor(header.compression, data[begin:end])
        begin, end = 0, len(section)
    for start, stop, _, delta, key, value, _ in raw_records(
        section, header.record_count, begin, end
    ):
        yield header.base_offset + delta, key, value, stop - start


def _decompressed(limit: int, compression: Compression, data: bytes) -> bytes:
    """Return the decompressed bytes.

    Raises TooLargeError for more than `limit` bytes, ProtocolError for malformed data.
    """
    steps = StepLimit(_MOST_PARTS)
    section = decompress_small(compression, data, limit + _ZSTD_BLOCK_BYTES, steps)
    if len(section) > limit:
        raise TooLargeError
    return section


# --- dead letters ---------------------------------------------------------------------------------


def send(partition: SharePartition, letters: Sequence[DeadLetters]) -> None:
    """Send dead letters whose Archiving state is written, then archive them."""
    if letters:
        partition.send_dead_letters(partition, letters, partial(_sent, partition))


def _sent(
    partition: SharePartition, outcomes: Sequence[QueueOutcome]
) -> Generator[None, None, None]:
    """Archive dead letters after sending, whether sending succeeded or not."""
    state_batches: list[StateBatch] = []
    for letters, queue, error in outcomes:
        first, last, delivery_count, is_rejected, member_id = letters
        floor = partition.in_flight.floor(first)
        begin = first if floor is None else floor.first_offset
        batches = partition.in_flight.beginning_in(begin, last)
        partition.archive(batches, first, last, RecordState.ARCHIVING)
        partition.delivery_complete_count += partition.count_in_flight(first, last)
        state_batches.append(StateBatch(first, last, RecordState.ARCHIVED, delivery_count))
        partition.tell_given_up(
            GivenUpRecords(first, last, delivery_count, member_id, is_rejected, queue, error)
        )
        yield
    partition.write(state_batches, partial(_archived, partition))


def _archived(partition: SharePartition, _: ErrorCode) -> None:
    """Advance the start offset, even if the state could not be written, as in Kafka."""
    if partition.advance():
        partition.changed()


def unwritten(partition: SharePartition, run: Run, member_id: str) -> GivenUpRecords:
    """Return the event for records whose acknowledgement could not be written.

    If the lock of the last delivery has expired meanwhile, the records are archived without
    reaching a queue, as in Kafka (InFlightState.completeStateTransition).
    """
    queue = partition.settings.dead_letter_topic or None
    error = None if queue is None else "the acknowledgement could not be written"
    return GivenUpRecords(
        run.first, run.last, run.delivery_count, member_id, queue=queue, queue_error=error
    )
