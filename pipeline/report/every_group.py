"""The table of all groups: lag in records and in time, rate, members, partitions on request.

The search is the only script of the page. Without scripts the table is complete, and the browser's
own search finds a group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pipeline import schema
from pipeline.report.drawing import duration, number
from pipeline.report.reading import Output, TableRow

SHOWN_PARTITIONS = 50
"""The maximum number of partitions listed per group, those with the greatest lag first."""

_UNKNOWN = "\u2013"
_SEARCH = (
    '<input id="search" type="search" placeholder="Search groups" aria-label="Search groups"/>'
)
_SCRIPT = (
    "<script>document.getElementById('search').addEventListener('input', event => {"
    "const wanted = event.target.value.toLowerCase();"
    "for (const row of document.querySelectorAll('#groups tbody tr'))"
    " row.hidden = !row.dataset.group.toLowerCase().includes(wanted);});</script>"
)


@dataclass(frozen=True)
class GroupSummary:
    """A group: its row of `status`, its rows of `lag`, and its committed records per second."""

    status: TableRow
    partitions: list[TableRow]
    consumed_per_second: float | None

    @property
    def age_ms(self) -> int | None:
        """Return the greatest age of an unread record; None if no age is known."""
        ages = [row["oldest_unread_age_ms"] for row in self.partitions]
        return max((age for age in ages if age is not None), default=None)


def group_summaries(output: Output, groups: Sequence[TableRow]) -> list[GroupSummary]:
    """Return a summary for each row of `groups`, in the same order."""
    partitions: defaultdict[str, list[TableRow]] = defaultdict(list)
    for row in output.rows(schema.LAG):
        if row["topic"] is not None:
            partitions[row["group"]].append(row)
    rates: defaultdict[str, list[float]] = defaultdict(list)
    for row in output.rows(schema.RATES):
        if row["consumed_per_second"] is not None:
            rates[row["group"]].append(row["consumed_per_second"])
    return [
        GroupSummary(
            row,
            sorted(partitions[row["group"]], key=lambda partition: -(partition["lag"] or 0)),
            sum(rates[row["group"]]) if rates[row["group"]] else None,
        )
        for row in groups
    ]


def groups_table(groups: Sequence[GroupSummary]) -> str:
    """Return the section as HTML, with every name escaped."""
    if not groups:
        return ""
    head = (
        '<th></th><th>group</th><th class="n">lag</th><th class="n">lag in time</th>'
        '<th class="n">records/s</th><th class="n">members</th><th>rule</th>'
    )
    body = "".join(map(_row, groups))
    return (
        f"<h2>All groups</h2><p>{number(len(groups))} groups, the worst first. Lag in time is the"
        " age of the oldest unread record; records/s is what the group commits.</p>"
        f'<div class="card">{_SEARCH}<table id="groups"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{_SCRIPT}"
    )


def _row(group: GroupSummary) -> str:
    row = group.status
    name, status = escape(row["group"]), row["status"]
    rate = group.consumed_per_second
    cells = (
        f'<td><span class="tag {status.lower()}">{status}</span></td>',
        f"<td>{_name_with_partitions(name, group.partitions)}</td>",
        _number("lag", None if row["lag"] is None else number(row["lag"])),
        _number("lag in time", None if group.age_ms is None else duration(group.age_ms)),
        _number("records/s", None if rate is None else f"{rate:,.1f}"),
        _number("members", None if row["members"] is None else number(row["members"])),
        f"<td>{escape(row['rule'])}</td>",
    )
    return f'<tr data-group="{name}">{"".join(cells)}</tr>'


def _number(name: str, text: str | None) -> str:
    """Return a table cell; `name` labels it where the page is too narrow for a table head."""
    return f'<td class="n" data-name="{name}">{_UNKNOWN if text is None else text}</td>'


def _name_with_partitions(name: str, partitions: Sequence[TableRow]) -> str:
    """Return the group's name, which expands to the lag of each partition."""
    if not partitions:
        return name
    lines = [
        f"<li>{escape(row['topic'])}-{row['partition']}: "
        f"{_UNKNOWN if row['lag'] is None else number(row['lag'])}</li>"
        for row in partitions[:SHOWN_PARTITIONS]
    ]
    if len(partitions) > SHOWN_PARTITIONS:
        lines.append(f"<li>and {number(len(partitions) - SHOWN_PARTITIONS)} more</li>")
    return f"<details><summary>{name}</summary><ul>{''.join(lines)}</ul></details>"
