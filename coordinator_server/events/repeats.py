"""Rate limits for repeated events: in ten seconds some of a kind are written, the rest is counted.

A full disk fails every write of every client, and a group that cannot write may create a thousand
generations a second. One line each would hide the first line and fill the disk of the log.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from typing import Any

from coordinator_server.events.vocabulary import EventType

PERIOD_SECONDS = 10.0

_MOST_KINDS = 1000
_VOLUME_FULL = tuple(f"[Errno {number}]" for number in (errno.ENOSPC, errno.EDQUOT))


class _Period:
    """Numbers of logged and of suppressed events of one kind since `start_s`."""

    __slots__ = ("left_out", "start_s", "written")

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.written = 1
        self.left_out = 0


class Repeats:
    """Decides which repeated events are written, and counts the events left out.

    Events are of one kind if they have the same name and the same values in the fields of
    `EventType.kind`. Events about a full volume are of one kind if their names are equal, because a
    full volume affects all partitions. `now` returns seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._periods: dict[object, _Period] = {}

    def count(self, name: str, event_type: EventType, fields: Mapping[str, Any]) -> int | None:
        """Count an event; return None to leave the event out.

        Otherwise return how many events of this kind were left out in the previous period.
        """
        kind, now_s = _kind(name, event_type, fields), self._now()
        period = self._periods.get(kind)
        if period is not None and now_s < period.start_s + PERIOD_SECONDS:
            if period.written < event_type.most_in_period:
                period.written += 1
                return 0
            period.left_out += 1
            return None
        if period is None and len(self._periods) == _MOST_KINDS:
            del self._periods[next(iter(self._periods))]
        self._periods[kind] = _Period(now_s)
        return 0 if period is None else period.left_out


def _kind(name: str, event_type: EventType, fields: Mapping[str, Any]) -> object:
    reason = str(fields.get("reason", ""))
    full = next((marker for marker in _VOLUME_FULL if marker in reason), None)
    if full is not None:
        return name, full
    return name, *(str(fields.get(field)) for field in event_type.kind or event_type.fields)
