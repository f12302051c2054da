"""Checks before Spark starts, so that a user's mistake is reported at once, not after seconds.

Paths with a scheme (`s3a://`, `hdfs://`) are not checked: only Hadoop's file systems can read them.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import urlsplit

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


_LOCAL_MASTER = re.compile(r"local(\[([1-9]\d*|\*)(, *[1-9]\d*)?\])?|local-cluster\[.+\]")
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_KUBERNETES_PORTS = {"https": 443, "http": 80}


def check_master(master: str) -> None:
    """Raise InputError unless `--master` is a URL of Spark whose cluster accepts a connection."""
    if _LOCAL_MASTER.fullmatch(master):
        return
    if master == "yarn":
        if not any(os.environ.get(name) for name in _HADOOP):
            raise InputError(f"--master yarn: neither {' nor '.join(_HADOOP)} is set")
    elif master.startswith("spark://"):
        _check_connection(f"--master {master}: no master", master.removeprefix("spark://"))
    elif master.startswith("k8s://"):
        url = master.removeprefix("k8s://")
        parts = urlsplit(url if "://" in url else f"https://{url}")
        address = parts.netloc
        if ":" not in address:
            address = f"{address}:{_KUBERNETES_PORTS.get(parts.scheme, 443)}"
        _check_connection(f"--master {master}: no API server", address)
    else:
        raise InputError(
            f"--master {master}: it is no master of Spark, such as local[2], spark://HOST:PORT,"
            " k8s://https://HOST:PORT or yarn"
        )


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
    _check_connection(f"--bootstrap-server {bootstrap}: no broker", bootstrap)


def _check_connection(option: str, addresses: str) -> None:
    """Raise InputError unless one of the addresses, separated by commas, accepts a connection.

    `option` is the begin of the error: the option and its value, and what is expected to answer.
    """
    failures = []
    for address in addresses.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit():
            named = option.rpartition(":")[0]
            raise InputError(f"{named}: {address!r} is not HOST:PORT")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_SECONDS):
                return
        except (OSError, OverflowError) as error:
            failures.append(f"{address.strip()}: {error}")
    raise InputError(f"{option} answers ({'; '.join(failures)})")
