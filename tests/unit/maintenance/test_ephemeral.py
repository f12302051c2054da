"""Ephemeral data directories: only those of killed processes are removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coordinator_server.maintenance import ephemeral
from coordinator_server.maintenance.ephemeral import (
    LEAST_AGE_SECONDS,
    PREFIX,
    remove_left_behind,
)
from storage.checkpoints import LOCK_FILE
from storage.local_disk import LocalDisk

NOW_S = 1_000_000.0


def directory(parent: Path, name: str, age_s: float = LEAST_AGE_SECONDS) -> Path:
    """Create and return a directory of this age, as a broker leaves it."""
    made = parent / name
    made.mkdir()
    (made / "topic-0").mkdir()
    (made / LOCK_FILE).touch()
    os.utime(made, (NOW_S - age_s, NOW_S - age_s))
    return made


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """Only the directory of a killed process is removed.

    Directories that are in use, new, without a lock file or of other programs stay.
    """
    left = directory(tmp_path, f"{PREFIX}a")
    used = directory(tmp_path, f"{PREFIX}b")
    young = directory(tmp_path, f"{PREFIX}c", age_s=LEAST_AGE_SECONDS - 1)
    foreign = directory(tmp_path, "other")
    unlocked = tmp_path / f"{PREFIX}d"
    unlocked.mkdir()
    os.utime(unlocked, (0, 0))
    disk = LocalDisk()
    lock = disk.lock(str(used / LOCK_FILE))
    assert lock is not None
    assert remove_left_behind(disk, tmp_path, NOW_S) == 1
    assert not left.exists()
    assert set(tmp_path.iterdir()) == {used, young, foreign, unlocked}
    lock.release()
    assert remove_left_behind(disk, tmp_path, NOW_S) == 1


def test_it_removes_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start removes a limited number of directories, so that it does not take long."""
    monkeypatch.setattr(ephemeral, "_MOST_AT_ONCE", 2)
    for name in "abc":
        directory(tmp_path, PREFIX + name)
    assert [remove_left_behind(LocalDisk(), tmp_path, NOW_S) for _ in range(3)] == [2, 1, 0]
