"""One step of `doctor`: its result, or the reason for its failure and the setting to change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from coordinator_server.client import Address
from coordinator_server.config.config import format_address

_PAUSE_S = 0.1


class StepFailedError(Exception):
    """A step failed: the reason, and `changes` advised for the client or the broker."""

    def __init__(self, reason: str, changes: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.changes = tuple(changes)


class RefusedClientError(StepFailedError):
    """A TLS server refused the client; with TLS 1.3 the client learns this after its handshake."""


class Step:
    """A step and its result. `deadline_s` is a value of time.monotonic()."""

    def __init__(self, name: str, timeout_s: float) -> None:
        self.name = name
        self.is_ok = True
        self.found = ""
        self.details: list[str] = []
        self.reason: str | None = None
        self.changes: tuple[str, ...] = ()
        self.time_ms = 0.0
        self._begin_s = time.monotonic()
        self.deadline_s = self._begin_s + timeout_s

    def left_s(self) -> float:
        """Return the seconds left, at least 0.001: a socket timeout of 0 means non-blocking."""
        return max(self.deadline_s - time.monotonic(), 0.001)

    def may_try_again(self) -> bool:
        """Wait before another attempt and return True; return False if too little time is left."""
        if self.left_s() < 2 * _PAUSE_S:
            return False
        time.sleep(_PAUSE_S)
        return True

    def fail(self, error: StepFailedError) -> None:
        """Mark the step as failed, with the reason and the advised changes of the error."""
        self.is_ok = False
        self.reason, self.changes = str(error), error.changes

    def end(self) -> None:
        """Set the step's duration at the first call; later calls do nothing."""
        if not self.time_ms:
            self.time_ms = (time.monotonic() - self._begin_s) * 1000

    def lines(self) -> list[str]:
        """Return the step as lines of text."""
        word = "ok" if self.is_ok else "FAILED"
        prefix = f"{self.found} " if self.found else ""
        lines = [f"{word:<8}{self.name:<14}{prefix}({self.time_ms:.1f} ms)"]
        lines += [f"{'':<22}{detail}" for detail in self.details]
        if self.reason is not None:
            lines.append(f"{'why:':>20}  {self.reason}")
        lines += [f"{'change:':>20}  {change}" for change in self.changes]
        return lines

    def fields(self) -> dict[str, Any]:
        """Return the step as fields for `--json`."""
        return {
            "step": self.name,
            "ok": self.is_ok,
            "ms": round(self.time_ms, 1),
            "found": self.found,
            "details": self.details,
            "reason": self.reason,
            "changes": list(self.changes),
        }


def shown(address: Address) -> str:
    """Return HOST:PORT, with an IPv6 address in brackets."""
    return format_address(*address)
