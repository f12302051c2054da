"""SharePartition: one partition as read by one share group, on the partition leader.

A SharePartition records for each record in flight the member that has acquired it, the delivery
count, and whether the record is done. It is Kafka's SharePartition without locks, because all code
runs in one thread. `acquire` decides which records consumers get, `acknowledge` handles their
acknowledgements; this module has the offsets, the lock expiry, and the persisted state.

Callbacks: `changed()` is called when waiting fetches may get records, `gave_up(records)` for
records that are not delivered again, and `send_dead_letters(records)` for records that belong in
the dead letter queue.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.core.share_partitions import dead_letters
from coordinator_server.core.share_partitions.in_flight import (
    GIVEN_UP_KEPT,
    AcquisitionLock,
    DeadLetters,
    GapWindow,
    GivenUpRecords,
    InFlightBatch,
    InFlightBatches,
    Run,
    Transition,
    add_state,
)
from coordinator_server.core.share_partitions.locks import AcquisitionLocks
from coordinator_server.core.share_partitions.record_state import TERMINAL_STATES, RecordState
from coordinator_server.core.share_partitions.refusal import Refusal, of_persister
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coordinator_server.core.share_partitions.dead_letters import Send
    from coordinator_server.core.share_partitions.persister import (
        SharePartitionKey,
        SharePersister,
        ShareState,
        StateBatch,
    )
    from coordinator_server.core.share_partitions.settings import ShareSettings


_STATE_NUMBERS = frozenset(map(int, RecordState))


class SharePartitionState(IntEnum):
    """The state of a share partition."""

    EMPTY = 0
    INITIALIZING = 1
    """The persisted state is being read."""
    ACTIVE = 2
    FAILED = 3
    """The persisted state could not be read."""
    FENCED = 4
    """Replaced by another share partition, here or on another broker."""


class SharePartition:
    """The state of one share partition. Call `begin_load` first.

    `settings` returns the group's current settings. `start_offset` is the first offset that is not
    done (SPSO); `end_offset` is the last offset in flight, or the next offset to fetch if no
    record is in flight.
    """

    __slots__ = (
        "_changed",
        "_gap_window",
        "_gave_up",
        "_persister",
        "_settings",
        "delivery_complete_count",
        "end_offset",
        "fetch_offset_seen",
        "finds_next_offset",
        "given_up",
        "in_flight",
        "key",
        "leader_epoch",
        "locks",
        "send_dead_letters",
        "start_offset",
        "state",
        "state_epoch",
    )

    def __init__(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        settings: Callable[[], ShareSettings],
        persister: SharePersister,
        changed: Callable[[SharePartition], None],
        gave_up: Callable[[SharePartition, GivenUpRecords], None],
        send_dead_letters: Send,
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self._settings = settings
        self._persister = persister
        self._changed = changed
        self._gave_up = gave_up
        self.send_dead_letters = send_dead_letters
        self.state = SharePartitionState.EMPTY
        self.state_epoch = 0
        self.start_offset = self.end_offset = 0
        self.in_flight = InFlightBatches()
        self.locks = AcquisitionLocks()
        self.given_up: deque[GivenUpRecords] = deque(maxlen=GIVEN_UP_KEPT)
        """The latest records that were given up, for inspection."""
        self.delivery_complete_count = 0
        """The number of done records in flight, which do not count as lag."""
        self.finds_next_offset = False
        """Whether records in flight may be available again."""
        self.fetch_offset_seen = -1
        """The offset of the latest fetch, even if the fetch found too few records."""
        self._gap_window: GapWindow | None = None

    # --- load and close ---------------------------------------------------------------------------

    @property
    def settings(self) -> ShareSettings:
        """The group's current settings."""
        return self._settings()

    @property
    def is_active(self) -> bool:
        """Whether records can be acquired."""
        return self.state is SharePartitionState.ACTIVE

    def begin_load(self) -> ErrorCode | None:
        """Return None if the caller has to read the state and then to call `end_load`.

        Otherwise return the result of the load, or LEADER_NOT_AVAILABLE while the state is read.
        """
        if self.state is SharePartitionState.ACTIVE:
            return ErrorCode.NONE
        if self.state is SharePartitionState.FAILED:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if self.state is SharePartitionState.EMPTY:
            self.state = SharePartitionState.INITIALIZING
            return None
        return ErrorCode.LEADER_NOT_AVAILABLE

    def end_load(
        self, error: ErrorCode, start_offset: int, state: ShareState
    ) -> tuple[ErrorCode, list[DeadLetters]]:
        """Become active with the state that was read, unless there is an `error`.

        Returns the result of the load, and the records whose sending to the dead letter queue is
        not known to be complete. A share partition that was fenced meanwhile stays fenced and
        returns LEADER_NOT_AVAILABLE.
        """
        if self.state is not SharePartitionState.INITIALIZING:
            return ErrorCode.LEADER_NOT_AVAILABLE, []
        letters: list[DeadLetters] = []
        if error is ErrorCode.NONE and not self._take(start_offset, state.batches, letters):
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        if error is not ErrorCode.NONE:
            self.state = SharePartitionState.FAILED
            return error, []
        self.state_epoch = state.state_epoch
        self.state = SharePartitionState.ACTIVE
        return error, letters

    def fence(self) -> None:
        """Drop the share partition; the next leader reads the state again."""
        self.state = SharePartitionState.FENCED
        self.locks.clear()

    def _take(
        self, start_offset: int, batches: Iterable[StateBatch], letters: list[DeadLetters]
    ) -> bool:
        """Load the persisted state; return False if it is invalid.

        `letters` gets the records whose sending to the dead letter queue is not known to be
        complete.
        """
        self.start_offset = start_offset
        limit = self.settings.delivery_count_limit
        gap_start_offset = -1
        next_offset = start_offset
        for first, last, state_number, delivery_count in batches:
            if not next_offset <= first <= last or state_number not in _STATE_NUMBERS:
                return False
            if first > next_offset and gap_start_offset < 0:
                gap_start_offset = next_offset
            next_offset = last + 1
            state = RecordState(state_number)
            self.in_flight.add(InFlightBatch(Run(first, last, state, delivery_count)))
            if state in TERMINAL_STATES:
                self.delivery_complete_count += last - first + 1
            elif state is RecordState.ARCHIVING:
                letters.append(DeadLetters(first, last, delivery_count, delivery_count < limit))
        if not self.in_flight:
            self.end_offset = start_offset
            return True
        self.finds_next_offset = True
        self.end_offset = next_offset - 1
        if gap_start_offset >= 0:
            self._gap_window = GapWindow(self.end_offset, gap_start_offset)
        self.advance()
        return True

    # --- position of the next fetch ---------------------------------------------------------------

    @property
    def in_flight_count(self) -> int:
        """The number of records in flight, including done records that are not at the front."""
        return self.end_offset - self.start_offset + 1 if self.in_flight else 0

    def next_fetch_offset(self) -> int:
        """Return the next offset to read: an available record, else the first new record."""
        in_flight = self.in_flight
        if not in_flight or self.start_offset > in_flight.last_offset:
            self.finds_next_offset = False
            return self.end_offset
        if self.finds_next_offset:
            gap_start_offset = self.gap_start_offset
            for batch in in_flight:
                if gap_start_offset is not None:
                    if batch.first_offset > gap_start_offset:
                        return gap_start_offset
                    gap_start_offset = max(batch.last_offset + 1, gap_start_offset)
                for run in batch.runs:
                    if run.is_available:
                        return run.first
            self.finds_next_offset = False
        return self.end_offset + 1

    def can_acquire(self) -> bool:
        """Return whether records can be acquired.

        True if released records are available or the in-flight limit is not reached.
        """
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        most = self.settings.partition_max_record_locks
        if self.in_flight_count < most:
            return True
        # Some done records do not move the start offset before the next acknowledgement: records
        # archived without an acknowledgement (aborted, deleted from the log, or expired during a
        # write), and records behind a filled gap. If no acknowledgement follows, Kafka never
        # acquires again; this broker moves the start offset now.
        self._gap_window = None
        return self.advance() and self.in_flight_count < most

    @property
    def gap_start_offset(self) -> int | None:
        """The offset from which gaps between batches must be fetched, or None."""
        window = self._gap_window
        if window is None or window.end_offset != self.end_offset:
            return None
        return window.gap_start_offset

    def move_gap_window(self, offset: int) -> None:
        """Update the gap window after the offsets below `offset` were acquired."""
        window = self._gap_window
        if window is not None:
            if window.end_offset == self.end_offset and offset <= window.end_offset:
                self._gap_window = window._replace(gap_start_offset=offset)
            else:
                self._gap_window = None

    # --- locks ------------------------------------------------------------------------------------

    def lock(self, batch: InFlightBatch, run: Run, now_ms: int, duration_ms: int) -> None:
        """Lock a run of a batch; the lock replaces the run's former lock."""
        run.unlock()
        run.lock = AcquisitionLock(batch, run.first, run.last, now_ms + duration_ms)
        self.locks.add(run.lock)

    def expire(self, now_ms: int) -> None:
        """Release records whose lock has expired, even if the change cannot be written."""
        expired = self.locks.expired(now_ms)
        state_batches: list[StateBatch] = []
        letters: list[DeadLetters] = []
        settings = self.settings
        for lock in expired:
            batch = lock.batch
            for run in batch.overlapping(lock.first_offset, lock.last_offset):
                if run.lock is not lock or run.state is not RecordState.ACQUIRED:
                    continue
                for piece in self._at_start_offset(batch, run):
                    piece.to(self._state_if_released(piece, settings, letters))
                    piece.unlock()
                    add_state(state_batches, piece)
                    self.finds_next_offset |= piece.state is RecordState.AVAILABLE
                    self.count_done(piece)
            batch.merge(lock.first_offset, lock.last_offset)
        if state_batches:
            self.write(state_batches, partial(self._expiry_written, letters))
            self.changed()

    def _expiry_written(self, letters: list[DeadLetters], _: ErrorCode) -> None:
        self.advance()
        dead_letters.send(self, letters)

    def release(self, member_id: str, done: Callable[[Refusal | None], None]) -> None:
        """Release all records of a member whose share session has ended."""
        transition = Transition()
        settings = self.settings
        for batch in self.in_flight:
            for run in tuple(batch.runs):
                if run.state is not RecordState.ACQUIRED or run.member_id != member_id:
                    continue
                for piece in self._at_start_offset(batch, run):
                    state = self._state_if_released(piece, settings, transition.dead_letters)
                    piece.begin(state, settings.delivery_count_limit)
                    transition.add(batch, piece)
                    self.count_done(piece)
        self.persist(transition, done)

    def _at_start_offset(self, batch: InFlightBatch, run: Run) -> list[Run]:
        """Return the run, split in two if it contains the start offset.

        The caller archives the part below the start offset.
        """
        if run.first < self.start_offset <= run.last:
            return batch.cover(run.first, run.last, (self.start_offset,))
        return [run]

    def _state_if_released(
        self, run: Run, settings: ShareSettings, letters: list[DeadLetters]
    ) -> RecordState:
        if run.last < self.start_offset:
            return RecordState.ARCHIVED
        if run.delivery_count >= settings.delivery_count_limit:
            return self.give_up(run, settings, letters)
        return RecordState.AVAILABLE

    def give_up(self, run: Run, settings: ShareSettings, letters: list[DeadLetters]) -> RecordState:
        """Return the new state of a run that reached the delivery limit.

        With a dead letter queue the run is added to `letters`.
        """
        if settings.dead_letter_topic:
            letters.append(
                DeadLetters(run.first, run.last, run.delivery_count, False, run.member_id)
            )
            return RecordState.ARCHIVING
        self.tell_given_up(GivenUpRecords(run.first, run.last, run.delivery_count, run.member_id))
        return RecordState.ARCHIVED

    def tell_given_up(self, records: GivenUpRecords) -> None:
        """Add the records to `given_up`, and report that they are not delivered again."""
        self.given_up.append(records)
        self._gave_up(self, records)

    # --- writes -----------------------------------------------------------------------------------

    def persist(self, transition: Transition, done: Callable[[Refusal | None], None]) -> None:
        """Write changes; they then take effect, or are undone after an error."""
        if transition.changes:
            self.write(transition.state_batches, partial(self._persisted, transition, done))
        else:
            done(None)

    def roll_back(self, transition: Transition) -> None:
        """Undo the changes of a transition."""
        for written, run, undo in transition.runs():
            run.roll_back(undo)
            if run.state is RecordState.ARCHIVED is not written:
                self.tell_given_up(dead_letters.unwritten(self, run, undo.member_id))
            self.finds_next_offset |= run.state is RecordState.AVAILABLE
            if written in TERMINAL_STATES and run.state not in TERMINAL_STATES:
                self.delivery_complete_count -= self.count_in_flight(run.first, run.last)
            elif written not in TERMINAL_STATES:
                self.count_done(run)
        transition.merge()

    def _persisted(
        self, transition: Transition, done: Callable[[Refusal | None], None], error: ErrorCode
    ) -> None:
        if error is not ErrorCode.NONE:
            self.roll_back(transition)
            done(of_persister(error))
            return
        is_news = False
        for _, run, _ in transition.runs():
            run.commit()
            if run.state is RecordState.AVAILABLE:
                self.finds_next_offset = is_news = True
        transition.merge()
        is_news |= self.advance()
        done(None)
        if is_news:
            self.changed()
        dead_letters.send(self, transition.dead_letters)

    def changed(self) -> None:
        """Notify waiting fetches."""
        self._changed(self)

    def write(self, state_batches: list[StateBatch], done: Callable[[ErrorCode], None]) -> None:
        """Write record states with the current offsets and counts."""
        self._persister.write(
            self.key,
            self.state_epoch,
            self.leader_epoch,
            self.start_offset,
            self.delivery_complete_count,
            state_batches,
            done,
        )

    # --- offsets ----------------------------------------------------------------------------------

    def count_in_flight(self, first: int, last: int) -> int:
        """Return how many of these offsets are at or above the start offset."""
        return max(last - max(self.start_offset, first) + 1, 0)

    def count_done(self, run: Run) -> None:
        """Update the done count after a run has changed its state."""
        if run.state in TERMINAL_STATES:
            self.delivery_complete_count += self.count_in_flight(run.first, run.last)

    def advance(self) -> bool:
        """Move the start offset past all done records; return False if the first is not done."""
        in_flight = self.in_flight
        if not in_flight.is_done_at(self.start_offset):
            return False
        last_done, done_count = in_flight.last_done(self.start_offset, self.gap_start_offset)
        if last_done < 0:
            return False
        if last_done == in_flight.last_offset:
            # Kafka uses `last_done + 1` even if the log start offset is higher.
            self.start_offset = self.end_offset = max(last_done + 1, self.start_offset)
            in_flight.clear()
            self.delivery_complete_count = 0
            return True
        batch = in_flight.floor(last_done)
        assert batch is not None, last_done
        if batch.last_offset == last_done:
            following = in_flight.after(last_done)
            self.start_offset = max(self.start_offset, following.first_offset)
            if self.gap_start_offset is not None:
                self.start_offset = min(self.start_offset, self.gap_start_offset)
            in_flight.remove_below(following.first_offset)
        else:
            # Keep the whole batch in flight although its first records are done, because a later
            # fetch of the batch looks up this entry.
            self.start_offset = max(self.start_offset, last_done + 1)
            in_flight.remove_below(batch.first_offset)
        self.delivery_complete_count -= done_count
        return True

    def move_start_offset(self, log_start_offset: int) -> None:
        """Move the start offset to a new log start offset; available records below are archived.

        Acquired records below stay acquired until they are acknowledged or their lock expires.
        """
        if log_start_offset <= self.start_offset:
            return
        if not self.in_flight:
            self.start_offset = self.end_offset = log_start_offset
            self.delivery_complete_count = 0
            return
        last = log_start_offset - 1
        batches = self.in_flight.beginning_in(self.in_flight.first_offset, last)
        done_count = sum(
            self.count_in_flight(run.first, min(run.last, last))
            for batch in batches
            for run in batch.runs
            if run.state in TERMINAL_STATES
        )
        self.archive(batches, self.start_offset, last, RecordState.AVAILABLE)
        self.start_offset = log_start_offset
        self.delivery_complete_count -= done_count
        self.end_offset = max(self.end_offset, self.start_offset)

    def archive(
        self, batches: Iterable[InFlightBatch], first: int, last: int, state: RecordState
    ) -> int:
        """Archive the records of a range that are in `state`; return their number."""
        count = 0
        for batch in batches:
            if batch.last_offset < first:
                continue
            for run in batch.overlapping(first, last):
                if run.state is state and run.last >= first:
                    for piece in batch.cover(max(run.first, first), min(run.last, last)):
                        piece.archive()
                        count += piece.last - piece.first + 1
            batch.merge(first, last)
        if count:
            self.finds_next_offset = True
        return count
