"""Files that another process has open, on a disk that keeps those where they are, as Windows does.

What was to be removed or replaced stays for now; the next round of maintenance does it, once the
file is closed. A backup, a virus scanner or one of our own tools may be that process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from storage.errors import StorageError
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.maintenance import Event, maintenance_steps
from storage.memory_disk import MemoryDisk
from tests.unit.storage.support import (
    NOW_MS,
    all_records,
    batch,
    delete_topic,
    files_in,
    keyed,
    open_manager,
    values_of,
)

SMALL = LogConfig(segment_bytes=300, retention_ms=5000)


class Slow:
    """A worker whose work takes a step of its own, and that is the job as well."""

    asked = 0

    def submit(self, work: Callable[[], None], /) -> Slow:
        """Do the work."""
        work()
        self.asked = 0
        return self

    def done(self) -> bool:
        """Whether it was asked before."""
        self.asked += 1
        return self.asked > 1

    def result(self) -> None:
        """Nothing went wrong."""


def directory_with(disk: MemoryDisk, config: LogConfig = SMALL) -> LogManager:
    """A data directory with topic "t", whose partition has several segments."""
    manager = open_manager(disk, config)
    manager.create_topic("t", bytes(16), 1, {})
    for number in range(12):
        record = keyed((b"k%d" % (number % 3), b"%d" % number))
        manager.log("t", 0).append(record, NOW_MS)
    manager.log("t", 0).roll(NOW_MS)
    return manager


@contextmanager
def in_use(disk: MemoryDisk, path: str) -> Iterator[None]:
    """Have another process read a file."""
    file = disk.open(path)
    yield
    file.close()


def maintain(manager: LogManager, now_ms: int = NOW_MS) -> tuple[list[str], list[Event]]:
    """One round: the errors, and what was done."""
    steps = list(maintenance_steps(manager, now_ms))
    errors = [step.message for step in steps if isinstance(step, StorageError)]
    return errors, [step for step in steps if isinstance(step, tuple)]


def test_old_segments_go_when_they_are_closed() -> None:
    """Retention stops at the segment in use and goes on in the next round; the log serves."""
    disk = MemoryDisk()
    manager = directory_with(disk)
    log = manager.log("t", 0)
    second = log.segments[1]
    with in_use(disk, f"{second.stem}.log"):
        errors, _ = maintain(manager, NOW_MS + 10_000)
        assert len(errors) == 1
        assert "old segments of t-0 cannot be deleted" in errors[0]
        assert log.segments[0] is second
        assert log.log_start_offset == second.base_offset
        assert values_of(log)[0][0] == second.base_offset
    errors, done = maintain(manager, NOW_MS + 10_000)
    assert not errors
    assert done
    assert all_records(log) == []
    assert len(files_in(disk, "data/t-0", ".log")) == 1


def test_a_topic_is_deleted_while_a_file_of_it_is_in_use() -> None:
    """It is gone for clients at once; its directory goes with the next deletion, or start."""
    disk = MemoryDisk()
    manager = directory_with(disk)
    with in_use(disk, f"{manager.log('t', 0).segments[0].stem}.log"):
        with pytest.raises(StorageError, match="topic t cannot be removed"):
            delete_topic(manager, "t")
        assert not manager.topics()
        with pytest.raises(StorageError, match="topic t cannot be removed"):
            manager.create_topic("t", bytes(range(16)), 1, {})
    manager.create_topic("t", bytes(range(16)), 1, {})
    assert values_of(manager.log("t", 0)) == []
    assert maintain(manager) == ([], [])
    assert not [name for name in disk.listdir("data") if name.endswith("-delete")]


def test_files_of_a_deleted_topic_go_when_they_are_closed() -> None:
    """A file that is opened after the deletion only delays the removal."""
    disk = MemoryDisk()
    manager = directory_with(disk)
    delete_topic(manager, "t")
    (directory,) = files_in(disk, "data", "-delete")
    name = disk.listdir(f"data/{directory}")[0]
    with in_use(disk, f"data/{directory}/{name}"):
        errors, _ = maintain(manager)
        assert "files of deleted topics cannot be removed" in errors[0]
    assert maintain(manager) == ([], [])
    assert not disk.exists(f"data/{directory}")


def test_compaction_is_finished_when_the_segment_is_closed() -> None:
    """The log cannot be served meanwhile, loses nothing, and is compacted when it is opened."""
    disk = MemoryDisk()
    compacting = SMALL._replace(cleanup_policy=("compact",))
    manager = directory_with(disk, compacting)
    before = {record.key: record.value for record in all_records(manager.log("t", 0))}
    with in_use(disk, f"{manager.log('t', 0).segments[0].stem}.log"):
        errors, _ = maintain(manager)
        assert "t-0 cannot be compacted" in errors[0]
        with pytest.raises(StorageError, match="t-0 cannot be opened"):
            manager.log("t", 0)
    log = manager.log("t", 0)
    assert {record.key: record.value for record in all_records(log)} == before
    assert not files_in(disk, "data/t-0", ".swap")
    log.append(batch(b"later"), NOW_MS)


def test_a_topic_is_deleted_at_any_step_of_its_compaction() -> None:
    """Compaction has no file open between its steps, so the directory can be renamed."""
    steps = 0
    while True:
        disk = MemoryDisk()
        manager = directory_with(disk, SMALL._replace(cleanup_policy=("compact",)))
        manager.files.worker = Slow()
        running = maintenance_steps(manager, NOW_MS)
        if sum(1 for _ in zip(range(steps), running, strict=False)) < steps:
            assert steps > 5
            return
        delete_topic(manager, "t")
        assert not [step for step in running if isinstance(step, StorageError)], steps
        steps += 1
