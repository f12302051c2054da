"""Times and durations of `coordinator-server ctl`: reading them from options, and printing them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

TIME_OPTIONS = frozenset({"since_ms", "until_ms", "timestamp_ms"})
"""Parameters and fields of a body that are times."""

DURATIONS = frozenset(
    {
        "age_ms",
        "duration_ms",
        "offset_ms",
        "outage_ms",
        "revoking_ms",
        "time_lag_ms",
        "timeout_ms",
        "waiting_ms",
    }
)
"""Fields of answers that are durations. All other fields whose names end with `_ms` are times."""

MACHINE_TIMES = frozenset(
    {"closed_at_ms", "connected_at_ms", "expires_at_ms", "last_request_at_ms", "started_at_ms"}
)
"""Times by the machine's clock. All others are by the broker's clock, which can be advanced."""

_AGO = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|min|m|h|d)(?: ago)?")
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""


class Times:
    """Converts times between texts and milliseconds. `read_now_ms` returns the broker's time.

    `read_now_ms` is called at most once, when a time is relative to the present.
    """

    def __init__(self, read_now_ms: Callable[[], int]) -> None:
        self._read_now_ms = read_now_ms
        self._now_ms: int | None = None

    @property
    def now_ms(self) -> int:
        """The broker's time."""
        if self._now_ms is None:
            self._now_ms = self._read_now_ms()
        return self._now_ms

    def parse(self, option: str, text: str) -> int:
        """Return a time in ms. Raises ValueError with the name of the option.

        A time is in ms, before the present (`10m`), a time of day or ISO 8601, by default in UTC.
        """
        text = text.strip()
        if text.isascii() and text.isdigit():
            return int(text)
        try:
            if match := _AGO.fullmatch(text):
                ago_ms = float(match[1]) * _UNIT_MS[match[2]]
                return max(self.now_ms - round(ago_ms), 0)
            if _TIME_OF_DAY.fullmatch(text):
                return self._last_time_of_day(text)
            at = datetime.fromisoformat(text)
            at_ms = round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            at_ms = -1
        if at_ms < 0:
            forms = "10m (ago), 10:42, 2026-01-31T10:42:00Z or milliseconds since 1970"
            raise ValueError(f"{option} is {text[:80]!r}, which is no time: {forms}")
        return at_ms

    def _last_time_of_day(self, text: str) -> int:
        """Return the last time at which the clock showed a time of day. Raises ValueError."""
        now = datetime.fromtimestamp(self.now_ms / 1000, UTC)
        hour, _, rest = text.partition(":")
        at = datetime.fromisoformat(f"{now:%Y-%m-%d}T{hour.zfill(2)}:{rest}+00:00")
        if at > now:
            at -= timedelta(days=1)
        return round(at.timestamp() * 1000)

    def shown(self, name: str, value: int) -> str:
        """Return the value of a field `*_ms`: a duration, or a time in UTC with its age."""
        if name in DURATIONS:
            return duration(value)
        if not 0 <= value <= _LATEST_MS:
            return str(value)
        now_ms = time.time_ns() // 1_000_000 if name in MACHINE_TIMES else self.now_ms
        if name == "now_ms":
            return iso(value)
        age_ms = now_ms - value
        age = f"{duration(age_ms)} ago" if age_ms >= 0 else f"in {duration(-age_ms)}"
        return f"{iso(value)} ({age})"


def iso(at_ms: int) -> str:
    """Return a time as ISO 8601 in UTC with milliseconds."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"


def duration(ms: float) -> str:
    """Return a duration in its two largest units."""
    if ms < 0:
        return f"-{duration(-ms)}"
    if ms < 1_000:
        return f"{ms:g} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    parts = [
        (seconds // 86_400, "d"),
        (seconds // 3_600 % 24, "h"),
        (seconds // 60 % 60, "min"),
        (seconds % 60, "s"),
    ]
    first = next(place for place, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)
