"""Dead letter queues of share groups (KIP-1191): which records go there, and as what.

Records that a member rejects, or that were delivered too often, become Archiving when the group has
a dead letter queue. Once that state is written they are sent to the queue; then they are Archived,
whether that succeeded or not. A broker that stops in between sends them again when the state is
read, so that a record may be in the queue twice. Topics and logs are the business of
`coordinator.dead_letters`. Source: SharePartition.initiateDLQAndArchive, ShareGroupDLQStateManager.
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
"""Keys and values of records, by offset."""
Headers = tuple[tuple[str, bytes], ...]

RECORDS_PER_STEP = 512
MOST_DECOMPRESSED_BYTES = 8 << 20
"""A compressed batch with more bytes of records is not copied, whatever its queue takes."""
_MOST_PARTS = 10_000
_ZSTD_BLOCK_BYTES = 128 << 10
"""zstd_bound() overestimates by at most one block."""


class LetterCause(StrEnum):
    """Why a record is a dead letter: the value of the header `__dlq.errors.message`."""

    REJECTED = "Offset rejected by client."
    DELIVERY_LIMIT = "Offset delivery count exceeded the threshold."


class QueueOutcome(NamedTuple):
    """What has become of dead letters: `error` is None if all of them are in `queue`."""

    letters: DeadLetters
    queue: str
    error: str | None


def cause_of(letters: DeadLetters) -> LetterCause:
    """Return why these records were given up."""
    return LetterCause.REJECTED if letters.is_rejected else LetterCause.DELIVERY_LIMIT


def header_parts(topic: str, partition: int, group_id: str, letters: DeadLetters) -> Headers:
    """Return the headers of these dead letters; `with_offset` adds the one that differs."""
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
    """Add keys and values of the records `first` to `last` in `data`; return where that ended.

    Records and compressed batches of more than `limit` bytes are left out. Reading ends after a
    batch, when there are `limit` bytes. The result is `last` if the next batch begins above it.
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
        # Imported here: few logs have such batches.
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
    """Return at most `limit` decompressed bytes. Raises ProtocolError, TooLargeError."""
    steps = StepLimit(_MOST_PARTS)
    section = decompress_small(compression, data, limit + _ZSTD_BLOCK_BYTES, steps)
    if len(section) > limit:
        raise TooLargeError
    return section


# --- what the share partition does ----------------------------------------------------------------


def send(partition: SharePartition, letters: Sequence[DeadLetters]) -> None:
    """Write dead letters whose state Archiving is on disk, then archive them."""
    if letters:
        partition.send_dead_letters(partition, letters, partial(_sent, partition))


def _sent(
    partition: SharePartition, outcomes: Sequence[QueueOutcome]
) -> Generator[None, None, None]:
    """Archive what was sent, also what could not be sent."""
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
    """Move the start offset, also when the state could not be written, as in Kafka."""
    if partition.advance():
        partition.changed()


def unwritten(partition: SharePartition, run: Run, member_id: str) -> GivenUpRecords:
    """Return the account of records whose acknowledgement could not be written.

    If their lock has ended meanwhile after the last delivery they are archived, and go to no queue,
    as in Kafka (InFlightState.completeStateTransition).
    """
    queue = partition.settings.dead_letter_topic or None
    error = None if queue is None else "the acknowledgement could not be written"
    return GivenUpRecords(
        run.first, run.last, run.delivery_count, member_id, queue=queue, queue_error=error
    )
