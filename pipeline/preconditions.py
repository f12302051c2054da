"""What a run needs before Spark starts: a user's mistake is reported at once, not after seconds.

Paths with a scheme (`s3a://`, `hdfs://`) are left to Hadoop's file systems.
"""

from __future__ import annotations

import socket
from pathlib import Path

from pipeline.sources.errors import InputError

CONNECT_TIMEOUT_SECONDS = 3.0


def check_out(out: str) -> None:
    """Raise InputError if `--out` or a folder above it is a file."""
    if "://" in out:
        return
    path = Path(out)
    for part in (path, *path.parents):
        if part.exists():
            if not part.is_dir():
                raise InputError(f"--out {out}: {part} is a file, not a directory")
            return


def check_bootstrap(bootstrap: str) -> None:
    """Raise InputError unless at least one address of `HOST:PORT,...` accepts a connection."""
    failures = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit():
            raise InputError(f"--bootstrap {bootstrap}: {address!r} is not HOST:PORT")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_SECONDS):
                return
        except (OSError, OverflowError) as error:
            failures.append(f"{address.strip()}: {error}")
    raise InputError(f"--bootstrap {bootstrap}: no broker answers ({'; '.join(failures)})")
