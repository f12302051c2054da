"""Ephemeral data directories, and the removal of directories that killed processes left behind."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path

from storage.checkpoints import LOCK_FILE
from storage.disk import Disk
from storage.local_disk import LocalDisk

PREFIX = "coordinator-server-ephemeral-"
LEAST_AGE_SECONDS = 60.0
"""Younger directories are skipped, because their broker may not have locked them yet."""

_MOST_AT_ONCE = 100


_CLEAN_UP_DELAY_SECONDS = 5.0
"""Delay before the search for left-behind directories, which spares short-lived processes."""


class OwnDirectory:
    """A new data directory of this process. After a delay, left-behind directories are removed."""

    def __init__(self) -> None:
        self.path = new_directory()
        loop, parent = asyncio.get_running_loop(), Path(self.path).parent
        remove = partial(remove_left_behind, LocalDisk(), parent)
        self._timer = loop.call_later(
            _CLEAN_UP_DELAY_SECONDS, lambda: loop.run_in_executor(None, remove)
        )

    def remove(self) -> None:
        """Remove the directory."""
        self._timer.cancel()
        shutil.rmtree(self.path, ignore_errors=True)


def new_directory() -> str:
    """Create an empty directory among the system's temporary files; return its path."""
    return tempfile.mkdtemp(prefix=PREFIX)


def remove_left_behind(disk: Disk, parent: Path, now_s: float | None = None) -> int:
    """Remove ephemeral directories in `parent` that no process has locked; return their number.

    Call this in a thread. `now_s` is the time to compare file times with, in seconds. Directories
    that cannot be removed are left.
    """
    oldest_s = (time.time() if now_s is None else now_s) - LEAST_AGE_SECONDS
    removed = 0
    for directory in sorted(parent.glob(f"{PREFIX}*")):
        lock_file = directory / LOCK_FILE
        try:
            if not lock_file.exists() or directory.stat().st_mtime > oldest_s:
                continue
            lock = disk.lock(str(lock_file))
        except OSError:  # the directory belongs to another user or no longer exists
            continue
        if lock is None:
            continue
        lock.release()  # release the lock first: Windows cannot remove an open lock file
        shutil.rmtree(directory, ignore_errors=True)
        removed += 1
        if removed == _MOST_AT_ONCE:
            break
    return removed
