"""Failures that come in floods: logged once, then at most every ten seconds with a count.

A full disk fails every write of every client; a line for each would bury the first, and fill the
disk on which the log itself may be.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from typing import Any

PERIOD_SECONDS = 10.0

_MOST_KEYS = 1000
_VOLUME_FULL = tuple(f"[Errno {number}]" for number in (errno.ENOSPC, errno.EDQUOT))


class Repeats:
    """Which repeated events are written, and how many of the same kind were left out before.

    Events are of one kind if they have the same name and fields; for a full volume the system's
    error is enough, as it meets all partitions. `now` gives seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._left_out: dict[object, int] = {}
        self._next: dict[object, float] = {}

    def count(self, event: str, fields: Mapping[str, Any]) -> int | None:
        """How many of this kind were left out since the last one written; None to leave it out."""
        key = _key(event, fields)
        now = self._now()
        if now < self._next.get(key, now):
            self._left_out[key] += 1
            return None
        if key not in self._next and len(self._next) == _MOST_KEYS:
            oldest = next(iter(self._next))
            del self._next[oldest], self._left_out[oldest]
        self._next[key] = now + PERIOD_SECONDS
        left_out = self._left_out.get(key, 0)
        self._left_out[key] = 0
        return left_out


def _key(event: str, fields: Mapping[str, Any]) -> object:
    reason = str(fields.get("reason", ""))
    full = next((marker for marker in _VOLUME_FULL if marker in reason), None)
    return (event, full) if full else (event, *sorted((k, str(v)) for k, v in fields.items()))
