"""A data directory gets new contents: after a crash at any step, all are old or all are new."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from storage.checkpoints import LOCK_FILE
from storage.disk import write_atomically
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_disk import Crash, MemoryDisk
from storage.replacement import (
    COMPLETE,
    MOVING,
    REPLACED,
    STAGED,
    commit,
    forget,
    is_unfinished,
)
from storage.security_state import SECURITY_FILE
from tests.unit.storage.support import NOW_MS, batch, values_of

DATA = "data"
_KEPT = "notes.txt"  # a file that is not the broker's

After = Callable[[MemoryDisk, int], None]
"""What happens to the disk after the crash: `after(disk, seed)`."""


class Contents(NamedTuple):
    """The contents of a data directory: values by topic, presence of quotas, and cluster id."""

    values: dict[str, list[bytes | None]]
    has_quotas: bool
    cluster_id: str


OLD = Contents({"a": [b"old"], "both": [b"old", b"older"]}, True, "old")
NEW = Contents({"b": [b"new"], "both": [b"new"]}, False, "new")


def opened(disk: MemoryDisk, directory: str, cluster_id: str | None = None) -> LogManager:
    """Return the opened data directory."""
    return LogManager.open(disk, directory, LogConfig(), cluster_id=cluster_id)


def fill(disk: MemoryDisk, directory: str, contents: Contents) -> None:
    """Write a data directory, as a broker that stops."""
    manager = opened(disk, directory, contents.cluster_id)
    for name, values in contents.values.items():
        manager.create_topic(name, name.encode().ljust(16), 1, {})
        for value in values:
            manager.log(name, 0).append(batch(value or b""), NOW_MS)
    manager.close()
    if contents.has_quotas:
        write_atomically(disk, f"{directory}/{SECURITY_FILE}", b'{"version":1}')


def prepared() -> MemoryDisk:
    """Return a disk with old data and staged new data, all synced."""
    disk = MemoryDisk()
    fill(disk, DATA, OLD)
    fill(disk, f"{DATA}/{STAGED}", NEW)
    write_atomically(disk, f"{DATA}/{STAGED}/{LOCK_FILE}", b"")
    write_atomically(disk, f"{DATA}/{_KEPT}", b"mine")
    for directory in sorted(disk._directories):
        for name in disk.listdir(directory):
            if not disk.is_directory(f"{directory}/{name}"):
                disk.sync_file(f"{directory}/{name}")
        disk.sync_directory(directory)
    return disk


def read(disk: MemoryDisk) -> Contents:
    """Return the contents that a starting broker finds, without files of deleted topics."""
    manager = opened(disk, DATA)
    for _ in manager.remove_deleted():
        pass
    values = {
        name: [value for _, value in values_of(manager.log(name, 0))] for name in manager.topics()
    }
    manager.close()
    return Contents(values, disk.exists(f"{DATA}/{SECURITY_FILE}"), manager.cluster_id)


def kill(disk: MemoryDisk, _: int) -> None:
    """Keep all writes, as after kill -9."""
    disk.processes_died()


def cut(disk: MemoryDisk, seed: int) -> None:
    """Lose unsynced writes, as in a power cut."""
    disk.power_cut(Random(seed))


def restored(disk: MemoryDisk) -> None:
    """Commit the new contents, and start and stop a broker."""
    commit(disk, DATA)
    opened(disk, DATA).close()


@pytest.mark.parametrize("after", [kill, cut])
def test_a_crash_at_any_step_leaves_old_or_new_contents(after: After) -> None:
    """New contents are valid once `commit` has returned; a start completes the replacement."""
    found: list[bool] = []
    step = 0
    is_done = False
    while not is_done:
        disk, is_committed = prepared(), False
        disk.crash_at(step)
        try:
            commit(disk, DATA)
            is_committed = True
            opened(disk, DATA).close()
            is_done = True
        except Crash:
            pass
        after(disk, step)
        contents = read(disk)
        assert contents in (OLD, NEW), step
        assert contents == NEW or not is_committed, step
        found.append(contents == NEW)
        names = set(disk.listdir(DATA))
        assert not names & {STAGED, COMPLETE, MOVING}, step
        assert {name for name in names if name.endswith("-delete")} == set(), step
        assert disk.read_file(f"{DATA}/{_KEPT}") == b"mine"
        assert read(disk) == contents, step
        step += 1
    assert found == sorted(found)
    assert not found[0]
    assert step > 20


def test_a_second_crash_while_the_start_finishes_the_replacement() -> None:
    """If a start is killed during a replacement, the next start completes the replacement."""
    for first in range(2, 24, 3):
        second = 0
        while True:
            disk = prepared()
            disk.crash_at(first)
            with pytest.raises(Crash):
                restored(disk)
            disk.processes_died()
            assert is_unfinished(disk, DATA)
            disk.crash_at(second)
            try:
                opened(disk, DATA)
                break
            except Crash:
                disk.processes_died()
            assert read(disk) == NEW, (first, second)
            second += 1


def test_an_error_of_the_disk_while_the_start_finishes_the_replacement() -> None:
    """If the disk fails during a replacement, the start fails and names the directory.

    The next start completes the replacement.
    """
    disk = prepared()
    commit(disk, DATA)
    disk.fail_at(3)
    with pytest.raises(Exception, match="the data directory data cannot be used"):
        opened(disk, DATA)
    assert read(disk) == NEW


def test_an_error_of_the_disk_during_the_commit_changes_nothing() -> None:
    """The old contents stay valid if `commit` raises an error."""
    for step in (0, 1):
        disk = prepared()
        disk.fail_at(step)
        with pytest.raises(OSError):
            commit(disk, DATA)
        assert not is_unfinished(disk, DATA)
        assert read(disk) == OLD


def test_staged_contents_without_commit_are_removed() -> None:
    """A start removes the files that a killed restore has copied."""
    disk = prepared()
    assert not is_unfinished(disk, DATA)
    assert read(disk) == OLD
    assert STAGED not in disk.listdir(DATA)


def test_replaced_contents_stay_until_they_are_forgotten() -> None:
    """The old contents are complete after the start; a crash while they are removed is harmless."""
    step = 0
    is_done = False
    while not is_done:
        disk = prepared()
        restored(disk)
        assert read(disk) == NEW
        if not step:
            old = opened(disk, f"{DATA}/{REPLACED}")
            assert [value for _, value in values_of(old.log("both", 0))] == [b"old", b"older"]
            assert old.cluster_id == "old"
            old.close()
            disk = prepared()
            restored(disk)
        disk.crash_at(step)
        try:
            list(forget(disk, DATA))
            is_done = True
            disk.disarm()
        except Crash:
            disk.processes_died()
            list(forget(disk, DATA))
        assert REPLACED not in disk.listdir(DATA)
        assert read(disk) == NEW
        list(forget(disk, DATA))
        step += 1
    assert step > 5


def test_a_second_replacement_replaces_the_replaced_contents() -> None:
    """If the new contents were never served, the contents before them are kept only once."""
    disk = prepared()
    restored(disk)
    fill(disk, f"{DATA}/{STAGED}", OLD)
    restored(disk)
    assert read(disk) == OLD
    kept = opened(disk, f"{DATA}/{REPLACED}")
    assert kept.cluster_id == "new"
    kept.close()
