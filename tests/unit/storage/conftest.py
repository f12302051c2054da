"""What stands in for Windows when its disk is tested on another system."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest


@pytest.fixture
def msvcrt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows' file locks, made of those of this system."""
    if sys.platform != "win32":
        import fcntl

        def locking(descriptor: int, mode: int, size_bytes: int) -> None:
            assert (mode, size_bytes) == (stand_in.LK_NBLCK, 1)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise PermissionError(13, "Permission denied") from error

        stand_in = SimpleNamespace(LK_NBLCK=2, locking=locking)
        monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
