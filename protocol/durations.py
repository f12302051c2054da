"""Parses durations as Java does: ISO 8601 from days to seconds, such as P2DT0.5S."""

from __future__ import annotations

import re

_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?"
    r"(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?)(\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


def read_duration_ms(text: str) -> int | None:
    """Parse a duration like Java's Duration.parse; return milliseconds, or None if invalid."""
    match = _DURATION.fullmatch(text)
    if match is None or match[3] in ("T", "t") or text.upper().lstrip("+-") == "P":
        return None
    seconds = int(match[2] or 0) * 86_400 + int(match[4] or 0) * 3_600 + int(match[5] or 0) * 60
    part_ns = int(match[7] or 0) * 10**9 + int((match[8] or "").ljust(9, "0"))
    total_ns = seconds * 10**9 + (-part_ns if match[6] == "-" else part_ns)
    return (-total_ns if match[1] == "-" else total_ns) // 10**6
