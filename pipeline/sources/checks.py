"""What is wrong with the places of a run, said before Spark takes its seconds to start."""

from __future__ import annotations

import socket
from pathlib import Path

from pipeline.sources.errors import InputError
from pipeline.sources.logdir import OFFSETS_TOPIC, partitions_of

CONNECT_SECONDS = 5.0


def check_log_dir(log_dir: str) -> None:
    """Raises InputError unless a partition of the offsets topic lies there."""
    if not partitions_of(log_dir, OFFSETS_TOPIC):
        raise InputError(f"--log-dir {log_dir}: no partition of {OFFSETS_TOPIC} lies there")


def check_bootstrap(bootstrap: str) -> None:
    """Raises InputError unless one of the addresses accepts connections."""
    reasons = []
    for address in bootstrap.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            raise InputError(f"--bootstrap {bootstrap}: {address.strip()!r} is not HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except OSError as error:
            reasons.append(f"{address.strip()}: {error.strerror or error}")
        else:
            return
    raise InputError(f"--bootstrap {bootstrap}: no broker answers ({'; '.join(reasons)})")


def check_out(out: str) -> None:
    """Raises InputError unless a directory is there or can be made. A place of Spark's own passes.

    `hdfs://...` and its like are for Spark to look at.
    """
    if "://" in out:
        return
    path = Path(out)
    existing = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not existing.is_dir():
        raise InputError(f"--out {out}: {existing} is a file, not a directory")
