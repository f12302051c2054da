"""Faults of a real file system: full, forbidden, missing, unreadable. One partition fails alone."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.local_disk import LocalDisk
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.partition_log import PartitionLog
from storage.portable_disk import PortableDisk
from tests.unit.storage.support import NOW_MS, all_records, batch


@pytest.fixture(params=[LocalDisk, PortableDisk])
def manager(request: pytest.FixtureRequest, tmp_path: Path, msvcrt: None) -> Iterator[LogManager]:
    """Return a data directory with topic "t" of two partitions, one record in each."""
    made = LogManager.open(request.param(durable=False), str(tmp_path / "data"), LogConfig())
    made.create_topic("t", bytes(16), 2, {})
    for partition in (0, 1):
        made.log("t", partition).append(batch(b"first"), NOW_MS)
    yield made
    made.close()


@contextmanager
def files_up_to(size_bytes: int) -> Iterator[None]:
    """Limit the size of files that this process writes, like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def refused(log: PartitionLog, value: bytes = b"v") -> str:
    """Append, and return the text of the disk error."""
    with pytest.raises(StorageError) as caught:
        log.append(batch(value), NOW_MS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    return caught.value.message


def values(log: PartitionLog) -> list[bytes | None]:
    """Return the values of all records."""
    return [record.value for record in all_records(log)]


def test_a_write_that_does_not_fit_leaves_nothing(manager: LogManager) -> None:
    """Half a batch, written before the disk was full, is truncated, and later appends succeed."""
    log = manager.log("t", 0)
    with files_up_to(log.size_bytes + 100):
        reason = refused(log, b"x" * 1000)
        assert reason.startswith("t-0 cannot be written: ")
        assert "raise the limit on the size of files" in reason
        manager.log("t", 1).append(batch(b"small"), NOW_MS)
    log.append(batch(b"later"), NOW_MS)
    assert values(log) == [b"first", b"later"]
    assert values(manager.log("t", 1)) == [b"first", b"small"]
    log.abandon()
    assert values(manager.log("t", 0)) == [b"first", b"later"]


def test_a_directory_that_vanishes(manager: LogManager) -> None:
    """A partition whose directory vanishes fails when it opens a file; other partitions work."""
    log = manager.log("t", 0)
    directory = Path(log.directory)
    log.abandon()
    gone = directory.with_name("elsewhere")
    directory.rename(gone)
    directory.write_bytes(b"a file in the way")
    with pytest.raises(StorageError, match="t-0"):
        manager.log("t", 0).append(batch(b"v"), NOW_MS)
    manager.log("t", 1).append(batch(b"v"), NOW_MS)
    directory.unlink()
    gone.rename(directory)
    assert values(manager.log("t", 0)) == [b"first"]


def test_files_that_may_not_be_opened(manager: LogManager) -> None:
    """A partition whose log cannot be opened has an error until the file is valid again."""
    log = manager.log("t", 0)
    path = Path(f"{log.segments[0].stem}.log")
    contents = path.read_bytes()
    log.abandon()
    path.unlink()
    path.mkdir()  # put a directory in place of the file: opening it fails even for root
    with pytest.raises(StorageError) as caught:
        manager.log("t", 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert values(manager.log("t", 1)) == [b"first"]
    path.rmdir()
    path.write_bytes(contents)
    assert values(manager.log("t", 0)) == [b"first"]


def test_a_log_cut_short_behind_our_back(manager: LogManager) -> None:
    """A read that finds less data than was written is an error, not an empty response."""
    log = manager.log("t", 0)
    os.truncate(f"{log.segments[0].stem}.log", 10)
    with pytest.raises(StorageError, match="t-0 cannot be read"):
        log.read(0, 1 << 20)
    assert values(manager.log("t", 1)) == [b"first"]
