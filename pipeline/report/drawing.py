"""Draw pictures as SVG, without a library or script, in the colours of the page."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from pipeline.inputs import DAY_MS, HOUR_MS, MINUTE_MS
from pipeline.report.reading import Line, TableRow

if TYPE_CHECKING:
    from pipeline.report.findings import Holding

WIDTH, LEFT, RIGHT = 960, 190, 16
COLOURS = 8
"""The number of colour classes of the page (c0 to c7); further members reuse the colours."""
_LANE, _BAR, _AXIS, _PANEL = 22, 16, 22, 74
_STEPS_MS = [
    step * unit
    for unit, steps in (
        (1000, (10, 30)),
        (MINUTE_MS, (1, 2, 5, 10, 15, 30)),
        (HOUR_MS, (1, 2, 3, 6, 12)),
        (DAY_MS, (1, 2, 7)),
    )
    for step in steps
]


def clock(at_ms: int, pattern: str = "%H:%M") -> str:
    """Format an instant as UTC text."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(pattern)


def short(text: str, length: int = 26) -> str:
    """Shorten a name in its middle: names often differ at the end."""
    return text if len(text) <= length else f"{text[: length // 2 - 1]}…{text[-length // 2 :]}"


def number(value: float) -> str:
    """Format a count with narrow spaces: 55 030."""
    return f"{value:,.0f}".replace(",", "\u202f")


def duration(span_ms: float) -> str:
    """Format a length of time: 3.2 d, 14 min."""
    for unit_ms, name in ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (1000, "s")):
        if abs(span_ms) >= unit_ms:
            amount = f"{span_ms / unit_ms:.1f}".removesuffix(".0")
            return f"{amount} {name}"
    return f"{span_ms:.0f} ms"


class TimeAxis:
    """Maps instants to x coordinates."""

    def __init__(self, from_ms: int, to_ms: int) -> None:
        self.from_ms, self.to_ms = from_ms, max(to_ms, from_ms + 1)

    def x(self, at_ms: int) -> float:
        """Return the x coordinate of an instant; instants outside the axis are put on its edge."""
        share = (at_ms - self.from_ms) / (self.to_ms - self.from_ms)
        return round(LEFT + min(max(share, 0), 1) * (WIDTH - LEFT - RIGHT), 1)

    def ticks(self, bottom: float) -> str:
        """Return SVG lines and labels at round times, at most nine."""
        span_ms = self.to_ms - self.from_ms
        step = next((step_ms for step_ms in _STEPS_MS if span_ms / step_ms <= 8), _STEPS_MS[-1])
        first = -(-self.from_ms // step) * step
        pattern = "%H:%M:%S" if step < MINUTE_MS else "%H:%M" if step < DAY_MS else "%d %b"
        marks = []
        for at_ms in range(first, self.to_ms + 1, step):
            x = self.x(at_ms)
            marks.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{bottom}"/>')
            marks.append(
                f'<text class="tick" x="{x}" y="{bottom + 15}">{clock(at_ms, pattern)}</text>'
            )
        return "".join(marks)


def _svg(height: float, parts: Iterable[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


def lag_panels(lines: list[Line], statuses: dict[str, str], axis: TimeAxis) -> str:
    """Draw one panel per group, each with its own scale, as lags differ by powers of ten."""
    parts = []
    for index, line in enumerate(lines):
        top, bottom = index * _PANEL + 12, (index + 1) * _PANEL - 10
        most = max(line.lags)
        height = bottom - top
        points = [
            f"{axis.x(at)},{bottom - height * lag / max(most, 1):.1f}"
            for at, lag in zip(line.times_ms, line.lags, strict=True)
        ]
        first, last = axis.x(line.times_ms[0]), axis.x(line.times_ms[-1])
        status = statuses.get(line.group, "OK")
        parts.append(
            f'<g class="{status.lower()}"><title>{escape(line.group)}: {number(line.lags[-1])} now,'
            f" {number(most)} at most</title>"
            f'<text class="name" x="0" y="{top + 14}">{escape(short(line.group))}</text>'
            f'<text class="note" x="0" y="{top + 31}">{number(line.lags[-1])} now</text>'
            f'<text class="note" x="0" y="{top + 46}">{number(most)} at most</text>'
            f'<line class="base" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
            f'<polygon class="area" points="{first},{bottom} {" ".join(points)} {last},{bottom}"/>'
            f'<polyline class="line" points="{" ".join(points)}"/></g>'
        )
    bottom = len(lines) * _PANEL
    return _svg(bottom + _AXIS, [axis.ticks(bottom), *parts], "Lag over time")


def rebalance_lanes(rebalances: list[TableRow], groups: list[str], axis: TimeAxis) -> str:
    """Draw one lane per group with a mark per generation; marks in a storm stand out."""
    parts = []
    for index, group in enumerate(groups):
        middle = index * _LANE + _LANE / 2
        parts.append(
            f'<text class="name" x="0" y="{middle + 4}">{escape(short(group))}</text>'
            f'<line class="base" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{middle}" y2="{middle}"/>'
        )
        for row in rebalances:
            if row["group"] == group:
                mark = "mark storm" if row["storm"] else "mark"
                parts.append(
                    f'<rect class="{mark}" x="{axis.x(row["at_ms"]) - 2.5}" y="{middle - 7}"'
                    f' width="5" height="14" rx="2"><title>{escape(story(row))}</title></rect>'
                )
    bottom = len(groups) * _LANE
    return _svg(bottom + _AXIS, [axis.ticks(bottom), *parts], "Rebalances over time")


def story(row: TableRow) -> str:
    """Describe a rebalance in one line."""
    said = [f"{clock(row['at_ms'], '%H:%M:%S')} generation {row['generation']}:"]
    said.append(f"{row['members']} members")
    for name in ("joined", "left", "restarted"):
        if row[name]:
            said.append(f"{name} {', '.join(row[name])}")
    if row["moved"] is not None:
        said.append(f"{row['moved']} of {row['partitions']} partitions moved")
    said += [str(row[name]) for name in ("trigger", "reason") if row[name]]
    return ", ".join(said).replace(":,", ":", 1)


def holding_lanes(holding: Holding, axis: TimeAxis) -> str:
    """Draw one lane per partition with a bar for each time span of an owner.

    A bar that is wide enough shows the owner's name.
    """
    places = holding.partitions[:SHOWN_PARTITIONS]
    owners: dict[str, int] = {}
    for _, owner, _, _ in sorted(holding.spans, key=lambda span: span[2]):
        owners.setdefault(owner, len(owners))
    parts = []
    for index, place in enumerate(places):
        y = index * _LANE + (_LANE - _BAR) / 2
        name = f"{place[0]}-{place[1]}"
        parts.append(f'<text class="name" x="0" y="{y + 12}">{escape(short(name))}</text>')
        for where, owner, begin_ms, end_ms in holding.spans:
            if where != place:
                continue
            x, width = axis.x(begin_ms), axis.x(end_ms) - axis.x(begin_ms)
            title = f"{owner}: {clock(begin_ms, '%H:%M:%S')} to {clock(end_ms, '%H:%M:%S')}"
            parts.append(
                f'<g class="c{owners[owner] % COLOURS}"><title>{escape(title)}</title>'
                f'<rect class="bar" x="{x}" y="{y}" width="{max(width - 1, 1.5):.1f}"'
                f' height="{_BAR}" rx="2"/>'
            )
            fits = int(width / 7)
            if fits >= 4:
                label = escape(short(owner, fits))
                parts.append(f'<text class="owner" x="{x + 5}" y="{y + 12}">{label}</text>')
            parts.append("</g>")
    bottom = len(places) * _LANE
    label = f"Who held which partition of {holding.group}"
    return _svg(bottom + _AXIS, [axis.ticks(bottom), *parts], label)


SHOWN_PARTITIONS = 24
"""The maximum number of lanes of a group."""
