"""A share partition with a log of headers, a clock, and a persister in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.share_partitions.acknowledge import acknowledge
from coordinator_server.core.share_partitions.acquire import Acquired, AcquireMode, acquire
from coordinator_server.core.share_partitions.dead_letters import QueueOutcome, send
from coordinator_server.core.share_partitions.fetched import FetchedBatches
from coordinator_server.core.share_partitions.in_flight import DeadLetters, GivenUpRecords
from coordinator_server.core.share_partitions.persister import (
    UNINITIALIZED_START_OFFSET,
    SharePartitionKey,
    ShareState,
    StateBatch,
)
from coordinator_server.core.share_partitions.record_state import RecordState
from coordinator_server.core.share_partitions.refusal import Refusal, of_persister
from coordinator_server.core.share_partitions.settings import ShareSettings
from coordinator_server.core.share_partitions.share_partition import SharePartition
from coordinator_server.steps import run_all
from protocol.batch_header import TRANSACTIONAL
from protocol.errors import ErrorCode
from tests.harness.memory_persister import MemoryPersister

if TYPE_CHECKING:
    from coordinator_server.core.share_partitions.dead_letters import Done

KEY = SharePartitionKey("group", b"\1" * 16, 0)
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
BATCH_OPTIMIZED, RECORD_LIMIT = AcquireMode
LOCK_MS = 30_000
_HEADER = Struct(">qiibIhiqqqhii")


def log_batch(first: int, last: int, producer_id: int = -1) -> bytes:
    """Return the header of a batch, without its records."""
    attributes = TRANSACTIONAL if producer_id >= 0 else 0
    delta = last - first
    return _HEADER.pack(first, 49, 0, 2, 0, attributes, delta, 0, 0, producer_id, 0, -1, delta + 1)


class Acknowledged(NamedTuple):
    """An acknowledgement of some offsets."""

    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]


class ShareContext:
    """A share partition and its users; `log` has the batches that a fetch can return."""

    def __init__(self, *log: tuple[int, int], settings: ShareSettings | None = None) -> None:
        self.now_ms = 1_000
        self.settings = settings or ShareSettings(auto_offset_reset="earliest")
        self.persister = MemoryPersister()
        self.persister.initialize(KEY, 2, -1, lambda error: None)
        self.log = [log_batch(first, last) for first, last in log]
        self.aborted: list[tuple[int, int]] = []
        self.initial_error = ErrorCode.NONE
        self.changes = 0
        self.given_up: list[GivenUpRecords] = []
        self.sent: list[tuple[Sequence[DeadLetters], Done]] = []
        """Dead letters in flight, oldest first; `deliver` ends them."""
        self.partition = self.new_partition()
        self.loaded: list[ErrorCode] = []

    def new_partition(self) -> SharePartition:
        """Return another share partition with the same state, as on a new leader."""
        return SharePartition(
            KEY,
            5,
            lambda: self.settings,
            self.persister,
            self._changed,
            lambda _, records: self.given_up.append(records),
            self._send_dead_letters,
        )

    def load(self) -> ShareContext:
        """Read the state and return this context."""
        partition = self.partition
        result = partition.begin_load()
        if result is None:
            self.persister.read(KEY, partition.leader_epoch, partial(self._end_load, partition))
        else:
            self.loaded.append(result)
        return self

    def _end_load(self, partition: SharePartition, state: ShareState) -> None:
        """Apply the loaded state, as SharePartitionManager does."""
        error, start_offset = state.error, state.start_offset
        if error is not ErrorCode.NONE:
            error = of_persister(error).error
        elif start_offset == UNINITIALIZED_START_OFFSET:
            error, start_offset = self._initial_offset(self.settings.auto_offset_reset)
        error, letters = partition.end_load(error, start_offset, state)
        self.loaded.append(error)
        send(partition, letters)

    def reload(self) -> None:
        """Load the written state into a new share partition."""
        self.partition = self.new_partition()
        self.load()

    def keep(self, start_offset: int, *batches: tuple[int, int, RecordState, int]) -> None:
        """Store a state in the persister, for `load` to read."""
        kept = self.persister.states[KEY]
        kept.start_offset = start_offset
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                kept.offsets[offset] = (state, count)

    def fetch(
        self,
        member_id: str = "A",
        max_records: int = 500,
        *,
        mode: AcquireMode = BATCH_OPTIMIZED,
        batch_size: int = 500,
        batches: int = 100,
    ) -> list[tuple[int, int, int]]:
        """Fetch at most `batches` batches from the next offset; return the acquired ranges."""
        if not self.partition.can_acquire():
            return []
        return list(self.acquire(member_id, max_records, mode, batch_size, batches).ranges)

    def acquire(
        self,
        member_id: str,
        max_records: int,
        mode: AcquireMode = BATCH_OPTIMIZED,
        batch_size: int = 500,
        batches: int = 100,
    ) -> Acquired:
        """Acquire records even if the in-flight limit is reached.

        Returns the acquired ranges, and the number of records in them.
        """
        offset = self.partition.next_fetch_offset()
        found = [one for one in self.log if FetchedBatches(one).last_offset >= offset]
        fetched = FetchedBatches(b"".join(found[:batches]), self.aborted)
        return acquire(
            self.partition, member_id, mode, batch_size, max_records, offset, fetched, self.now_ms
        )

    def say(self, *said: tuple[int, int, int | Sequence[int]], member: str = "A") -> str | None:
        """Acknowledge (first, last, type or types); return the message of a refusal, or None.

        Returns "..." while the response is outstanding.
        """
        answers: list[Refusal | None] = []
        taken = run_all(
            acknowledge(
                self.partition,
                member,
                [
                    Acknowledged(first, last, [kind] if isinstance(kind, int) else list(kind))
                    for first, last, kind in said
                ],
                self.now_ms,
            )
        )
        if isinstance(taken, Refusal):
            return taken.message
        self.partition.persist(taken, answers.append)
        if not answers:
            return "..."
        (refusal,) = answers
        return None if refusal is None else refusal.message

    def release(self, member_id: str = "A") -> None:
        """End the member's session."""
        self.partition.release(member_id, lambda refusal: None)

    def advance(self, elapsed_ms: int) -> None:
        """Advance the time and expire locks."""
        self.now_ms += elapsed_ms
        self.partition.expire(self.now_ms)

    def states(self) -> str:
        """Return the in-flight runs: state, delivery count and member; a bar separates batches."""
        return " | ".join(
            " ".join(
                f"{run.first}-{run.last}:{run.state.label}x{run.delivery_count}"
                f"{run.member_id and '/' + run.member_id}{'?' if run.undo else ''}"
                for run in batch.runs
            )
            for batch in self.partition.in_flight
        )

    def offsets(self) -> tuple[int, int, int]:
        """Return start offset, end offset, and the number of in-flight records that are done."""
        partition = self.partition
        return partition.start_offset, partition.end_offset, partition.delivery_complete_count

    def last_write(self) -> list[StateBatch]:
        """Return the last written batches."""
        return list(self.persister.writes[-1])

    def _initial_offset(self, strategy: str) -> tuple[ErrorCode, int]:
        return self.initial_error, 0 if strategy == "earliest" else 100

    def deliver(self, error: str | None = None) -> list[DeadLetters]:
        """Write the oldest dead letters, or fail with `error`; return them."""
        letters, done = self.sent.pop(0)
        run_all(done([QueueOutcome(one, "queue", error) for one in letters]))
        return list(letters)

    def _send_dead_letters(
        self, _: SharePartition, letters: Sequence[DeadLetters], done: Done
    ) -> None:
        self.sent.append((letters, done))

    def _changed(self, _: SharePartition) -> None:
        self.changes += 1
