"""The data directory of `serve --ephemeral`: a temporary one, removed at the end.

A directory and not the in-memory twin: the same code runs as in earnest, and memory stays flat
however much is produced. With `LocalDisk(durable=False)` nothing in it is ever synced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_DIRECTORY_MODE = 0o700


@contextmanager
def temporary_data_directory() -> Iterator[str]:
    """Make a directory of a new name below TMPDIR; remove it with all it holds at the end."""
    # By hand: tempfile brings a dozen modules with it, and the start is counted in milliseconds.
    root = os.environ.get("TMPDIR", "/tmp").rstrip("/")
    path = f"{root}/coordinator-server-{os.getpid()}-{os.urandom(4).hex()}"
    os.mkdir(path, _DIRECTORY_MODE)
    try:
        yield path
    finally:
        import shutil

        shutil.rmtree(path, ignore_errors=True)
