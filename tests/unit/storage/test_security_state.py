"""The files with the security state of a data directory."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from random import Random
from typing import Any

import pytest

from storage import security_state
from storage.errors import StorageError
from storage.local_disk import LocalDisk
from storage.memory_disk import Crash, MemoryDisk
from storage.security_state import CHANGES_FILE, SECURITY_FILE, SecurityState


def _disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.mkdir("/d")
    return disk


def _user(name: str, salt: str = "x", mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return {"user": name, "mechanism": mechanism, "salt": salt}


def _quota(user: str, rate: float) -> dict[str, Any]:
    return {"entity": {"user": user, "client-id": None}, "quotas": {"producer_byte_rate": rate}}


@pytest.fixture
def often_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge the change file as soon as it is longer than the main file."""
    monkeypatch.setattr(security_state, "_LEAST_BYTES", 0)


def test_sections_are_kept_apart() -> None:
    """Each section is stored separately and survives a restart."""
    disk = _disk()
    state = SecurityState(disk, "/d")
    state.change("acls", put=[{"host": "*"}])
    state.change("quotas", put=[_quota("a", 1), _quota("b", 2)])
    state.clear("acls")
    again = SecurityState(disk, "/d")
    assert again.section("acls") == again.section("tokens") == []
    assert again.section("quotas") == [_quota("a", 1), _quota("b", 2)]


def test_entries_are_known_by_what_they_are_about() -> None:
    """The key of a user is name and mechanism; the key of a quota is its entity.

    The key of an ACL is all of its fields.
    """
    disk = _disk()
    state = SecurityState(disk, "/d")
    state.change("scram_users", put=[_user("a"), _user("b"), _user("a", mechanism="other")])
    state.change("scram_users", put=[_user("a", "y")], drop=[_user("b", "whatever")])
    state.change("quotas", put=[_quota("a", 1), _quota("b", 2)])
    state.change("quotas", put=[_quota("a", 3)], drop=[_quota("b", 0), _quota("none", 0)])
    state.change("acls", put=[{"host": "*", "name": "t"}, {"host": "*", "name": "u"}])
    state.change("acls", put=[{"host": "*", "name": "t"}], drop=[{"host": "*", "name": "u"}])
    for one in (state, SecurityState(disk, "/d")):
        assert one.section("scram_users") == [_user("a", "y"), _user("a", mechanism="other")]
        assert one.section("quotas") == [_quota("a", 3)]
        assert one.section("acls") == [{"host": "*", "name": "t"}]


def test_a_change_writes_what_it_says() -> None:
    """A change writes only itself, however many entries the state has."""
    disk = _disk()
    state = SecurityState(disk, "/d")
    state.change("acls", put=[{"name": f"topic-{number}"} for number in range(20_000)])
    before = disk.size(f"/d/{CHANGES_FILE}")
    # This change merges all earlier changes into the state file.
    state.change("scram_users", put=[_user("a")])
    assert disk.size(f"/d/{SECURITY_FILE}") == pytest.approx(before, rel=0.01)
    for number in range(10):
        state.change("acls", put=[{"name": str(number)}])
    assert disk.size(f"/d/{CHANGES_FILE}") < 2_000


def test_changes_are_merged_now_and_then(often_rewritten: None) -> None:
    """Changes are merged so that superseded changes do not accumulate."""
    disk = _disk()
    state = SecurityState(disk, "/d")
    for number in range(1_000):
        state.change("scram_users", put=[_user("a", str(number))])
    assert disk.size(f"/d/{CHANGES_FILE}") + disk.size(f"/d/{SECURITY_FILE}") < 1_000
    assert SecurityState(disk, "/d").section("scram_users") == [_user("a", "999")]


def test_the_file_of_before_is_read() -> None:
    """A file of an older version, which has the whole state, is read."""
    disk = _disk()
    file = disk.open(f"/d/{SECURITY_FILE}", create=True)
    file.append([json.dumps({"version": 1, "scram_users": [_user("a")]}).encode()])
    file.close()
    state = SecurityState(disk, "/d")
    state.change("scram_users", put=[_user("b")], drop=[_user("a")])
    assert SecurityState(disk, "/d").section("scram_users") == [_user("b")]


def test_nobody_else_may_read_it(tmp_path: Path, often_rewritten: None) -> None:
    """The files are private, as they contain salted passwords and token secrets."""
    state = SecurityState(LocalDisk(), str(tmp_path))
    for name in ("alice", "bob"):
        state.change("users", put=[{"name": name}])
    for file in (SECURITY_FILE, CHANGES_FILE):
        assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o600


def test_a_failed_write_changes_nothing() -> None:
    """A failed write changes nothing, in memory and on disk."""
    state = SecurityState(MemoryDisk(), "/missing")
    for _ in range(2):
        with pytest.raises(StorageError, match="cannot be written"):
            state.change("acls", put=[{"host": "*"}])
        assert state.section("acls") == []


def _work(state: SecurityState, acknowledged: list[int]) -> None:
    """Make changes: each change sets a user to its number; some also clear or set a section."""
    for number in range(12):
        state.change("scram_users", put=[_user("a", str(number))])
        acknowledged.append(number)
        if number % 3 == 0:
            state.clear("acls")
        if number % 6 == 3:
            state.change("acls", put=[{"name": str(number)}])


def _salt(state: SecurityState) -> int:
    entries = state.section("scram_users")
    return int(entries[0]["salt"]) if entries else -1


@pytest.mark.usefixtures("often_rewritten")
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("power", [False, True])
def test_every_crash_keeps_what_was_acknowledged(torn: bool, power: bool) -> None:
    """After any crash acknowledged changes are present, and at most the change in progress.

    The next broker can make further changes.
    """
    for operation in range(1_000):
        disk, acknowledged = _disk(), [-1]
        disk.sync_directory("")
        disk.crash_at(operation, torn=torn)
        try:
            _work(SecurityState(disk, "/d"), acknowledged)
        except Crash:
            pass
        else:
            assert operation > 50
            return
        disk.disarm()
        if power:
            disk.power_cut(Random(operation))
        else:
            disk.processes_died()
        state = SecurityState(disk, "/d")
        assert acknowledged[-1] <= _salt(state) <= acknowledged[-1] + 1
        state.change("scram_users", put=[_user("a", "77")])
        state.change("scram_users", put=[_user("b", "78")])
        assert SecurityState(disk, "/d").section("scram_users")[-2:] == [
            _user("a", "77"),
            _user("b", "78"),
        ]


@pytest.mark.usefixtures("often_rewritten")
@pytest.mark.parametrize("torn", [False, True])
def test_every_failure_leaves_the_state_as_it_was(torn: bool) -> None:
    """A refused change has no effect; the next change is stored, also after a restart."""
    for operation in range(1_000):
        disk, acknowledged = _disk(), [-1]
        state = SecurityState(disk, "/d")
        disk.fail_at(operation, torn=torn)
        try:
            _work(state, acknowledged)
        except StorageError:
            pass
        else:
            assert operation > 50
            return
        disk.disarm()
        assert _salt(state) == acknowledged[-1]
        acls = state.section("acls")
        restarted = SecurityState(disk, "/d")
        assert (_salt(restarted), restarted.section("acls")) == (acknowledged[-1], acls)
        state.change("scram_users", put=[_user("a", "77")])
        again = SecurityState(disk, "/d")
        assert _salt(again) == 77
        assert again.section("acls") == acls


@pytest.mark.parametrize(
    "contents",
    [
        "",
        "[]",
        "{}",
        '{"version":2}',
        '{"version":1,"acls":[1]}',
        '{"version":1,"acls":[{"name":"\\ud800"}]}',
        pytest.param("[" * 9999, id="deep"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, contents: str) -> None:
    """A damaged file stops the start with an error that names the file.

    No ACL is thus lost silently.
    """
    (tmp_path / SECURITY_FILE).write_text(contents)
    with pytest.raises(StorageError, match=r"security\.json is damaged"):
        SecurityState(LocalDisk(), str(tmp_path))


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "[]",
        '{"section":"acls"}',
        '{"section":"acls","replaces":false,"drop":[],"put":[""]}',
        '{"section":"acls","replaces":false,"drop":[""],"put":[]}',
    ],
)
def test_damaged_changes_are_named(tmp_path: Path, line: str) -> None:
    """A damaged change stops the start with an error that names the line.

    This includes the last change, which was acknowledged.
    """
    good = '{"section":"acls","replaces":false,"drop":[],"put":[{"name":"t"}]}\n'
    for later in (good, ""):
        (tmp_path / CHANGES_FILE).write_text(f"{good}{line}\n{later}")
        with pytest.raises(StorageError, match=r"security\.changes is damaged \(line 2"):
            SecurityState(LocalDisk(), str(tmp_path))


def test_a_last_change_that_a_power_cut_lost_is_ignored(tmp_path: Path) -> None:
    """A last line that ends in zeros, which a power cut leaves, is ignored."""
    good = '{"section":"acls","replaces":false,"drop":[],"put":[{"name":"t"}]}\n'
    (tmp_path / CHANGES_FILE).write_text(f'{good}\0\0\0"put":[]}}\n')
    state = SecurityState(LocalDisk(), str(tmp_path))
    assert state.section("acls") == [{"name": "t"}]
    assert state.dropped_bytes == 13
