"""Fetch Java libraries for tests with Maven, once per checkout."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def one_at_a_time(file: Path = Path(__file__)) -> Iterator[None]:
    """Hold an exclusive lock on `file`: Maven's own directory allows one process at a time."""
    with file.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch(pom: Path, directory: Path, *properties: str) -> Path:
    """Return the directory with the jars named in a pom and their dependencies."""
    complete = directory / ".complete"
    with one_at_a_time():
        if complete.exists():
            return directory
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
        done = subprocess.run(
            [*command, *(f"-D{one}" for one in properties)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"Maven failed: {done.stdout[-2000:]}"
        complete.touch()
    return directory
