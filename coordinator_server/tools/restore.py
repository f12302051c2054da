"""`coordinator-server restore`: create a data directory from a snapshot, for a broker to start on.

Copy and verify the snapshot. During the copy the directory is locked, and has a `topics.json` that
no broker accepts. A broker therefore never serves an incomplete directory, even after a crash.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from coordinator_server.tools.snapshot import (
    MANIFEST_FILE,
    MANIFEST_VERSION,
    SnapshotError,
    WrongDirectoryError,
    manifest_partitions,
    require_empty,
)
from coordinator_server.tools.verify_log import LogVerification, summary
from storage.checkpoints import LOCK_FILE
from storage.disk import Disk, write_atomically
from storage.local_disk import LocalDisk
from storage.topic_catalogue import CATALOGUE_FILE

UNFINISHED = b"a restore is not finished; empty this directory and run it again\n"


def restore(snapshot: Path, target: Path) -> LogVerification:
    """Copy and verify a snapshot.

    Raises SnapshotError if a file is missing or damaged, or if the target is not empty.
    """
    disk = LocalDisk()
    try:
        manifest = json.loads((snapshot / MANIFEST_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise WrongDirectoryError(f"{snapshot} is no snapshot: {error}") from error
    except ValueError as error:
        raise SnapshotError(f"{snapshot / MANIFEST_FILE} is damaged: {error}") from error
    if not isinstance(manifest, dict) or "version" not in manifest:
        raise SnapshotError(f"{snapshot / MANIFEST_FILE} is damaged: it has no version")
    if manifest["version"] != MANIFEST_VERSION:
        raise SnapshotError(
            f"{snapshot}: snapshots of version {manifest['version']} cannot be read"
        )
    _verify(snapshot, manifest["partitions"])
    require_empty(target)
    lock = disk.lock(str(target / LOCK_FILE))
    if lock is None:
        raise SnapshotError(f"{target} is in use by a broker")
    try:
        write_atomically(disk, str(target / CATALOGUE_FILE), UNFINISHED)
        for path in sorted(snapshot.iterdir()):
            if path.is_dir():
                shutil.copytree(path, target / path.name)
            elif path.name not in (MANIFEST_FILE, CATALOGUE_FILE, LOCK_FILE):
                shutil.copy2(path, target / path.name)
        if (snapshot / CATALOGUE_FILE).exists():
            catalogue = (snapshot / CATALOGUE_FILE).read_bytes()
            write_atomically(disk, str(target / CATALOGUE_FILE), catalogue)
        else:  # the source broker of the snapshot never had a topic
            disk.unlink(str(target / CATALOGUE_FILE))
        _sync(disk, target)
        return _verify(target, manifest["partitions"])
    finally:
        lock.release()


def _sync(disk: Disk, directory: Path) -> None:
    """Return when the files and directories in a directory are safe from a power cut."""
    for path in directory.iterdir():
        if path.is_dir():
            _sync(disk, path)
        else:
            disk.sync_file(str(path))
    disk.sync_directory(str(directory))


def _verify(directory: Path, partitions: object) -> LogVerification:
    """Verify every log and compare its end offset with the snapshot's manifest."""
    verification = LogVerification(directory)
    findings = verification.run()
    if findings.errors:
        raise SnapshotError(findings.errors[0])
    if manifest_partitions(verification) != partitions:
        raise SnapshotError(f"{directory}: the logs are not those that {MANIFEST_FILE} tells of")
    return verification


def main(arguments: Sequence[str]) -> int:
    """Run with these arguments and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="coordinator-server restore", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument(
        "snapshot",
        metavar="SNAPSHOT",
        type=Path,
        help="directory that the snapshot command created",
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", type=Path, required=True, help="empty or new directory"
    )
    options = parser.parse_args(arguments)
    try:
        verification = restore(options.snapshot, options.data_dir)
    except (SnapshotError, OSError) as error:
        print(f"coordinator-server: {error}", file=sys.stderr)
        return 2 if isinstance(error, WrongDirectoryError) else 1
    print(summary(verification.findings))
    return 0
