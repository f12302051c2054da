"""What is in flight: batches of offsets that were fetched for the group and are not all done.

As in Kafka a batch has one state until a part of it is treated in another way, and from then on a
state for each offset (InFlightBatch, InFlightState). Here the latter are runs: offsets in a row
that have everything in common. A batch is cut only where its offsets come to differ, and runs
that have become alike are one again, so neither a large batch nor one that is acknowledged record
by record costs an object for each offset.
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
"""The member of what nobody has acquired; no member has an empty id."""

_first = attrgetter("first")
_first_offset = attrgetter("first_offset")


class AcquisitionLock:
    """Records of `batch`, `first_offset` to `last_offset`, that are locked until `deadline_ms`.

    `held` is how many of them still are; those have this lock in their run.
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
    """What a run was before a change that is not written yet."""

    state: RecordState
    member_id: str
    delivery_count_limit: int


class Run:
    """Offsets of a batch, `first` to `last`, that have everything in common.

    `undo` is there while a change of them is being written: until then nobody else changes them.
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
        """Whether it can be acquired."""
        return self.state is RecordState.AVAILABLE and self.undo is None

    @property
    def is_done(self) -> bool:
        """Whether its records are acknowledged or archived, and that is written."""
        return self.state in TERMINAL_STATES and self.undo is None

    def cut(self, offset: int) -> Run:
        """Keep what is below `offset`; a run with the rest."""
        rest = Run(offset, self.last, self.state, self.delivery_count, self.member_id)
        rest.lock, rest.undo = self.lock, self.undo
        self.last = offset - 1
        return rest

    def is_like(self, other: Run) -> bool:
        """Whether the two can be one. How often what is done was delivered counts no more."""
        return (
            self.state is other.state
            and self.lock is other.lock
            and self.undo is None
            and other.undo is None
            and self.member_id == other.member_id
            and (self.delivery_count == other.delivery_count or self.state in TERMINAL_STATES)
        )

    def to(self, state: RecordState, member_id: str = NO_MEMBER) -> None:
        """Go to another state; the lock stays as it is."""
        assert self.undo is None, f"a change of {self.first} to {self.last} is being written"
        assert state in LEGAL_TRANSITIONS[self.state], f"from {self.state.name} to {state.name}"
        self.state = state
        self.member_id = member_id

    def begin(self, state: RecordState, delivery_count_limit: int) -> None:
        """Go to another state, which `commit` or `roll_back` ends."""
        undo = Undo(self.state, self.member_id, delivery_count_limit)
        self.to(state)
        self.undo = undo

    def commit(self) -> None:
        """The change is written."""
        self.undo = None
        self.unlock()

    def roll_back(self, undo: Undo) -> None:
        """The change could not be written.

        A lock whose time has come meanwhile releases the records now.
        """
        self.undo = None
        if self.lock is not None and self.lock.has_expired:
            is_last = self.delivery_count >= undo.delivery_count_limit
            self.state = RecordState.ARCHIVED if is_last else RecordState.AVAILABLE
            self.unlock()
        else:
            self.state, self.member_id, _ = undo

    def archive(self) -> None:
        """The records are gone from the log, or nobody shall have them: whatever is under way."""
        self.state = RecordState.ARCHIVED
        self.member_id = NO_MEMBER
        self.undo = None
        self.unlock()

    def unlock(self) -> None:
        """Have no lock any more."""
        if self.lock is not None:
            self.lock.held -= self.last - self.first + 1
            self.lock = None


class InFlightBatch:
    """One batch: `first_offset` to `last_offset`, in runs without a gap.

    `by_offset`: a part of it was treated in another way, so that it has no state as a whole.
    """

    __slots__ = ("by_offset", "first_offset", "last_offset", "runs")

    def __init__(self, run: Run) -> None:
        self.first_offset = run.first
        self.last_offset = run.last
        self.runs = [run]
        self.by_offset = False

    def __len__(self) -> int:
        """How many offsets there are."""
        return self.last_offset - self.first_offset + 1

    def is_within(self, first: int, last: int) -> bool:
        """Whether all of it is in that range."""
        return first <= self.first_offset and self.last_offset <= last

    def run_at(self, offset: int) -> Run:
        """The run with this offset; the nearest one when the batch does not have it."""
        return self.runs[self._index(offset)]

    def overlapping(self, first: int, last: int) -> list[Run]:
        """The runs with offsets of that range, which has some of the batch's."""
        return self.runs[self._index(first) : self._index(last) + 1]

    def cover(self, first: int, last: int, cuts: Sequence[int] = ()) -> list[Run]:
        """The runs of the offsets of that range alone, each of them between two of the `cuts`."""
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
        """Make one of runs that are alike, in that range and beside it."""
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
    """Offsets that were in flight but never written when the state was read last.

    While the share partition ends where its state did, `end_offset`, what lies between the batches
    from `gap_start_offset` on is to be fetched; later gaps are those of the log.
    """

    end_offset: int
    gap_start_offset: int


class InFlightBatches:
    """The batches of a share partition, by offset (Kafka's cachedState)."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def last_offset(self) -> int:
        """The last offset of the last batch, of which there is one."""
        return self._batches[-1].last_offset

    @property
    def first_offset(self) -> int:
        """The first offset of the first batch, of which there is one."""
        return self._batches[0].first_offset

    def add(self, batch: InFlightBatch) -> None:
        """Put a batch where no other one is."""
        batches = self._batches
        if not batches or batches[-1].last_offset < batch.first_offset:
            batches.append(batch)
        else:
            insort(batches, batch, key=_first_offset)

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at `offset` or below."""
        index = bisect_right(self._batches, offset, key=_first_offset)
        return self._batches[index - 1] if index else None

    def beginning_in(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that begin in that range."""
        batches = self._batches
        if not batches or last < batches[0].first_offset or first > batches[-1].first_offset:
            return []
        low = bisect_left(batches, first, key=_first_offset)
        return batches[low : bisect_right(batches, last, low, key=_first_offset)]

    def after(self, offset: int) -> InFlightBatch:
        """The first batch that begins above `offset`, of which there is one."""
        return self._batches[bisect_right(self._batches, offset, key=_first_offset)]

    def is_done_at(self, offset: int) -> bool:
        """Return whether the record at `offset` is done."""
        batch = self.floor(offset)
        return batch is not None and batch.run_at(offset).is_done

    def last_done(self, start_offset: int, gap_start_offset: int | None) -> tuple[int, int]:
        """Return up to where all is done, -1 if nothing is, and how much of that is in flight.

        Batches behind `gap_start_offset` are left out.
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
        """Forget the batches that begin below `offset`."""
        del self._batches[: bisect_left(self._batches, offset, key=_first_offset)]

    def clear(self) -> None:
        """Forget all batches."""
        self._batches.clear()


class GivenUpRecords(NamedTuple):
    """Offsets that no member gets again, and the member that had them last.

    They were delivered too often, or are `rejected` and the group has a dead letter queue: then
    `queue` is its topic, and `queue_error` says why they are not in it.
    """

    first: int
    last: int
    delivery_count: int
    member_id: str
    rejected: bool = False
    queue: str | None = None
    queue_error: str | None = None


class DeadLetters(NamedTuple):
    """Offsets in a row that go to the dead letter queue, and the member that had them last.

    They were delivered too often unless a member rejected them.
    """

    first: int
    last: int
    delivery_count: int
    is_rejected: bool
    member_id: str = NO_MEMBER


GIVEN_UP_KEPT = 16
"""How many of them a share partition remembers."""


class Transition:
    """Changes of state that are written as one, and hold once that is done."""

    __slots__ = ("changes", "dead_letters", "state_batches")

    def __init__(self) -> None:
        self.changes: list[tuple[InFlightBatch, int, int, RecordState]] = []
        """Batch, first and last offset, and the state that they go to."""
        self.state_batches: list[StateBatch] = []
        self.dead_letters: list[DeadLetters] = []
        """What goes to the dead letter queue once the changes are written."""

    def add(self, batch: InFlightBatch, run: Run) -> None:
        """Take up a run that has begun its change."""
        self.changes.append((batch, run.first, run.last, run.state))
        add_state(self.state_batches, run)

    def runs(self) -> Iterator[tuple[RecordState, Run, Undo]]:
        """What still has to end: the state that a run was to go to, the run, its state before."""
        for batch, first, last, state in self.changes:
            for run in batch.overlapping(first, last):
                if run.undo is not None:
                    yield state, run, run.undo

    def merge(self) -> None:
        """Make one of runs that have become alike."""
        for batch, first, last, _ in self.changes:
            batch.merge(first, last)


def add_state(state_batches: list[StateBatch], run: Run) -> None:
    """Add the state of a run to what is to be written."""
    first, last, state, delivery_count = run.first, run.last, int(run.state), run.delivery_count
    before = state_batches[-1] if state_batches else None
    if before is not None and before[1:] == (first - 1, state, delivery_count):
        state_batches[-1] = before._replace(last_offset=last)
    else:
        state_batches.append(StateBatch(first, last, state, delivery_count))
