"""Opens a partition's directory: finishes interrupted operations and recovers the log.

After a clean stop the files are used unchanged. After any other stop, all batches after the
recovery point are verified, the log is truncated at the first bad batch, and the truncation is
reported. Indexes and producer state are rebuilt. A missing, short or damaged index is rebuilt from
its segment after any stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.batch_header import BatchHeader
from protocol.control_record import EndMarker, end_marker_of
from protocol.errors import ProtocolError
from storage.batch_scan import Corruption, scan_headers
from storage.checkpoints import LeaderEpochs, read_leader_epochs
from storage.disk import Disk
from storage.errors import CorruptBatchError
from storage.log_config import LogConfig
from storage.open_files import LazyFile, OpenFiles
from storage.producer_state import ProducerState, snapshot_offsets, snapshot_path
from storage.segment import LOG_SUFFIX, SUFFIXES, Segment, segment_stem
from storage.transaction_index import AbortedTxn

SWAP_SUFFIX = ".swap"
CLEANED_SUFFIX = ".cleaned"
LEFTOVER_SUFFIXES = (CLEANED_SUFFIX, ".deleted", ".tmp")


class RecoveryReport(NamedTuple):
    """A truncation by recovery: all batches from `offset` on, with the reason."""

    topic: str
    partition: int
    offset: int
    bytes_cut: int
    reason: str
    file: str


class LoadedLog(NamedTuple):
    """A partition as loaded from disk; `segments` are ascending and never empty."""

    segments: list[Segment]
    next_offset: int
    log_start_offset: int
    leader_epochs: LeaderEpochs
    producers: ProducerState
    snapshot_offset: int
    reports: list[RecoveryReport]


class LogLoader:
    """Opens one partition; `clean` tells whether the last stop was clean."""

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        recovery_point: int,
        log_start_offset: int,
        clean: bool,
        now_ms: int,
    ) -> None:
        self.files = files
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.config = config
        self.recovery_point = recovery_point
        self.log_start_offset = log_start_offset
        self.clean = clean
        self.now_ms = now_ms
        self.reports: list[RecoveryReport] = []
        # Base offset of each verified segment -> whether the segment has control batches.
        self._verified: dict[int, bool] = {}

    def load(self) -> LoadedLog:
        """Load the log, repairing its files if necessary."""
        disk = self.files.disk
        names = disk.listdir(self.directory) if disk.exists(self.directory) else []
        if finish_interrupted(disk, self.directory, names):
            names = disk.listdir(self.directory)
        segments = self._load_segments(names)
        next_offset = self._repair(segments)
        if next_offset < self.log_start_offset:
            segments, next_offset = self._restart_at_log_start(segments, next_offset)
        self._index_aborted(names, segments, next_offset)
        log_start_offset = max(self.log_start_offset, segments[0].base_offset)
        producers, snapshot_offset = self._load_producers(names, segments, next_offset)
        return LoadedLog(
            segments,
            next_offset,
            log_start_offset,
            self._load_leader_epochs(segments, next_offset),
            producers,
            snapshot_offset,
            self.reports,
        )

    def _segment(self, base_offset: int) -> Segment:
        stem = segment_stem(self.directory, base_offset)
        interval = self.config.index_interval_bytes
        return Segment(self.files, stem, base_offset, interval, self.now_ms)

    def _load_segments(self, names: list[str]) -> list[Segment]:
        """Return the existing segments, after rebuilding indexes that look damaged."""
        bases = sorted(int(name[:20]) for name in names if is_log_name(name))
        segments: list[Segment] = []
        for number, base_offset in enumerate(bases):
            stem = segment_stem(self.directory, base_offset)
            segment, indexes_are_whole = Segment.load(
                self.files.disk, self.files, stem, base_offset, self.config.index_interval_bytes
            )
            segments.append(segment)
            # `_repair` verifies and indexes all segments after the recovery point.
            is_last = number == len(bases) - 1
            will_be_verified = not self.clean and (
                is_last or bases[number + 1] > self.recovery_point
            )
            if not indexes_are_whole and not will_be_verified:
                self._verify(segment, base_offset)
        return segments or [self._segment(self.log_start_offset)]

    def _repair(self, segments: list[Segment]) -> int:
        """Verify the log as far as necessary, truncate bad batches, and return the next offset."""
        if not self.clean:
            return self._recover(segments)
        try:
            return segments[-1].load_tail()
        except CorruptBatchError:
            # The file is damaged despite the clean stop.
            return self._verify(segments[-1], segments[-1].base_offset)[0]

    def _recover(self, segments: list[Segment]) -> int:
        next_offset = segments[0].base_offset
        for number, segment in enumerate(segments):
            is_last = number == len(segments) - 1
            if not is_last and segments[number + 1].base_offset <= self.recovery_point:
                continue
            next_offset, whole = self._verify(segment, segment.base_offset, segments[number + 1 :])
            if not whole:
                del segments[number + 1 :]
                break
        return next_offset

    def _verify(
        self, segment: Segment, next_offset: int, following: Sequence[Segment] = ()
    ) -> tuple[int, bool]:
        """Verify a segment; return its next offset, and whether all batches are good.

        A bad batch is removed with everything after it, including the `following` segments,
        because later batches may not be the acknowledged batches.
        """
        # The position of the last batch, and the offset that was expected there, if a gap precedes
        # the batch.
        suspect: tuple[int, int] | None = None
        self._verified[segment.base_offset] = False
        for batch in segment.verify(next_offset):
            if isinstance(batch, Corruption):
                position = batch.position
                if batch.offsets_fall and suspect is not None:
                    # The CRC does not cover base offsets, so the batch after the gap counts as the
                    # bad batch.
                    position, next_offset = suspect
                self._report(segment, next_offset, segment.size_bytes - position, batch.reason)
                # Remove the last segment first and truncate at the end, so that recovery after a
                # crash in between finds the bad batch again.
                for later in reversed(following):
                    self._report(later, next_offset, later.size_bytes, "follows a bad batch")
                    later.delete(self.files.disk)
                segment.cut(position)
                return next_offset, False
            suspect = None
            if batch.is_control:
                self._verified[segment.base_offset] = True
            if batch.base_offset > next_offset:
                suspect = (batch.position, next_offset)
            next_offset = batch.last_offset + 1
        segment.seal()
        return next_offset, True

    def _restart_at_log_start(
        self, segments: list[Segment], next_offset: int
    ) -> tuple[list[Segment], int]:
        """Replace the log by an empty log at the log start offset, as Kafka does.

        This is for a checkpointed log start offset beyond the log end.
        """
        for segment in segments:
            if segment.size_bytes:
                self._report(
                    segment,
                    next_offset,
                    segment.size_bytes,
                    f"the log ends before its log start offset {self.log_start_offset}",
                )
            segment.delete(self.files.disk)
        segment = self._segment(self.log_start_offset)
        segment.create()
        return [segment], self.log_start_offset

    def _report(self, segment: Segment, offset: int, bytes_cut: int, reason: str) -> None:
        file = segment.stem.rpartition("/")[2] + LOG_SUFFIX
        self.reports.append(
            RecoveryReport(self.topic, self.partition, offset, bytes_cut, reason, file)
        )

    def _index_aborted(self, names: list[str], segments: list[Segment], next_offset: int) -> None:
        """Rebuild the transaction indexes of verified segments.

        Indexes with entries after the end of their segment are also rebuilt.
        """
        ends = [segment.base_offset for segment in segments[1:]] + [next_offset]
        for segment, end in zip(segments, ends, strict=True):
            if segment.transaction_index.reaches(end):
                self._verified[segment.base_offset] = True
        remade = [segment for segment in segments if segment.base_offset in self._verified]
        transactions: dict[int, list[AbortedTxn]] = {}
        first = next((s.base_offset for s in remade if self._verified[s.base_offset]), None)
        if first is not None:
            producers, offset = self._newest_snapshot(names, first)
            for segment, aborted in replay(producers, segments, offset):
                transactions.setdefault(segment.base_offset, []).append(aborted)
        for segment in remade:
            aborted_here = transactions.get(segment.base_offset, [])
            segment.transaction_index.replace(self.files.disk, aborted_here)

    def _newest_snapshot(self, names: list[str], limit: int) -> tuple[ProducerState, int]:
        """Return the newest valid producer snapshot up to `limit`, and its offset.

        Without a snapshot the producer state is empty and the offset is 0.
        """
        disk = self.files.disk
        for offset in reversed(snapshot_offsets(names)):
            path = snapshot_path(self.directory, offset)
            if offset <= limit and disk.exists(path):
                producers = ProducerState.decode(disk.read_file(path))
                if producers is not None:
                    return producers, offset
        return ProducerState(), 0

    def _load_producers(
        self, names: list[str], segments: list[Segment], next_offset: int
    ) -> tuple[ProducerState, int]:
        """Return the producer state at the log end, and the offset of the snapshot used (or -1)."""
        disk = self.files.disk
        producers: ProducerState | None = None
        snapshot_offset = -1
        offsets = snapshot_offsets(names)
        for offset in reversed(offsets):
            path = snapshot_path(self.directory, offset)
            if offset > next_offset:
                disk.unlink(path)
            elif producers is None:
                producers = ProducerState.decode(disk.read_file(path))
                if producers is None:
                    disk.unlink(path)
                else:
                    snapshot_offset = offset
        if producers is None:
            producers = ProducerState()
            if self.clean and not offsets:
                # As in Kafka, a cleanly closed log without snapshots has no producer state.
                return producers, -1
        if snapshot_offset < next_offset:
            replay_producers(producers, segments, max(snapshot_offset, self.log_start_offset))
        return producers, snapshot_offset

    def _load_leader_epochs(self, segments: list[Segment], next_offset: int) -> LeaderEpochs:
        """Return the leader epochs up to the log end: the checkpoint, or else from the batches."""
        entries = read_leader_epochs(self.files.disk, self.directory)
        if entries:
            return LeaderEpochs([entry for entry in entries if entry[1] <= next_offset])
        for segment in segments:
            for batch in segment.batches():
                if batch.leader_epoch > (entries[-1][0] if entries else -1):
                    entries.append((batch.leader_epoch, batch.base_offset))
        return LeaderEpochs(entries)


def replay_producers(producers: ProducerState, segments: list[Segment], offset: int) -> None:
    """Apply the batches from `offset` on to the producer state."""
    for _ in replay(producers, segments, offset):
        pass


def replay(
    producers: ProducerState, segments: list[Segment], offset: int
) -> Iterator[tuple[Segment, AbortedTxn]]:
    """Apply the batches from `offset` on to the producer state.

    Yields each aborted transaction with the segment of its marker.
    """
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= offset:
            continue
        for batch in segment.batches(segment.position_of(offset)):
            if batch.producer_id >= 0 and batch.last_offset >= offset:
                marker = _marker_of(segment, batch) if batch.is_control else None
                aborted = producers.append(batch, batch.last_offset, marker)
                if aborted is not None:
                    yield segment, aborted


def _marker_of(segment: Segment, batch: BatchHeader) -> EndMarker | None:
    """Return the marker in a control batch. Raises CorruptBatchError if malformed."""
    try:
        return end_marker_of(segment.read_batch(batch), batch, batch.position)
    except ProtocolError as error:
        raise CorruptBatchError(f"the control batch at {batch.base_offset}: {error}") from error


def is_log_name(name: str) -> bool:
    """Return whether a file name belongs to the log of a segment."""
    return len(name) == 24 and name.endswith(LOG_SUFFIX) and name[:20].isdigit()


def finish_interrupted(disk: Disk, directory: str, names: list[str]) -> bool:
    """Complete or undo operations that a crash interrupted; return whether anything changed.

    `.cleaned` files of an uncommitted compaction and indexes without a log are deleted. A
    `.log.swap` file of a committed compaction replaces its source segments.
    """
    changed = False
    for name in names:
        if name.endswith(LEFTOVER_SUFFIXES):
            disk.unlink(f"{directory}/{name}")
            changed = True
    swaps = sorted(name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    for name in swaps:
        _finish_swap(disk, directory, names, name)
        changed = True
    if swaps:
        names = disk.listdir(directory)
    logs = {name[:20] for name in names if is_log_name(name)}
    for name in names:
        if name.endswith(SUFFIXES) and name[:20] not in logs and name[:20].isdigit():
            disk.unlink(f"{directory}/{name}")
            changed = True
    return changed


def _finish_swap(disk: Disk, directory: str, names: list[str], swap: str) -> None:
    """Replace the source segments of a committed compaction."""
    base_offset = int(swap[:20])
    path = f"{directory}/{swap}"
    last_offset = base_offset
    file = LazyFile(OpenFiles(disk), path)
    try:
        for batch in scan_headers(file, 0, disk.size(path)):
            last_offset = batch.last_offset
    finally:
        file.close()
    for name in names:
        if name.endswith(SUFFIXES) and name[:20].isdigit():
            replaced = base_offset < int(name[:20]) <= last_offset
            index_of_replaced = int(name[:20]) == base_offset and not name.endswith(LOG_SUFFIX)
            if (replaced or index_of_replaced) and disk.exists(f"{directory}/{name}"):
                disk.unlink(f"{directory}/{name}")
    disk.rename(path, path[: -len(SWAP_SUFFIX)])
