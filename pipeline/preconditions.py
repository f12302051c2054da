"""Checks before Spark starts, so that a user's mistake is reported at once, not after seconds.

Paths with a scheme (`s3a://`, `hdfs://`) are not checked: only Hadoop's file systems can read them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from pipeline.sources.source import InputError
from storage.checkpoints import LOCK_FILE
from storage.local_disk import LocalDisk

CONNECT_TIMEOUT_SECONDS = 3.0


def check_out(out: str) -> None:
    """Raise InputError unless `--out` is a writable directory, or can be created as one."""
    if not out.strip("/"):
        raise InputError(f"--out {out!r} is not a directory for output")
    if is_elsewhere(out):
        return
    path = Path(out)
    for part in (path, *path.parents):
        if part.exists():
            if not part.is_dir():
                raise InputError(f"--out {out}: {part} is a file, not a directory")
            try:
                TemporaryFile(dir=part).close()
            except OSError as error:
                raise InputError(f"--out {out}: {part}: {error.strerror}") from error
            return


def check_parquet(parquet: str) -> None:
    """Raise InputError if `--parquet` is a local path without bronze below it."""
    if not is_elsewhere(parquet) and not (Path(parquet) / "bronze").is_dir():
        raise InputError(f"--parquet {parquet}: there is no bronze of an earlier run")


def check_client_config(path: str) -> None:
    """Raise InputError if the `--client-config` file cannot be read."""
    try:
        Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"--client-config {path}: {error.strerror}") from error


@contextmanager
def locked(out: str) -> Iterator[None]:
    """Hold an exclusive lock on `--out`, if this is a local path.

    Raises InputError if another run holds the lock.
    """
    if is_elsewhere(out):
        yield
        return
    Path(out).mkdir(parents=True, exist_ok=True)
    lock = LocalDisk().lock(str(Path(out) / LOCK_FILE))
    if lock is None:
        raise InputError(f"--out {out}: another run is writing there")
    try:
        yield
    finally:
        lock.release()


def is_elsewhere(path: str) -> bool:
    """Return whether the path has a scheme, so that only Hadoop's file systems can read it."""
    return "://" in path


def check_bootstrap(bootstrap: str) -> None:
    """Raise InputError unless at least one address of `HOST:PORT,...` accepts a connection."""
    failures = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit():
            raise InputError(f"--bootstrap-server {bootstrap}: {address!r} is not HOST:PORT")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_SECONDS):
                return
        except (OSError, OverflowError) as error:
            failures.append(f"{address.strip()}: {error}")
    raise InputError(f"--bootstrap-server {bootstrap}: no broker answers ({'; '.join(failures)})")
