"""All disks have the same contract; simulated failures; file descriptors and indexes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

import pytest

from storage.disk import Disk, File, write_atomically
from storage.index import PENDING_ENTRIES_MAX, OffsetIndex, TimeIndex
from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.memory_disk import Crash, MemoryDisk
from storage.open_files import LazyFile, OpenFiles
from storage.portable_disk import PortableDisk, PortableFile
from tests.unit.storage.support import NOW_MS, batch, values_of

MANY_BUFFERS = 2000
"""More than any system writes in one call."""


@pytest.fixture(params=[LocalDisk, PortableDisk, MemoryDisk])
def place(request: pytest.FixtureRequest, tmp_path: Path, msvcrt: None) -> tuple[Disk, str]:
    """Return a disk and an existing directory on it."""
    disk: Disk = request.param()
    if not isinstance(disk, MemoryDisk):
        return disk, str(tmp_path)
    disk.mkdir("root/deep")
    return disk, "root/deep"


def test_files(place: tuple[Disk, str]) -> None:
    """Files can be appended to, read, truncated and measured; reads past the end are short."""
    disk, root = place
    path = f"{root}/f"
    with pytest.raises(FileNotFoundError):
        disk.open(path)
    file = disk.open(path, create=True)
    file.append([b"ab", memoryview(b"cde"), bytearray(b"f")])
    file.append([bytes([n % 256]) for n in range(MANY_BUFFERS)])
    assert file.size() == 6 + MANY_BUFFERS
    file.truncate(6)
    assert (file.pread(3, 1), file.pread(9, 4), file.pread(1, 6)) == (b"bcd", b"ef", b"")
    file.append([b"!"])
    file.sync()
    file.close()
    file.close()
    assert disk.read_file(path) == b"abcdef!"
    assert disk.size(path) == 7
    assert disk.modified_ms(path) >= 0


def test_names(place: tuple[Disk, str]) -> None:
    """Names can be created, renamed and removed; a directory with files cannot be removed."""
    disk, root = place
    disk.mkdir(f"{root}/a/b")
    disk.mkdir(f"{root}/a/b")
    assert disk.is_directory(f"{root}/a/b")
    assert not disk.is_directory(f"{root}/nothing")
    write_atomically(disk, f"{root}/a/b/x", b"1")
    write_atomically(disk, f"{root}/a/b/y", b"2")
    disk.rename(f"{root}/a/b/x", f"{root}/a/b/y")
    assert disk.read_file(f"{root}/a/b/y") == b"1"
    disk.rename(f"{root}/a/b", f"{root}/c")
    assert disk.listdir(f"{root}/c") == ["y"]
    assert disk.listdir(f"{root}/a") == []
    assert disk.exists(f"{root}/c/y")
    with pytest.raises(OSError, match="not empty"):
        disk.rmdir(f"{root}/c")
    disk.unlink(f"{root}/c/y")
    disk.rmdir(f"{root}/c")
    for ask in (disk.listdir, disk.unlink, disk.size, disk.read_file):
        with pytest.raises(FileNotFoundError):
            ask(f"{root}/c")
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/c", f"{root}/d")


def test_locks(place: tuple[Disk, str]) -> None:
    """A lock is exclusive and can be taken again after its release."""
    disk, root = place
    lock = disk.lock(f"{root}/.lock")
    assert lock is not None
    assert disk.lock(f"{root}/.lock") is None
    lock.release()
    again = disk.lock(f"{root}/.lock")
    assert again is not None
    again.release()


def test_a_lock_keeps_other_processes_out(tmp_path: Path) -> None:
    """The record lock, which Java also takes, excludes other processes."""
    lock = LocalDisk().lock(f"{tmp_path}/.lock")
    assert lock is not None
    script = (
        "import fcntl, os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "try:\n"
        "    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError:\n"
        "    sys.exit(3)\n"
    )
    command = [sys.executable, "-c", script, f"{tmp_path}/.lock"]
    assert subprocess.run(command, check=False).returncode == 3
    lock.release()
    assert subprocess.run(command, check=False).returncode == 0


def test_write_atomically_leaves_the_old_or_the_new() -> None:
    """At every crash point and after a power cut the file has its old or its new contents."""
    for operation in range(20):
        disk = MemoryDisk()
        disk.mkdir("d")
        disk.sync_directory("")
        write_atomically(disk, "d/f", b"old")
        disk.crash_at(operation, torn=True)
        try:
            write_atomically(disk, "d/f", b"new!")
        except Crash:
            assert disk.read_file("d/f") in (b"old", b"new!")
            disk.power_cut()
            assert disk.read_file("d/f") in (b"old", b"new!")
        else:
            disk.power_cut()
            assert disk.read_file("d/f") == b"new!"
            return
    raise AssertionError("the loop did not reach the last operation")


def test_the_twin_forgets_what_was_not_synced() -> None:
    """After a power cut MemoryDisk loses unsynced bytes and unsynced names."""
    disk = MemoryDisk()
    disk.mkdir("d")
    file = disk.open("d/f", create=True)
    file.append([b"kept"])
    file.sync()
    disk.sync_directory("")
    disk.sync_directory("d")
    file.append([b"lost"])
    file.close()
    disk.open("d/g", create=True).append([b"x"])
    disk.rename("d/f", "d/h")
    disk.power_cut()
    assert disk.listdir("d") == ["f"]
    assert disk.read_file("d/f") == b"kept"


def test_the_twin_keeps_open_files_where_they_are() -> None:
    """Open files and their directory cannot be renamed, replaced or removed, as on Windows."""
    disk = MemoryDisk()
    disk.mkdir("d")
    disk.open("d/closed", create=True).close()
    file = disk.open("d/open", create=True)
    with pytest.raises(PermissionError):
        disk.unlink("d/open")
    for source, target in (("d/open", "d/f"), ("d/closed", "d/open"), ("d", "e")):
        with pytest.raises(PermissionError):
            disk.rename(source, target)
    file.close()
    disk.rename("d/closed", "d/open")
    disk.rename("d", "e")
    disk.unlink("e/open")


def test_a_sync_holds_up_renames_and_removals_on_windows(tmp_path: Path) -> None:
    """On Windows a rename or removal waits for the sync of the file in another thread.

    The file is open during the sync.
    """
    begun, may_end = Event(), Event()

    class SlowFile(PortableFile):
        def sync(self) -> None:
            begun.set()
            assert may_end.wait(10)

    class SlowDisk(PortableDisk):
        file_type = SlowFile

    disk = SlowDisk()
    names = [f"{tmp_path}/{name}" for name in ("f", "g")]
    for name in names:
        disk.open(name, create=True).close()
    with ThreadPoolExecutor() as threads:
        syncing = threads.submit(disk.sync_file, names[0])
        assert begun.wait(10)
        others = [threads.submit(disk.unlink, names[1]), threads.submit(disk.rename, *names)]
        assert not wait(others, timeout=0.05).done
        may_end.set()
        for one in (syncing, *others):
            one.result(10)


def test_open_files_are_bounded_and_come_back() -> None:
    """The oldest descriptor is closed when a new descriptor is needed, and reopened on use."""
    disk = MemoryDisk()
    files = OpenFiles(disk, max_open=2)
    lazies = [LazyFile(files, f"/{n}") for n in range(4)]
    disk.mkdir("")
    for number, lazy in enumerate(lazies):
        lazy.get(create=True).append([b"%d" % number])
    assert len(files) == len(disk.open_files) == 2
    assert [lazy.pread(1, 0) for lazy in lazies] == [b"0", b"1", b"2", b"3"]
    lazies[0].close()
    disk.unlink("/0")
    with pytest.raises(FileNotFoundError):
        lazies[0].pread(1, 0)


class FewDescriptors(MemoryDisk):
    """A disk of a process with a limited number of descriptors left."""

    left = 2

    def open(self, path: str, *, create: bool = False, private: bool = False) -> File:
        """Return an open file; raise the system's error once no descriptor is left."""
        if len(self.open_files) >= self.left:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return super().open(path, create=create, private=private)


def test_open_files_make_do_with_fewer() -> None:
    """If other code has used up the descriptors, the oldest file is closed.

    If no file is open, the error is raised.
    """
    disk = FewDescriptors()
    files = OpenFiles(disk, max_open=100)
    disk.mkdir("")
    lazies = [LazyFile(files, f"/{n}") for n in range(4)]
    for lazy in lazies:
        lazy.get(create=True).append([b"x"])
    assert len(files) == len(disk.open_files) == 2
    disk.left = 0
    with pytest.raises(OSError, match="Too many open files"):
        lazies[0].get()
    disk.left = 1
    assert lazies[0].pread(1, 0) == b"x"


@pytest.mark.parametrize("count", [0, 1, 5, PENDING_ENTRIES_MAX - 1, PENDING_ENTRIES_MAX + 7])
def test_index_lookups(count: int) -> None:
    """The greatest entry up to a value is found in memory, in the file, and across both."""
    disk = MemoryDisk()
    files = OpenFiles(disk)
    index = OffsetIndex(files, "/i", None)
    for number in range(count):
        index.add(10 * number, 100 * number)
    for current in (index, saved(index, files, disk)):
        assert len(current) == count
        for number in {0, 1, count // 2, count - 1}:
            if 0 <= number < count:
                assert current.at(number) == (10 * number, 100 * number)
                assert current.floor(10 * number) == number
                assert current.floor(10 * number - 1) == number - 1
                assert current.floor_of_second(100 * number + 99) == number
        assert current.floor(-1) == -1


def saved(index: OffsetIndex, files: OpenFiles, disk: MemoryDisk) -> OffsetIndex:
    """Return the same index, read from its file."""
    index.save()
    index.close()
    return OffsetIndex(files, "/i", disk.size("/i"))


def test_an_index_survives_a_failed_save() -> None:
    """Half an entry that a full disk left is truncated before the next save."""
    disk = MemoryDisk()
    files = OpenFiles(disk)
    index = TimeIndex(files, "/t", None)
    index.add(1, 1)
    index.save()
    index.add(2, 2)
    disk.fail_at(0, torn=True)
    with pytest.raises(OSError, match="No space"):
        index.save()
    assert disk.size("/t") % 12
    index.add(3, 3)
    index.save()
    assert [TimeIndex(files, "/t", disk.size("/t")).at(n) for n in range(3)] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]


@pytest.mark.parametrize("disk_type", [LocalDisk, PortableDisk])
def test_a_real_directory_end_to_end(
    disk_type: type[PortableDisk], tmp_path: Path, msvcrt: None
) -> None:
    """On real files a log can be written, left by a killed process, opened and continued."""
    path = str(tmp_path / "data")
    manager = LogManager.open(disk_type(), path, LogConfig(), now_ms=NOW_MS)
    manager.create_topic("t", bytes(16), 2, {})
    manager.log("t", 1).append(batch(b"1"), NOW_MS)
    manager._lock.release()  # the operating system releases the lock of a dead process
    manager = LogManager.open(disk_type(), path, LogConfig(), now_ms=NOW_MS)
    assert not manager.clean_start
    log = manager.log("t", 1)
    log.append(batch(b"2"), NOW_MS)
    log.flush()
    manager.close()
    manager = LogManager.open(disk_type(), path, LogConfig(), now_ms=NOW_MS)
    assert manager.clean_start
    assert values_of(manager.log("t", 1)) == [(0, b"1"), (1, b"2")]
    manager.close()
    assert sorted(os.listdir(path)) == [
        ".kafka_cleanshutdown",
        ".lock",
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "t-1",
        "topics.json",
    ]
