"""Files that another process has open, on a disk that cannot move them, as on Windows.

Removals and replacements are postponed to the next round of maintenance after the file is closed.
The other process may be a backup, a virus scanner or a tool of this project.
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
    """A worker that is also its own job, which takes an additional step."""

    asked = 0

    def submit(self, work: Callable[[], None], /) -> Slow:
        """Do the work and return this worker as the job."""
        work()
        self.asked = 0
        return self

    def done(self) -> bool:
        """Return False at the first call, then True."""
        self.asked += 1
        return self.asked > 1

    def result(self) -> None:
        """Do nothing: the work succeeded."""


def directory_with(disk: MemoryDisk, config: LogConfig = SMALL) -> LogManager:
    """Return a data directory with topic "t", whose partition has several segments."""
    manager = open_manager(disk, config)
    manager.create_topic("t", bytes(16), 1, {})
    for number in range(12):
        record = keyed((b"k%d" % (number % 3), b"%d" % number))
        manager.log("t", 0).append(record, NOW_MS)
    manager.log("t", 0).roll(NOW_MS)
    return manager


@contextmanager
def in_use(disk: MemoryDisk, path: str) -> Iterator[None]:
    """Let another process read a file."""
    file = disk.open(path)
    yield
    file.close()


def maintain(manager: LogManager, now_ms: int = NOW_MS) -> tuple[list[str], list[Event]]:
    """Run one round; return the errors and the events."""
    steps = list(maintenance_steps(manager, now_ms))
    errors = [step.message for step in steps if isinstance(step, StorageError)]
    return errors, [step for step in steps if isinstance(step, tuple)]


def test_old_segments_go_when_they_are_closed() -> None:
    """Retention stops at a segment in use and continues in the next round; the log is served."""
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
    """A deleted topic is gone for clients at once, although a file is in use.

    Its directory is removed with the next deletion, or start.
    """
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
    """A file that is opened after the deletion only delays the removal of that file."""
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
    """A compaction is completed when the segment in use is closed and the log reopened.

    Until then the log cannot be served, but no record is lost.
    """
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
    """A topic can be deleted at any step of its compaction, which keeps no file open."""
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
