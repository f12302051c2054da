"""A log compared with a list: random appends, reads, rolls, truncations, stops of every kind."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from protocol.batch_header import iterate_batches
from storage.errors import OffsetOutOfRangeError, StorageError
from storage.log_config import LogConfig
from storage.memory_disk import MemoryDisk
from storage.partition_log import PartitionLog
from storage.retention import advance_log_start_offset, delete_old_segments
from storage.segment import segment_stem
from tests.unit.storage.support import NOW_MS, all_records, batch, open_log

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=120, retention_ms=-1)


class LogModel(RuleBasedStateMachine):
    """The list has (offset, value) pairs; the log must have the same pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.log: PartitionLog = open_log(self.disk, CONFIG)
        self.records: list[tuple[int, bytes]] = []
        self.batch_bases: list[int] = []
        self.end = 0
        self.start = 0
        self.clock_ms = NOW_MS
        self.number = 0

    @rule(count=st.integers(1, 4), size=st.integers(0, 60), step_ms=st.integers(-5, 20))
    def append(self, count: int, size: int, step_ms: int) -> None:
        """Append a batch of records, with a clock that goes forward and back."""
        self.clock_ms += step_ms
        values = [b"%d:" % (self.number + n) + b"x" * size for n in range(count)]
        self.number += count
        result = self.log.append(batch(*values, timestamp_ms=self.clock_ms), self.clock_ms)
        assert result.base_offset == self.end
        self.batch_bases.append(self.end)
        self.records += [(self.end + n, value) for n, value in enumerate(values)]
        self.end += count

    @rule(torn=st.booleans())
    def append_fails(self, torn: bool) -> None:
        """Append on a full disk; nothing may change."""
        self.disk.fail_at(0, torn=torn)
        try:
            self.log.append(batch(b"lost"), self.clock_ms)
        except StorageError:
            return
        raise AssertionError("an append on a full disk must fail")

    @rule()
    def roll(self) -> None:
        """Start a new segment."""
        self.log.roll(self.clock_ms)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        """Truncate the last records at a batch boundary."""
        bases = [base for base in self.batch_bases if base >= max(self.end - back, self.start)]
        if bases:
            self.log.truncate_to(bases[0])
            self.end = bases[0]
            self.records = [record for record in self.records if record[0] < self.end]
            self.batch_bases = [base for base in self.batch_bases if base < self.end]

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        """Move the log start offset, and delete the segments below it."""
        self.start = data.draw(st.integers(self.start, self.end))
        assert advance_log_start_offset(self.log, self.start) == self.start
        delete_old_segments(self.log, self.clock_ms)
        self.records = [record for record in self.records if record[0] >= self.start]

    @rule()
    def stop_cleanly(self) -> None:
        """Stop cleanly and start again."""
        self.log.close()
        self.reopen(clean=True)

    @rule(tail=st.binary(max_size=80))
    def kill(self, tail: bytes) -> None:
        """Kill the process during a write, which leaves invalid bytes at the end."""
        active = self.log.active_segment
        if tail and active.size_bytes:
            active.write([tail])
        # A failed append may leave half a batch; the next append truncates it.
        stem = segment_stem(self.log.directory, active.base_offset)
        written = self.disk.size(f"{stem}.log") if self.disk.exists(f"{stem}.log") else 0
        surplus = written - active.size_bytes
        self.disk.processes_died()
        self.reopen(clean=False)
        cut = sum(report.bytes_cut for report in self.log.recovery_reports)
        assert cut == surplus

    def reopen(self, *, clean: bool) -> None:
        """Open the log in a new process."""
        self.log = open_log(self.disk, CONFIG, clean=clean, log_start_offset=self.start)

    @rule(data=st.data(), max_bytes=st.integers(1, 900))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        """Read anywhere; check that whole batches are returned, from the right batch on."""
        offset = data.draw(st.integers(max(self.start - 1, 0), self.end + 1))
        try:
            result = self.log.read(offset, max_bytes)
        except OffsetOutOfRangeError:
            assert not self.start <= offset <= self.end
            return
        headers = list(iterate_batches(result))
        if offset == self.end:
            assert not headers
            return
        assert headers[0].base_offset <= offset <= headers[0].last_offset
        assert len(result) <= max_bytes or len(headers) == 1

    @invariant()
    def holds_the_list(self) -> None:
        """Check start, end and every record."""
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert [(r.offset, r.value) for r in all_records(self.log)] == self.records


LogModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, derandomize=True
)
TestLogModel = LogModel.TestCase
TestLogModel.__doc__ = "A log holds what a list holds, through failures, cuts and stops."
