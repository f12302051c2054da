"""The file that keeps what a data directory knows of security."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from storage.errors import StorageError
from storage.local_disk import LocalDisk
from storage.memory_disk import MemoryDisk
from storage.security_state import SECURITY_FILE, SecurityState


def test_sections_are_kept_apart() -> None:
    """What was put is there after a restart; another section stays as it was."""
    disk = MemoryDisk()
    disk.mkdir("/d")
    state = SecurityState(disk, "/d")
    state.put("acls", [{"host": "*"}])
    state.put("quotas", [{"user": "a"}, {"user": "b"}])
    state.put("acls", [])
    again = SecurityState(disk, "/d")
    assert again.section("acls") == again.section("tokens") == []
    assert again.section("quotas") == [{"user": "a"}, {"user": "b"}]


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    """It holds salted passwords and secrets of tokens."""
    SecurityState(LocalDisk(), str(tmp_path)).put("users", [{"name": "alice"}])
    assert stat.S_IMODE((tmp_path / SECURITY_FILE).stat().st_mode) == 0o600


def test_a_failed_write_changes_nothing() -> None:
    """What cannot be written is not there either."""
    disk = MemoryDisk()
    state = SecurityState(disk, "/missing")
    with pytest.raises(StorageError, match="cannot be written"):
        state.put("acls", [{"host": "*"}])
    assert state.section("acls") == []


@pytest.mark.parametrize(
    "contents",
    [
        "",
        "[]",
        "{}",
        '{"version":2}',
        '{"version":1,"acls":[1]}',
        pytest.param("[" * 9999, id="deep"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, contents: str) -> None:
    """Nobody starts with half of the ACLs."""
    (tmp_path / SECURITY_FILE).write_text(contents)
    with pytest.raises(StorageError, match=r"security\.json is damaged"):
        SecurityState(LocalDisk(), str(tmp_path))
