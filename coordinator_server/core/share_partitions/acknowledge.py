"""Acknowledgement of acquired records (SharePartition.acknowledge).

The acknowledgements of one request for one partition succeed or fail together. The records change
state here; the change takes effect once it is written (`SharePartition.persist`), and a refused
request is rolled back before any other code sees the change. RENEW extends an acquisition lock at
once, even if the request then fails; locks are never written.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from coordinator_server.core.share_partitions.in_flight import (
    NO_MEMBER,
    DeadLetters,
    InFlightBatch,
    Run,
    Transition,
)
from coordinator_server.core.share_partitions.record_state import (
    STATE_AFTER,
    AcknowledgeType,
    RecordState,
)
from coordinator_server.core.share_partitions.refusal import Refusal
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from coordinator_server.core.share_partitions.share_partition import SharePartition

OFFSETS_PER_STEP = 4096


class Acknowledgement(Protocol):
    """The acknowledgement of consecutive offsets."""

    @property
    def first_offset(self) -> int:
        """The first offset."""

    @property
    def last_offset(self) -> int:
        """The last offset."""

    @property
    def acknowledge_types(self) -> Sequence[int]:
        """One type for all offsets, or one type for each."""


def _invalid_state(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD_STATE, message)


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, f"Batch record not found. {message}")


_NOT_FOUND = _invalid_state(
    "Batch record not found. The request batch offsets are not found in the cache."
)
_FIRST_IS_PAST = _invalid("The first offset in request is past acquired records.")
_LAST_IS_PAST = _invalid("The last offset in request is past acquired records.")
_BATCH_IS_NOT_ACQUIRED = _invalid_state(
    "The batch cannot be acknowledged. The batch is not in the acquired state."
)
_BATCH_OF_ANOTHER = _invalid_state("Member is not the owner of batch record")
_OFFSET_IS_NOT_ACQUIRED = _invalid_state(
    "The offset cannot be acknowledged. The offset is not acquired."
)
_OFFSET_OF_ANOTHER = _invalid_state("Member is not the owner of offset")
_NO_RENEWAL = _invalid_state("Renewing acquisition locks is not enabled for the group.")


def acknowledge(
    partition: SharePartition,
    member_id: str,
    acknowledgements: Sequence[Acknowledgement],
    now_ms: int,
) -> Generator[None, None, Transition | Refusal]:
    """Apply a member's acknowledgements in steps; return the changes to write, or the refusal.

    The offsets must be ascending and the types valid: one type, or as many as offsets.
    """
    request = _AcknowledgeRequest(partition, member_id, now_ms)
    for acknowledgement in acknowledgements:
        refusal = yield from request.take(acknowledgement)
        if refusal is not None:
            request.undo()
            return refusal
        yield
    return request.transition


class _AcknowledgeRequest:
    """The acknowledgements of one request for one partition."""

    __slots__ = ("_batch", "_member_id", "_now_ms", "_partition", "_settings", "transition")

    def __init__(self, partition: SharePartition, member_id: str, now_ms: int) -> None:
        self._partition = partition
        self._member_id = member_id
        self._now_ms = now_ms
        self._settings = partition.settings
        self._batch: InFlightBatch | None = None  # the batch being processed
        self.transition = Transition()

    def undo(self) -> None:
        """Undo all changes after a refusal."""
        self._partition.roll_back(self.transition)
        if self._batch is not None:
            self._batch.merge(self._batch.first_offset, self._batch.last_offset)

    def take(self, said: Acknowledgement) -> Generator[None, None, Refusal | None]:
        """Apply one acknowledgement; return the refusal, or None."""
        first, last = said.first_offset, said.last_offset
        start_offset = self._partition.start_offset
        if last < start_offset:
            return None  # all offsets are below the start offset
        in_flight = self._partition.in_flight
        floor = in_flight.floor(first)
        if floor is None and first < start_offset:
            floor = in_flight.floor(start_offset)
        if floor is None:
            return _NOT_FOUND
        batches = in_flight.beginning_in(floor.first_offset, last)
        end = batches[-1].last_offset
        if end < first:
            return _FIRST_IS_PAST
        if end < last:
            return _LAST_IS_PAST
        for batch in batches:
            if batch.last_offset < start_offset:
                continue
            refusal = yield from self._take_of(batch, said)
            if refusal is not None:
                return refusal
            yield
        return None

    def _take_of(
        self, batch: InFlightBatch, said: Acknowledgement
    ) -> Generator[None, None, Refusal | None]:
        """Apply an acknowledgement to one batch or a part of it; return the refusal, or None."""
        first, last, types = said.first_offset, said.last_offset, said.acknowledge_types
        self._batch = batch
        if not batch.by_offset:
            run = batch.runs[0]
            if run.member_id == NO_MEMBER:
                return _BATCH_IS_NOT_ACQUIRED
            if run.member_id != self._member_id:
                return _BATCH_OF_ANOTHER
            if (
                len(types) == 1
                and first <= batch.first_offset >= self._partition.start_offset
                and batch.last_offset <= last
            ):
                return self._change(batch, run, types[0])
            batch.by_offset = True
        for piece, kind in self._pieces(batch, first, last, types):
            if piece is None:
                yield
                continue
            run = piece
            if run.state is not RecordState.ACQUIRED:
                return _OFFSET_IS_NOT_ACQUIRED
            if run.member_id != self._member_id:
                return _OFFSET_OF_ANOTHER
            refusal = self._change(batch, run, kind)
            if refusal is not None:
                return refusal
        return None

    def _pieces(
        self, batch: InFlightBatch, first: int, last: int, types: Sequence[int]
    ) -> Iterator[tuple[Run | None, int]]:
        """Yield the acknowledged runs of a batch, each with its type; None ends a step.

        Offsets below the start offset are skipped, because they are done.
        """
        low = max(first, batch.first_offset, self._partition.start_offset)
        high = min(last, batch.last_offset)
        if len(types) == 1:
            if low <= high:
                for run in batch.cover(low, high):
                    yield run, types[0]
            return
        for begin in range(low, high + 1, OFFSETS_PER_STEP):
            end = min(begin + OFFSETS_PER_STEP - 1, high)
            some = types[begin - first : end - first + 1]
            cuts = [
                begin + number
                for number, (kind, other) in enumerate(pairwise(some), 1)
                if kind != other
            ]
            for run in batch.cover(begin, end, cuts):
                yield run, types[run.first - first]
            yield None, 0

    def _change(self, batch: InFlightBatch, run: Run, kind: int) -> Refusal | None:
        """Apply an acknowledge type to an acquired run; return the refusal, or None."""
        partition, settings = self._partition, self._settings
        if kind == AcknowledgeType.RENEW:
            if not settings.renew_acknowledge_enable:
                return _NO_RENEWAL
            partition.lock(batch, run, self._now_ms, settings.record_lock_duration_ms)
            return None
        state = STATE_AFTER[kind]
        limit = settings.delivery_count_limit
        if state is RecordState.AVAILABLE and run.delivery_count >= limit:
            state = partition.give_up(run, settings, self.transition.dead_letters)
        elif kind == AcknowledgeType.REJECT and settings.dead_letter_topic:
            state = RecordState.ARCHIVING
            self.transition.dead_letters.append(
                DeadLetters(run.first, run.last, run.delivery_count, True, run.member_id)
            )
        run.begin(state, limit)
        self.transition.add(batch, run)
        partition.count_done(run)
        return None
