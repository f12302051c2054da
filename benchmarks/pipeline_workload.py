"""A log directory with many commits for the pipeline's benchmarks, and the cost of a run.

Groups commit all partitions of one topic, round after round, with one batch per request as brokers
write it. Each group has two generations. All records are in the last hour before `AT_MS`.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from pipeline.sources.logdir import LogPartition
from pipeline.sources.scan import PartitionScan
from protocol import offsets_log as log
from protocol.batch import Record, build_batch
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol.hashing import partition_for

TOPIC = "orders"
OFFSETS_PARTITIONS = 50
AT_MS = 1_772_366_400_000
SPAN_MS = 3_600_000
PRODUCE_BATCH = 100
_SEGMENT = "00000000000000000000.log"


@dataclass(frozen=True)
class Workload:
    """The size of a workload.

    `commits` is groups x partitions x rounds. `records` is the number of records in each partition
    of the topic. All records lie in the last `span_ms` before `end_ms`.
    """

    groups: int = 1000
    partitions: int = 100
    rounds: int = 10
    records: int = 2000
    members: int = 4
    end_ms: int = AT_MS
    span_ms: int = SPAN_MS

    @property
    def commits(self) -> int:
        """The total number of committed offsets."""
        return self.groups * self.partitions * self.rounds

    def write(self, directory: Path) -> None:
        """Write the segment files, unless they exist."""
        done = directory.with_suffix(".done")
        if done.exists():
            return
        self._write_topic(directory)
        self._write_offsets(directory)
        done.touch()

    def _write_topic(self, directory: Path) -> None:
        step_ms = self.span_ms // self.records
        for partition in range(self.partitions):
            batches = []
            for first in range(0, self.records, PRODUCE_BATCH):
                offsets = range(first, min(first + PRODUCE_BATCH, self.records))
                begin_ms = self.end_ms - self.span_ms
                some = [
                    Record(offset, begin_ms + offset * step_ms, b"k", b"v" * 20)
                    for offset in offsets
                ]
                batches.append(build_batch(some).to_bytes())
            _append(directory / f"{TOPIC}-{partition}", b"".join(batches))

    def _write_offsets(self, directory: Path) -> None:
        ends: defaultdict[int, int] = defaultdict(int)
        begin_ms = self.end_ms - self.span_ms
        keys = [self._keys(group) for group in range(self.groups)]
        for number in range(self.rounds):
            parts: defaultdict[int, list[bytes]] = defaultdict(list)
            for group in range(self.groups):
                index = partition_for(_name(group), OFFSETS_PARTITIONS)
                at_ms = begin_ms + group + self.span_ms * (number + 1) // (self.rounds + 1)
                if number in (0, self.rounds // 2):
                    value = self._generation(group, 1 + (number > 0), at_ms - 1)
                    key = log.encode_key(log.GroupMetadataKey(group=_name(group)))
                    record = Record(ends[index], at_ms - 1, key, value)
                    parts[index].append(build_batch([record]).to_bytes())
                    ends[index] += 1
                values = self._values(group, number, at_ms)
                first = ends[index]
                records = [
                    Record(first + place, at_ms, key, value)
                    for place, (key, value) in enumerate(zip(keys[group], values, strict=True))
                ]
                parts[index].append(build_batch(records).to_bytes())
                ends[index] += len(records)
            for index, batches in parts.items():
                _append(directory / f"__consumer_offsets-{index}", b"".join(batches))

    def commit_again(self, directory: Path, at_ms: int) -> None:
        """Append commits of all partitions by the first group, with its last offsets."""
        index = partition_for(_name(0), OFFSETS_PARTITIONS)
        folder = directory / f"__consumer_offsets-{index}"
        scan = PartitionScan(LogPartition("__consumer_offsets", index, str(folder)))
        scan.refresh()
        values = self._values(0, self.rounds - 1, at_ms)
        records = [
            Record(scan.log_end + place, at_ms, key, value)
            for place, (key, value) in enumerate(zip(self._keys(0), values, strict=True))
        ]
        _append(folder, build_batch(records).to_bytes())

    def _keys(self, group: int) -> list[bytes]:
        return [
            log.encode_key(
                log.OffsetCommitKey(group=_name(group), topic=TOPIC, partition=partition)
            )
            for partition in range(self.partitions)
        ]

    def _values(self, group: int, number: int, at_ms: int) -> list[bytes]:
        """Return commit values; every tenth group lags by up to a fifth of the log."""
        behind = (group % 10 == 0) * self.records // 5
        reached = max(0, self.records * (number + 1) // self.rounds - behind)
        some = [
            log.OffsetCommitValue(
                offset=max(0, reached - shift),
                leader_epoch=0,
                metadata="",
                commit_timestamp=at_ms,
            )
            for shift in range(7)
        ]
        encoded = [log.encode_value(value, 4) for value in some]
        return [encoded[partition % 7] for partition in range(self.partitions)]

    def _generation(self, group: int, generation: int, at_ms: int) -> bytes:
        """Return the metadata of a group; each generation rotates the assignment by one."""
        names = [f"{_name(group)}-member-{number}" for number in range(self.members)]
        subscription = encode_subscription(
            ConsumerProtocolSubscription(topics=[TOPIC], user_data=None, owned_partitions=[]), 1
        )
        members = []
        for place, name in enumerate(names):
            own = list(range((place + generation) % self.members, self.partitions, self.members))
            part = TopicPartition(topic=TOPIC, partitions=own)
            assignment = ConsumerProtocolAssignment(assigned_partitions=[part])
            members.append(
                log.RecordedMember(
                    member_id=name,
                    group_instance_id=None,
                    client_id=name,
                    client_host="/10.0.0.1",
                    rebalance_timeout=300_000,
                    session_timeout=45_000,
                    subscription=subscription,
                    assignment=encode_assignment(assignment, 1),
                )
            )
        value = log.GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol="range",
            leader=names[0],
            current_state_timestamp=at_ms,
            members=members,
        )
        return log.encode_value(value, 3)


def _name(group: int) -> str:
    return f"group-{group:06}"


def _append(folder: Path, data: bytes) -> None:
    if not folder.exists():
        folder.mkdir(parents=True)
        # A broker recognizes a topic's directory by this file; the topic id is arbitrary.
        topic = folder.name.rpartition("-")[0]
        topic_id = base64.urlsafe_b64encode(topic.rjust(16)[-16:].encode()).decode()[:22]
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    with (folder / _SEGMENT).open("ab") as segment:
        segment.write(data)


@dataclass(frozen=True)
class Cost:
    """The cost of a process and its descendants. `lines` are standard error, with times."""

    wall_seconds: float
    cpu_seconds: float
    java_seconds: float
    peak_mb: float
    lines: list[tuple[float, str]]


class Watch:
    """Samples a process and its descendants ten times per second until stopped."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seconds: dict[int, float] = {}
        self._java: set[int] = set()
        self.peak_mb = 0.0
        self.worker_mb = 0.0
        """The largest memory of a single process other than a JVM."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all processes so far, including ended ones."""
        return sum(self._seconds.values())

    @property
    def java_seconds(self) -> float:
        """CPU seconds of the JVMs."""
        return sum(self._seconds.get(process, 0.0) for process in self._java)

    def stop(self) -> None:
        """Stop sampling."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            self.look()

    def look(self) -> None:
        """Take one sample."""
        parents: dict[int, list[int]] = defaultdict(list)
        figures = {}
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            fields = line.rpartition(")")[2].split()
            number = int(name)
            parents[int(fields[1])].append(number)
            seconds = (int(fields[11]) + int(fields[12])) / ticks
            figures[number] = seconds, int(fields[21]) * page / 2**20, "(java)" in line
        wanted = [self._root]
        for process in wanted:
            wanted += parents[process]
        resident = 0.0
        for process in wanted:
            if process in figures:
                seconds, rss, is_java = figures[process]
                self._seconds[process] = max(seconds, self._seconds.get(process, 0.0))
                resident += rss
                if is_java:
                    self._java.add(process)
                else:
                    self.worker_mb = max(self.worker_mb, rss)
        self.peak_mb = max(self.peak_mb, resident)


def run_pipeline(arguments: list[str], *, echo: bool = True) -> Cost:
    """Run `python -m pipeline ARGUMENTS` in its own process and measure its cost.

    Raises SystemExit if the command fails.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", *arguments], stderr=subprocess.PIPE, text=True
    )
    watch = Watch(process.pid)
    lines = []
    assert process.stderr is not None
    for line in process.stderr:
        watch.look()
        lines.append((watch.cpu_seconds, line.rstrip()))
        if echo:
            print(f"[{watch.cpu_seconds:6.1f} CPU s] {line.rstrip()}", flush=True)
    code = process.wait()
    watch.stop()
    if code != 0:
        raise SystemExit(f"the pipeline ended with {code}")
    wall = time.perf_counter() - began
    return Cost(wall, watch.cpu_seconds, watch.java_seconds, watch.peak_mb, lines)
