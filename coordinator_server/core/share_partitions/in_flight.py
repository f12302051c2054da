"""The records in flight: batches of offsets that were fetched for the group and are not all done.

As in Kafka, a batch has one state until a part of it is treated differently, and from then on a
state per offset (InFlightBatch, InFlightState). Here states per offset are kept in runs of
consecutive offsets with equal attributes. Batches are split only where offsets differ, and equal
runs are merged again, so that neither a large batch nor a batch that is acknowledged record by
record needs an object per offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.share_partitions.persister import StateBatch
from coordinator_server.core.share_partitions.record_state import (
    LEGAL_TRANSITIONS,
    TERMINAL_STATES,
    RecordState,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NO_MEMBER = ""
"""The member id of records that are not acquired; no member has an empty id."""

_first = attrgetter("first")
_first_offset = attrgetter("first_offset")


class AcquisitionLock:
    """The lock of `first_offset` to `last_offset` of `batch`, until `deadline_ms`.

    `held` is the number of records that are still locked; their runs refer to this lock.
    """

    __slots__ = ("batch", "deadline_ms", "first_offset", "has_expired", "held", "last_offset")

    def __init__(
        self, batch: InFlightBatch, first_offset: int, last_offset: int, deadline_ms: int
    ) -> None:
        self.batch = batch
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.deadline_ms = deadline_ms
        self.held = last_offset - first_offset + 1
        self.has_expired = False


class Undo(NamedTuple):
    """The attributes of a run before a change that is not written yet."""

    state: RecordState
    member_id: str
    delivery_count_limit: int


class Run:
    """Consecutive offsets of a batch, `first` to `last`, with equal attributes.

    `undo` is set while a change is being written; during the write no other change is allowed.
    """

    __slots__ = ("delivery_count", "first", "last", "lock", "member_id", "state", "undo")

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        delivery_count: int,
        member_id: str = NO_MEMBER,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock: AcquisitionLock | None = None
        self.undo: Undo | None = None

    @property
    def is_available(self) -> bool:
        """Whether the records can be acquired."""
        return self.state is RecordState.AVAILABLE and self.undo is None

    @property
    def is_done(self) -> bool:
        """Whether the records are acknowledged or archived, and this state is written."""
        return self.state in TERMINAL_STATES and self.undo is None

    def cut(self, offset: int) -> Run:
        """Keep the offsets below `offset`; return a run with the remaining offsets."""
        rest = Run(offset, self.last, self.state, self.delivery_count, self.member_id)
        rest.lock, rest.undo = self.lock, self.undo
        self.last = offset - 1
        return rest

    def is_like(self, other: Run) -> bool:
        """Return whether the runs can be merged; delivery counts of done records are ignored."""
        return (
            self.state is other.state
            and self.lock is other.lock
            and self.undo is None
            and other.undo is None
            and self.member_id == other.member_id
            and (self.delivery_count == other.delivery_count or self.state in TERMINAL_STATES)
        )

    def to(self, state: RecordState, member_id: str = NO_MEMBER) -> None:
        """Change the state and keep the lock. Raises AssertionError for an illegal transition."""
        assert self.undo is None, f"a change of {self.first} to {self.last} is being written"
        assert state in LEGAL_TRANSITIONS[self.state], f"from {self.state.name} to {state.name}"
        self.state = state
        self.member_id = member_id

    def begin(self, state: RecordState, delivery_count_limit: int) -> None:
        """Start a change of state, which `commit` or `roll_back` ends."""
        undo = Undo(self.state, self.member_id, delivery_count_limit)
        self.to(state)
        self.undo = undo

    def commit(self) -> None:
        """End a change that was written."""
        self.undo = None
        self.unlock()

    def roll_back(self, undo: Undo) -> None:
        """Undo a change that could not be written.

        A lock that has expired meanwhile releases the records now.
        """
        self.undo = None
        if self.lock is not None and self.lock.has_expired:
            is_last = self.delivery_count >= undo.delivery_count_limit
            self.state = RecordState.ARCHIVED if is_last else RecordState.AVAILABLE
            self.unlock()
        else:
            self.state, self.member_id, _ = undo

    def archive(self) -> None:
        """Archive the records in any state, because they are deleted or must not be delivered."""
        self.state = RecordState.ARCHIVED
        self.member_id = NO_MEMBER
        self.undo = None
        self.unlock()

    def unlock(self) -> None:
        """Remove the lock."""
        if self.lock is not None:
            self.lock.held -= self.last - self.first + 1
            self.lock = None


class InFlightBatch:
    """One batch: `first_offset` to `last_offset`, in runs without gaps.

    `by_offset` is set once a part was treated differently; the batch then has no common state.
    """

    __slots__ = ("by_offset", "first_offset", "last_offset", "runs")

    def __init__(self, run: Run) -> None:
        self.first_offset = run.first
        self.last_offset = run.last
        self.runs = [run]
        self.by_offset = False

    def __len__(self) -> int:
        """Return the number of offsets."""
        return self.last_offset - self.first_offset + 1

    def is_within(self, first: int, last: int) -> bool:
        """Return whether the whole batch is in the range."""
        return first <= self.first_offset and self.last_offset <= last

    def run_at(self, offset: int) -> Run:
        """Return the run that contains `offset`, or the nearest run."""
        return self.runs[self._index(offset)]

    def overlapping(self, first: int, last: int) -> list[Run]:
        """Return the runs that overlap the range; the range must overlap the batch."""
        return self.runs[self._index(first) : self._index(last) + 1]

    def cover(self, first: int, last: int, cuts: Sequence[int] = ()) -> list[Run]:
        """Return runs that cover exactly the range; split runs at its ends and at `cuts`."""
        runs = self.runs
        first, last = max(first, self.first_offset), min(last, self.last_offset)
        low, high = self._index(first), self._index(last)
        if not cuts and runs[low].first == first and runs[high].last == last:
            return runs[low : high + 1]
        self.by_offset = True
        pieces: list[Run] = []
        bounds = iter((first, *cuts, last + 1))
        bound = next(bounds)
        for piece in runs[low : high + 1]:
            while bound <= piece.last:
                if bound > piece.first:
                    rest = piece.cut(bound)
                    pieces.append(piece)
                    piece = rest
                bound = next(bounds, self.last_offset + 1)
            pieces.append(piece)
        runs[low : high + 1] = pieces
        begin = 1 if pieces[0].first < first else 0
        return pieces[begin : len(pieces) - (pieces[-1].last > last)]

    def merge(self, first: int, last: int) -> None:
        """Merge adjacent equal runs in the range and at its ends."""
        runs = self.runs
        if len(runs) == 1:
            return
        low, high = max(self._index(first) - 1, 0), self._index(last) + 2
        merged = [runs[low]]
        for run in runs[low + 1 : high]:
            if merged[-1].is_like(run):
                merged[-1].last = run.last
            else:
                merged.append(run)
        runs[low:high] = merged

    def _index(self, offset: int) -> int:
        runs = self.runs
        return bisect_right(runs, offset, key=_first) - 1 if offset >= runs[0].first else 0


class GapWindow(NamedTuple):
    """Offsets that were in flight but not written when the state was last read.

    While the end offset equals `end_offset`, gaps between batches from `gap_start_offset` on still
    have to be fetched; once the end offset has moved, any gap is a gap of the log.
    """

    end_offset: int
    gap_start_offset: int


class InFlightBatches:
    """The batches of a share partition, sorted by offset (Kafka's cachedState)."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def last_offset(self) -> int:
        """The last offset of the last batch; there must be a batch."""
        return self._batches[-1].last_offset

    @property
    def first_offset(self) -> int:
        """The first offset of the first batch; there must be a batch."""
        return self._batches[0].first_offset

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch, which must not overlap another."""
        batches = self._batches
        if not batches or batches[-1].last_offset < batch.first_offset:
            batches.append(batch)
        else:
            insort(batches, batch, key=_first_offset)

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at `offset` or below, or None."""
        index = bisect_right(self._batches, offset, key=_first_offset)
        return self._batches[index - 1] if index else None

    def beginning_in(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin in the range."""
        batches = self._batches
        if not batches or last < batches[0].first_offset or first > batches[-1].first_offset:
            return []
        low = bisect_left(batches, first, key=_first_offset)
        return batches[low : bisect_right(batches, last, low, key=_first_offset)]

    def after(self, offset: int) -> InFlightBatch:
        """Return the first batch that begins above `offset`; such a batch must exist."""
        return self._batches[bisect_right(self._batches, offset, key=_first_offset)]

    def is_done_at(self, offset: int) -> bool:
        """Return whether the record at `offset` is done."""
        batch = self.floor(offset)
        return batch is not None and batch.run_at(offset).is_done

    def last_done(self, start_offset: int, gap_start_offset: int | None) -> tuple[int, int]:
        """Return the last offset of the leading done records, or -1, and the number of them.

        Only offsets from `start_offset` on are counted. Batches that reach `gap_start_offset` are
        not examined.
        """
        last_done, done_count = -1, 0
        for batch in self._batches:
            if gap_start_offset is not None and batch.last_offset >= gap_start_offset:
                break
            for run in batch.runs:
                if not run.is_done:
                    return last_done, done_count
                last_done = run.last
                done_count += max(run.last - max(start_offset, run.first) + 1, 0)
        return last_done, done_count

    def remove_below(self, offset: int) -> None:
        """Remove the batches that begin below `offset`."""
        del self._batches[: bisect_left(self._batches, offset, key=_first_offset)]

    def clear(self) -> None:
        """Remove all batches."""
        self._batches.clear()


class GivenUpRecords(NamedTuple):
    """Offsets that are not delivered again, and the last member that acquired them.

    The records reached the delivery limit, or were `rejected` in a group with a dead letter queue.
    `queue` is the topic of the queue, `queue_error` the reason why the records are not in the
    queue.
    """

    first: int
    last: int
    delivery_count: int
    member_id: str
    rejected: bool = False
    queue: str | None = None
    queue_error: str | None = None


class DeadLetters(NamedTuple):
    """Consecutive offsets for the dead letter queue, and the last member that acquired them.

    Without `is_rejected`, the records reached the delivery limit.
    """

    first: int
    last: int
    delivery_count: int
    is_rejected: bool
    member_id: str = NO_MEMBER


GIVEN_UP_KEPT = 16
"""The number of GivenUpRecords that a share partition remembers."""


class Transition:
    """Changes of state that are written together, and take effect once they are written."""

    __slots__ = ("changes", "dead_letters", "state_batches")

    def __init__(self) -> None:
        self.changes: list[tuple[InFlightBatch, int, int, RecordState]] = []
        """Batch, first offset, last offset, and new state of each change."""
        self.state_batches: list[StateBatch] = []
        self.dead_letters: list[DeadLetters] = []
        """The dead letters to send once the changes are written."""

    def add(self, batch: InFlightBatch, run: Run) -> None:
        """Add a run whose change has begun but is not written."""
        self.changes.append((batch, run.first, run.last, run.state))
        add_state(self.state_batches, run)

    def runs(self) -> Iterator[tuple[RecordState, Run, Undo]]:
        """Yield the new state, the run, and its undo for each change that has not ended."""
        for batch, first, last, state in self.changes:
            for run in batch.overlapping(first, last):
                if run.undo is not None:
                    yield state, run, run.undo

    def merge(self) -> None:
        """Merge runs that have become equal."""
        for batch, first, last, _ in self.changes:
            batch.merge(first, last)


def add_state(state_batches: list[StateBatch], run: Run) -> None:
    """Append the state of a run to `state_batches`, or extend an adjacent equal batch."""
    first, last, state, delivery_count = run.first, run.last, int(run.state), run.delivery_count
    before = state_batches[-1] if state_batches else None
    if before is not None and before[1:] == (first - 1, state, delivery_count):
        state_batches[-1] = before._replace(last_offset=last)
    else:
        state_batches.append(StateBatch(first, last, state, delivery_count))
