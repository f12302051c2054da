"""Replaces the contents of a data directory; a crash leaves the old or the new contents.

The new contents are prepared in `STAGED`. `commit` renames this directory to `COMPLETE`: before the
rename the old contents are valid, afterwards the new ones. `finish` moves the old contents to
`REPLACED`, renames the directory to `MOVING`, and moves the new contents to their places. The start
of a broker calls `finish`, so a replacement that a crash has interrupted is finished by the next
start. `forget` removes the old contents; the broker calls it when it listens, so that new contents
that cannot be served cost nothing. All renames are inside the data directory, which may be a mount
point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    DELETE_SUFFIX,
    HIGH_WATERMARK_FILE,
    LOCK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    partition_of,
)
from storage.security_state import CHANGES_FILE, SECURITY_FILE
from storage.topic_catalogue import CATALOGUE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.disk import Disk

STAGED = "restore.staged"
COMPLETE = "restore.complete"
MOVING = "restore.moving"
REPLACED = "restore.replaced"

_FILES = (
    CATALOGUE_FILE,
    CHANGES_FILE,
    CLEANER_FILE,
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    SECURITY_FILE,
)


def is_unfinished(disk: Disk, path: str) -> bool:
    """Return whether a committed replacement of a data directory is not finished."""
    return disk.exists(f"{path}/{COMPLETE}") or disk.exists(f"{path}/{MOVING}")


def commit(disk: Disk, path: str) -> None:
    """Make the staged contents, which must be synced, the contents of the next start.

    Raises OSError.
    """
    disk.rename(f"{path}/{STAGED}", f"{path}/{COMPLETE}")
    try:
        disk.sync_directory(path)
    except OSError:
        disk.rename(f"{path}/{COMPLETE}", f"{path}/{STAGED}")
        raise


def finish(disk: Disk, path: str) -> None:
    """Finish a committed replacement, and remove staged contents that were not committed.

    The data directory must be locked. Files that do not belong to the broker stay. Raises OSError.
    """
    if disk.exists(f"{path}/{COMPLETE}"):
        _set_aside(disk, path, [name for name in disk.listdir(path) if _is_replaced(name)])
        disk.sync_directory(path)
        disk.rename(f"{path}/{COMPLETE}", f"{path}/{MOVING}")
        disk.sync_directory(path)
    if disk.exists(f"{path}/{MOVING}"):
        for name in disk.listdir(f"{path}/{MOVING}"):
            if name == LOCK_FILE:
                disk.unlink(f"{path}/{MOVING}/{name}")
                continue
            # After a power cut, the name may exist in both directories.
            if disk.is_directory(f"{path}/{name}"):
                _discard(disk, path, path, [name])
            disk.rename(f"{path}/{MOVING}/{name}", f"{path}/{name}")
        disk.sync_directory(path)
        disk.sync_directory(f"{path}/{MOVING}")
        disk.rmdir(f"{path}/{MOVING}")
        disk.sync_directory(path)
    if disk.exists(f"{path}/{STAGED}"):
        staged = f"{path}/{STAGED}"
        _discard(disk, path, staged, disk.listdir(staged))
        disk.rmdir(staged)


def forget(disk: Disk, path: str) -> Iterator[None]:
    """Remove the contents that were replaced, if there are any, one file per step.

    Raises OSError; another call removes the rest.
    """
    replaced = f"{path}/{REPLACED}"
    if not disk.exists(replaced):
        return
    for name in disk.listdir(replaced):
        if disk.is_directory(f"{replaced}/{name}"):
            for file in disk.listdir(f"{replaced}/{name}"):
                disk.unlink(f"{replaced}/{name}/{file}")
                yield
            disk.rmdir(f"{replaced}/{name}")
        else:
            disk.unlink(f"{replaced}/{name}")
        yield
    disk.rmdir(replaced)


def _set_aside(disk: Disk, path: str, names: list[str]) -> None:
    """Move files and directories to REPLACED."""
    replaced = f"{path}/{REPLACED}"
    if not disk.exists(replaced):
        disk.mkdir(replaced)
    for name in names:
        if disk.exists(f"{replaced}/{name}"):  # left by an earlier restore or a power cut
            _discard(disk, path, replaced, [name])
        disk.rename(f"{path}/{name}", f"{replaced}/{name}")
    disk.sync_directory(replaced)


def _is_replaced(name: str) -> bool:
    return name.removesuffix(".tmp") in _FILES or partition_of(name) is not None


def _discard(disk: Disk, path: str, parent: str, names: list[str]) -> None:
    """Remove files, and rename directories so that they are removed in the background."""
    number = 0
    for name in names:
        if not disk.is_directory(f"{parent}/{name}"):
            disk.unlink(f"{parent}/{name}")
            continue
        while disk.exists(f"{path}/replaced.{number}{DELETE_SUFFIX}"):
            number += 1
        disk.rename(f"{parent}/{name}", f"{path}/replaced.{number}{DELETE_SUFFIX}")
