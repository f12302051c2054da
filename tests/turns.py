"""Tests marked `alone` measure time or CPU: nothing runs beside them, whichever worker has them.

Every test of a pytest-xdist run holds a shared lock while it runs, one marked `alone` an exclusive
one. A second lock is the gate in front of it: as long as a test waits there for the others to end,
no new one begins. The locks are `flock`s, so they end with a worker that dies.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Turns:
    """The locks of one worker.

    They are held on two paths that are there anyway and are the same for all workers of a run.
    """

    def __init__(self, gate: Path, main: Path) -> None:
        self._gate, self._main = (os.open(path, os.O_RDONLY) for path in (gate, main))
        self._is_alone = False

    def begin(self, *, alone: bool) -> None:
        """Wait until a test may run; `alone` until all others have ended."""
        if self._is_alone and alone:
            return
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(self._main, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        self._is_alone = alone
        if not alone:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def end(self, *, next_is_alone: bool) -> None:
        """Let others run again, unless the worker's next test is to be alone as well."""
        if self._is_alone and next_is_alone:
            return
        self._is_alone = False
        fcntl.flock(self._main, fcntl.LOCK_UN)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
