"""Random histories of a share partition, compared with a simple model by offset.

Laws: a record has at most one member; a record that is done is never delivered again; no record is
lost; each delivery has the next count, up to the limit. Members fetch, acknowledge, leave and
crash; writes fail or are slow, leaders change, and the log start moves.
"""

from __future__ import annotations

from random import Random

import pytest

from coordinator_server.core.share_partitions.record_state import RecordState
from coordinator_server.core.share_partitions.settings import ShareSettings
from protocol.errors import ErrorCode
from tests.unit.core.share_partitions.context import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    BATCH_OPTIMIZED,
    LOCK_MS,
    RECORD_LIMIT,
    RENEW,
    ShareContext,
)

MEMBERS = "ABC"
AFTER = (ARCHIVED, ACKNOWLEDGED, AVAILABLE, ARCHIVED)
DONE = (ACKNOWLEDGED, ARCHIVED)


class ModelRecord:
    """The model of one offset: state, deliveries, owner, end of its lock, and written state."""

    def __init__(self) -> None:
        self.state = AVAILABLE
        self.count = 0
        self.owner = ""
        self.deadline_ms = 0
        self.kept: tuple[RecordState, int] = (AVAILABLE, 0)
        self.is_written = False


class History:
    """A random history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        random = self.random
        self.limit = random.choice((2, 3, 5, 10))
        settings = ShareSettings(
            delivery_count_limit=self.limit,
            partition_max_record_locks=random.choice((10, 40, 2000)),
            auto_offset_reset="earliest",
        )
        self.log: list[tuple[int, int]] = []
        end = 0
        for _ in range(random.randrange(5, 30)):
            size = random.choice((1, 1, 2, 5, 12))
            self.log.append((end, end + size - 1))
            end += size
        self.end = end
        self.context = ShareContext(*self.log, settings=settings).load()
        self.records = [ModelRecord() for _ in range(end)]
        self.log_start = 0
        self.holds_writes = random.random() < 0.5
        self.pending: list[tuple[bool, list[tuple[int, RecordState, int]]]] = []

    def run(self, steps: int) -> None:
        """Run `steps` random steps, then continue until every record is done."""
        actions = [
            self.fetch, self.fetch, self.fetch, self.acknowledge, self.acknowledge,
            self.acknowledge, self.acknowledge_all, self.release, self.advance, self.fail,
            self.answer if self.holds_writes else self.move_log, self.reload,
        ]  # fmt: skip
        for _ in range(steps):
            self.random.choice(actions)()
            self.check()
        self.answer()
        for _ in range(50 * self.end):
            if self.context.partition.start_offset >= self.end:
                break
            self.fetch()
            self.acknowledge_all(types=(1,))
            self.advance()
            self.answer()
            self.check()
        assert all(one.state in DONE for one in self.records[self.log_start :])
        # A fetch past the log end shows that no gap remains, so the partition's offsets move.
        assert self.context.partition.next_fetch_offset() >= self.end

    # --- steps ------------------------------------------------------------------------------------

    def fetch(self) -> None:
        """Fetch as a random member; check that acquired records are free and within the limit."""
        random, context = self.random, self.context
        member = random.choice(MEMBERS)
        mode = random.choice((BATCH_OPTIMIZED, RECORD_LIMIT))
        wanted = random.choice((1, 3, 10, 500))
        ranges = context.fetch(
            member,
            wanted,
            mode=mode,
            batch_size=random.choice((1, 4, 500)),
            batches=random.choice((1, 3, 100)),
        )
        taken = [
            (offset, count) for first, last, count in ranges for offset in range(first, last + 1)
        ]
        assert mode is BATCH_OPTIMIZED or len(taken) <= wanted
        for offset, count in taken:
            record = self.records[offset]
            assert offset >= self.log_start
            assert (record.state, record.owner) == (AVAILABLE, ""), offset
            assert not self.is_pending(offset)
            assert count == record.count + 1 <= self.limit
            record.state, record.owner, record.count = ACQUIRED, member, count
            record.deadline_ms = context.now_ms + LOCK_MS
        if self.limit > 2 and any(count == self.limit for _, count in taken):
            assert len(taken) == 1, "for the last time it comes alone"

    def acknowledge(self) -> None:
        """Acknowledge some offsets as a random member; all of them succeed, or none."""
        random = self.random
        member = random.choice(MEMBERS)
        first = random.randrange(self.end)
        last = min(first + random.choice((0, 0, 1, 3, 8)), self.end - 1)
        types = [random.choice((0, 1, 1, 1, 2, 2, 3, RENEW)) for _ in range(first, last + 1)]
        if random.random() < 0.5:
            types = [types[0]]
        self.say(member, first, last, types)

    def acknowledge_all(self, types: tuple[int, ...] = (1, 1, 2, 3)) -> None:
        """Acknowledge the runs of each member."""
        for member in MEMBERS:
            first = 0
            while first < self.end:
                if self.records[first].owner != member:
                    first += 1
                    continue
                last = first
                while last + 1 < self.end and self.records[last + 1].owner == member:
                    last += 1
                self.say(member, first, last, [self.random.choice(types)])
                first = last + 1

    def say(self, member: str, first: int, last: int, types: list[int]) -> None:
        """Send one acknowledgement to the partition and to the model."""
        context = self.context
        if self.holds_writes:
            context.persister.is_held = True
        low = max(first, context.partition.start_offset)
        fails = bool(context.persister.errors)
        refused = context.say((first, last, types), member=member)
        changes: list[tuple[int, RecordState, int]] = []
        is_taken = True
        for offset in range(low, last + 1):
            record = self.records[offset]
            kind = types[0] if len(types) == 1 else types[offset - first]
            if record.owner != member:
                is_taken = False
                break
            if kind == RENEW:
                record.deadline_ms = context.now_ms + LOCK_MS
            else:
                state = AFTER[kind]
                if state is AVAILABLE and record.count >= self.limit:
                    state = ARCHIVED
                changes.append((offset, state, record.count))
        if not is_taken:
            assert refused not in (None, "...")
            self.look_up_deadlines()
            return
        if changes:
            assert (refused == "...") is self.holds_writes
            assert (refused is None) is not (fails or self.holds_writes)
            self.begin(fails, changes)
        else:
            assert refused is None

    def look_up_deadlines(self) -> None:
        """Copy the locks' ends to the model: renewals before a refused part stay valid."""
        for batch in self.context.partition.in_flight:
            for run in batch.runs:
                if run.lock is not None:
                    for offset in range(run.first, run.last + 1):
                        self.records[offset].deadline_ms = run.lock.deadline_ms

    def begin(self, fails: bool, changes: list[tuple[int, RecordState, int]]) -> None:
        """Start changes that are written now, or when `answer` is called."""
        if fails and not self.holds_writes:
            return
        for offset, state, count in changes:
            record = self.records[offset]
            record.owner = ""
            if not fails:  # a successful write is durable before its response
                record.kept = (state, count)
        if self.holds_writes:
            self.pending.append((fails, changes))
            for offset, _, _ in changes:
                self.records[offset].state = ACQUIRED
        else:
            for offset, state, _ in changes:
                self.records[offset].state = state

    def answer(self) -> None:
        """End the writes in progress, successfully or not."""
        pending, self.pending = self.pending, []
        owners = {
            run.first: run.undo.member_id
            for batch in self.context.partition.in_flight
            for run in batch.runs
            if run.undo is not None
        }
        self.context.persister.release_held()
        for fails, changes in pending:
            for offset, state, count in changes:
                record = self.records[offset]
                if not fails:
                    record.state = state
                elif record.deadline_ms <= self.context.now_ms:
                    record.state = ARCHIVED if count >= self.limit else AVAILABLE
                else:
                    begin = max(first for first in owners if first <= offset)
                    record.owner = owners[begin]

    def release(self) -> None:
        """End a member's session."""
        member = self.random.choice(MEMBERS)
        if self.holds_writes:
            self.context.persister.is_held = True
        fails = bool(self.context.persister.errors)
        changes = [
            (offset, ARCHIVED if record.count >= self.limit else AVAILABLE, record.count)
            for offset, record in enumerate(self.records)
            if record.owner == member
        ]
        changes = [
            (offset, ARCHIVED if offset < self.context.partition.start_offset else state, count)
            for offset, state, count in changes
        ]
        self.context.release(member)
        if changes:
            self.begin(fails, changes)

    def advance(self) -> None:
        """Advance the time."""
        self.context.persister.errors.clear()
        is_held = self.context.persister.is_held
        self.context.persister.is_held = False  # the expiry of a lock is never rolled back
        self.context.advance(self.random.choice((1_000, 10_000, LOCK_MS)))
        self.context.persister.is_held = is_held
        for offset, record in enumerate(self.records):
            if record.owner and record.deadline_ms <= self.context.now_ms:
                is_over = record.count >= self.limit or offset < self.log_start
                record.state = ARCHIVED if is_over else AVAILABLE
                record.owner = ""
                record.kept = (record.state, record.count)

    def fail(self) -> None:
        """Let the next write fail."""
        if not self.context.persister.errors:
            self.context.persister.errors.append(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def move_log(self) -> None:
        """Move the log start offset."""
        if self.random.random() < 0.7:
            return
        start = min(self.log_start + self.random.randrange(4), self.end - 1)
        self.log_start = max(self.log_start, start)
        self.context.log = [
            one
            for (_, last), one in zip(self.log, self.context.log[-len(self.log) :], strict=True)
            if last >= self.log_start
        ]
        self.log = self.log[-len(self.context.log) :]
        if self.log_start > self.context.partition.start_offset:
            self.context.partition.move_start_offset(self.log_start)
            for record in self.records[: self.log_start]:
                if record.state is AVAILABLE:
                    record.state = ARCHIVED

    def reload(self) -> None:
        """Change the leader, which keeps only written state."""
        if self.random.random() < 0.8:
            return
        self.answer()
        self.context.persister.errors.clear()
        self.context.partition.fence()
        self.context.reload()
        if self.log_start > self.context.partition.start_offset:
            self.context.partition.move_start_offset(self.log_start)
        for offset, record in enumerate(self.records):
            record.state, record.count = record.kept
            record.owner = ""
            if offset < self.context.partition.start_offset:
                record.state = ARCHIVED if record.state is AVAILABLE else record.state

    # --- checks -----------------------------------------------------------------------------------

    def is_pending(self, offset: int) -> bool:
        """Return whether a change of an offset is being written."""
        return any(offset == one[0] for _, changes in self.pending for one in changes)

    def check(self) -> None:
        """Check that the share partition agrees with the model."""
        partition = self.context.partition
        known: set[int] = set()
        done = 0
        for batch in partition.in_flight:
            expected = batch.first_offset
            for run in batch.runs:
                assert run.first == expected <= run.last
                expected = run.last + 1
                for offset in range(run.first, run.last + 1):
                    record = self.records[offset]
                    known.add(offset)
                    if run.undo is not None:
                        assert self.is_pending(offset)
                        done += run.state in DONE and offset >= partition.start_offset
                        continue
                    done += run.state in DONE and offset >= partition.start_offset
                    assert (run.state, run.member_id) == (record.state, record.owner), offset
                    if record.state not in DONE:
                        assert run.delivery_count == record.count
            assert expected == batch.last_offset + 1
        assert partition.delivery_complete_count == done
        for offset, record in enumerate(self.records):
            if offset not in known:
                is_done = record.state in DONE
                assert is_done if offset < partition.start_offset else record.state is AVAILABLE


@pytest.mark.parametrize("group", range(6))
def test_random_histories(group: int) -> None:
    """No random history breaks an invariant of share partitions; each history has its own seed."""
    for seed in range(group * 10, group * 10 + 10):
        try:
            History(seed).run(80)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
