"""`snapshot` and `restore`: omitted data, refusals, and clean copies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coordinator_server.tools.restore import UNFINISHED
from coordinator_server.tools.snapshot import DirectorySnapshot
from storage.errors import StorageError
from storage.local_disk import LocalDisk
from storage.security_state import CHANGES_FILE, SECURITY_FILE, SecurityState
from tests.unit.storage.support import delete_topic, values_of
from tests.unit.tools.support import flip, make_data_directory, open_manager, run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory with topic `t`."""
    make_data_directory(tmp_path / "data")
    return tmp_path / "data"


def last_log(data: Path) -> Path:
    """Return the active segment of t-0."""
    return max((data / "t-0").glob("*.log"))


def test_a_copy_is_clean_and_restores(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The restored directory opens as after a clean stop, with the same records and topics."""
    assert run("snapshot", "--data-dir", data, tmp_path / "copy") == 0
    assert "120 batches, 360 records" in capsys.readouterr().out
    assert run("restore", tmp_path / "copy", "--data-dir", tmp_path / "new") == 0
    original, restored = open_manager(data), open_manager(tmp_path / "new")
    assert restored.clean_start
    assert restored.topics() == original.topics()
    assert restored.cluster_id == original.cluster_id
    for partition in (0, 1):
        log = restored.log("t", partition)
        assert values_of(log) == values_of(original.log("t", partition))
        assert log.producers.entries[7].epoch == 0
        assert log.recovery_reports == []


def test_a_batch_in_the_making_is_left_out(data: Path, tmp_path: Path) -> None:
    """An incomplete batch at the end of the active log is cut off and counted."""
    path = last_log(data)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    snapshot = DirectorySnapshot(data, tmp_path / "copy")
    verification = snapshot.take()
    assert snapshot.bytes_cut > 0
    assert verification.ends["t", 0] == (0, 177)
    assert verification.ends["t", 1] == (0, 180)


def test_security_is_copied(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Users and ACLs are copied with their changes, readable by the owner alone.

    Damaged files are not copied.
    """
    state = SecurityState(LocalDisk(), str(data))
    state.change("acls", put=[{"name": str(number)} for number in range(5000)])
    state.clear("acls")  # merges all changes, so that the change file starts empty
    state.change("acls", put=[{"name": "t"}])
    user = {"user": "a", "mechanism": "SCRAM-SHA-256"}
    state.change("scram_users", put=[user])
    assert run("snapshot", "--data-dir", data, tmp_path / "copy") == 0
    assert run("restore", tmp_path / "copy", "--data-dir", tmp_path / "new") == 0
    restored = SecurityState(LocalDisk(), str(tmp_path / "new"))
    assert restored.section("acls") == [{"name": "t"}]
    assert restored.section("scram_users") == [user]
    for name in (SECURITY_FILE, CHANGES_FILE):
        for directory in ("copy", "new"):
            assert (tmp_path / directory / name).stat().st_mode & 0o777 == 0o600
    (data / SECURITY_FILE).write_text("{")
    capsys.readouterr()
    assert run("snapshot", "--data-dir", data, tmp_path / "other") == 1
    assert f"{SECURITY_FILE} is damaged" in capsys.readouterr().err


def test_security_that_is_written_anew_meanwhile(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the security state is rewritten during a snapshot, old changes are not copied."""
    state = SecurityState(LocalDisk(), str(data))
    state.change("acls", put=[{"name": "old"}])
    read_bytes = Path.read_bytes

    def read_late(path: Path) -> bytes:
        contents = read_bytes(path)
        if path == data / CHANGES_FILE and not (data / SECURITY_FILE).exists():
            state.change("acls", drop=[{"name": "old"}], put=[{"name": "x" * 70_000}])
            state.change("acls", put=[{"name": "new"}], drop=[{"name": "x" * 70_000}])
        return contents

    monkeypatch.setattr(Path, "read_bytes", read_late)
    DirectorySnapshot(data, tmp_path / "copy").take()
    copied = SecurityState(LocalDisk(), str(tmp_path / "copy"))
    assert copied.section("acls") == state.section("acls") == [{"name": "new"}]


@pytest.mark.parametrize("which", ["first", "last"])
def test_damage_is_not_copied(
    data: Path, tmp_path: Path, which: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a flipped bit in any segment there is an error instead of a snapshot."""
    logs = sorted((data / "t-0").glob("*.log"))
    flip(logs[0 if which == "first" else -1], 80)
    assert run("snapshot", "--data-dir", data, tmp_path / "copy") == 1
    assert "damaged" in capsys.readouterr().err


def test_an_interrupted_compaction_is_finished_in_the_copy(data: Path, tmp_path: Path) -> None:
    """The copy completes a compaction whose .swap files exist, and drops .cleaned files."""
    logs = sorted((data / "t-0").glob("*.log"))
    logs[0].rename(f"{logs[0]}.swap")
    shutil.copyfile(logs[1], f"{logs[1]}.cleaned")
    verification = DirectorySnapshot(data, tmp_path / "copy").take()
    assert verification.ends["t", 0] == (0, 180)
    assert not list((tmp_path / "copy" / "t-0").glob("*.swap"))
    assert not list((tmp_path / "copy" / "t-0").glob("*.cleaned"))


def test_a_deleted_topic_does_not_come_back(data: Path, tmp_path: Path) -> None:
    """A topic that is deleted before the logs are copied is left out of the snapshot."""
    manager = open_manager(data)
    manager.create_topic("gone", bytes(15) + b"\x01", 1, {})
    manager.close()
    shutil.copytree(data / "t-0", data / "gone-0")
    manager = open_manager(data)
    delete_topic(manager, "gone")
    manager.close()
    verification = DirectorySnapshot(data, tmp_path / "copy").take()
    assert set(verification.ends) == {("t", 0), ("t", 1)}


def test_only_an_empty_directory_is_written_to(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither snapshot nor restore writes to a directory that is not empty."""
    busy = tmp_path / "busy"
    busy.mkdir()
    (busy / "precious").write_text("x")
    assert run("snapshot", "--data-dir", data, busy) == 2
    assert "is not empty; nothing was written" in capsys.readouterr().err
    assert run("snapshot", "--data-dir", data, tmp_path / "copy") == 0
    assert run("restore", tmp_path / "copy", "--data-dir", busy) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in busy.iterdir()] == ["precious"]


def test_a_locked_directory_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory that a broker has locked is refused by restore."""
    assert run("snapshot", "--data-dir", data, tmp_path / "copy") == 0
    (tmp_path / "new").mkdir()
    lock = LocalDisk().lock(str(tmp_path / "new" / ".lock"))
    assert lock is not None
    assert run("restore", tmp_path / "copy", "--data-dir", tmp_path / "new") == 2
    lock.release()


@pytest.mark.parametrize("manifest", ["[]", "null", "{}", '{"version": 99}', "{"])
def test_a_damaged_manifest_is_named(
    manifest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A manifest that is not of this version gives one line and exit code 1."""
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "snapshot.json").write_text(manifest)
    assert run("restore", tmp_path / "copy", "--data-dir", tmp_path / "a") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "is damaged" in line or "version 99 cannot be read" in line


def test_an_incomplete_snapshot_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot with a missing partition, flipped bit or missing manifest is not restored."""
    assert run("snapshot", "--data-dir", data, tmp_path / "copy") == 0
    shutil.copytree(tmp_path / "copy", tmp_path / "short")
    shutil.rmtree(tmp_path / "short" / "t-1")
    assert run("restore", tmp_path / "short", "--data-dir", tmp_path / "a") == 1
    assert "are not those that snapshot.json tells of" in capsys.readouterr().err
    flip(last_log(tmp_path / "copy"), 80)
    assert run("restore", tmp_path / "copy", "--data-dir", tmp_path / "b") == 1
    assert "CRC is" in capsys.readouterr().err
    assert run("restore", data, "--data-dir", tmp_path / "c") == 2
    assert "is no snapshot" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_no_broker_starts_on_half_a_restore(data: Path, tmp_path: Path) -> None:
    """An interrupted restore leaves a catalogue with which no broker starts."""
    shutil.copytree(data, tmp_path / "half")
    (tmp_path / "half" / "topics.json").write_bytes(UNFINISHED)
    with pytest.raises(StorageError, match="damaged"):
        open_manager(tmp_path / "half")


def test_what_is_no_data_directory_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot of a directory without data is refused with one line."""
    (tmp_path / "nothing").mkdir()
    assert run("snapshot", "--data-dir", tmp_path / "nothing", tmp_path / "copy") == 2
    assert "no data directory" in capsys.readouterr().err


def test_a_copy_inside_its_source_is_refused(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot inside its source directory is refused, and nothing is written."""
    assert run("snapshot", "--data-dir", data, data / "copy") == 2
    assert capsys.readouterr().err.endswith(f"{data}/copy is inside {data}\n")
    assert not (data / "copy").exists()


@pytest.mark.parametrize("error", [OSError("no space"), KeyboardInterrupt()])
@pytest.mark.parametrize("is_new", [True, False])
def test_an_incomplete_copy_is_removed(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    *,
    is_new: bool,
) -> None:
    """After an error or Ctrl-C the directory is empty, or does not exist if it was new."""

    def fail(snapshot: DirectorySnapshot) -> None:
        assert (snapshot.target / "t-0").is_dir()
        assert (snapshot.target / "meta.properties").is_file()
        raise error

    monkeypatch.setattr(DirectorySnapshot, "_copy_security", fail)
    target = tmp_path / "deep" / "copy"
    if not is_new:
        target.mkdir(parents=True)
    with pytest.raises(type(error)):
        DirectorySnapshot(data, target).take()
    assert target.exists() is not is_new
    assert not any(target.glob("*"))
