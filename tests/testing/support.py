"""Shared parts of the tests of the testing package: observing other processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import wait_for


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended."""
    wait_for(lambda: not is_alive(pid), f"the end of process {pid}", 60)


def written_pids(directory: Path, count: int) -> list[int]:
    """Wait for `count` files `*.pid` in a directory and return the process ids in them."""

    def whole() -> list[int]:
        texts = [path.read_text() for path in directory.glob("*.pid")]
        found = [int(text) for text in texts if text.endswith("\n")]
        return found if len(found) == count else []

    return wait_for(whole, f"{count} process ids in {directory}", 60)


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    """Return the outcomes of a pytest run by name, without warnings."""
    return {name: one for name, one in result.parseoutcomes().items() if "warning" not in name}
