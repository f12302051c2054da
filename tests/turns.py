"""Tests marked `alone` measure time or CPU: nothing runs beside them, whichever worker has them.

Every test of a pytest-xdist run holds a shared lock while it runs, one marked `alone` an exclusive
one. A second lock is the gate in front of it: as long as a test waits there for the others to end,
no new one begins. The locks are `flock`s, so they end with a worker that dies.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

MAIN = Path(__file__)
GATE = MAIN.with_name("conftest.py")
"""Any two files that are there will do, and being the checkout's own they serve all its workers."""


class Turns:
    """The locks of one worker."""

    def __init__(self) -> None:
        self._gate: IO[bytes] = GATE.open("rb")
        self._main: IO[bytes] = MAIN.open("rb")
        self._is_alone = False

    def begin(self, alone: bool) -> None:
        """Wait until a test may run; `alone` until all others have ended."""
        if self._is_alone and alone:
            return
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(self._main, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        self._is_alone = alone
        if not alone:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def end(self, next_is_alone: bool) -> None:
        """Let others run again, unless the next test is one of those as well."""
        if self._is_alone and next_is_alone:
            return
        self._is_alone = False
        fcntl.flock(self._main, fcntl.LOCK_UN)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
