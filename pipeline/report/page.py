"""Render the report as one HTML file that loads nothing else, in light and dark mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from pipeline.report.drawing import (
    SHOWN_PARTITIONS,
    TimeAxis,
    clock,
    duration,
    holding_lanes,
    lag_panels,
    number,
    rebalance_lanes,
)
from pipeline.report.every_group import groups_table
from pipeline.report.findings import SHOWN_LANES, SHOWN_ROWS, ReportFindings
from pipeline.report.reading import TableRow
from pipeline.tables.status import EARLY

_STYLE = """
:root { color-scheme: light dark; --page: #fbfbf9; --card: #fff; --ink: #1d2126; --soft: #6a7078;
  --rule: #e4e4df; --ok: #2e7d4f; --warn: #9a6700; --bad: #c0322b;
  --m0: #8fb8de; --m1: #f2b880; --m2: #9fd3a8; --m3: #d9a6d6; --m4: #e6d37a; --m5: #94d2cf;
  --m6: #eea4a0; --m7: #bdb6e8; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --card: #1c2024; --ink: #e6e8ea;
  --soft: #9aa2ab; --rule: #30363c; --ok: #63c088; --warn: #dba63a; --bad: #f0746c;
  --m0: #2f5f8c; --m1: #8a5522; --m2: #356d41; --m3: #75406f; --m4: #6d611f; --m5: #256764;
  --m6: #84403c; --m7: #514a8a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 32px 20px 60px; }
h1 { font-size: 25px; margin: 0; } h2 { font-size: 18px; margin: 40px 0 2px; }
ul.missing { margin: 0; padding-left: 20px; color: var(--warn); overflow-wrap: anywhere; }
h3 { font-size: 14px; margin: 18px 0 4px; } p { margin: 2px 0 10px; color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 10px;
  margin-top: 20px; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  padding: 10px 14px; color: var(--soft); font-size: 13px; }
.tile b { display: block; font-size: 25px; line-height: 1.25; color: var(--ink); }
.tile.bad b { color: var(--bad); } .tile.warn b { color: var(--warn); }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  padding: 12px 14px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 13px; }
th, td { padding: 5px 14px 5px 0; vertical-align: top; border-bottom: 1px solid var(--rule); }
tr:last-child td { border-bottom: 0; } td { overflow-wrap: anywhere; }
.n { text-align: right; padding-right: 26px; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.w { white-space: nowrap; }
.tag { font-weight: 600; font-size: 12px; white-space: nowrap; } .tag.ok { color: var(--ok); }
.tag.warn { color: var(--warn); } .tag.err { color: var(--bad); }
svg { display: block; width: 100%; min-width: 720px; height: auto; }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); }
svg .tick { fill: var(--soft); font-size: 11.5px; text-anchor: middle; }
svg .note { fill: var(--soft); font-size: 12px; } svg .owner { font-size: 11.5px; }
.grid, .base { stroke: var(--rule); } .line { fill: none; stroke: var(--soft); stroke-width: 1.6; }
.area { fill: var(--soft); opacity: .14; }
.ok .line { stroke: var(--ok); } .ok .area { fill: var(--ok); }
.warn .line { stroke: var(--warn); } .warn .area { fill: var(--warn); }
.err .line { stroke: var(--bad); } .err .area { fill: var(--bad); }
summary { cursor: pointer; } details ul { margin: 4px 0; padding-left: 20px; color: var(--soft); }
#search { font: inherit; width: 100%; max-width: 320px; padding: 6px 10px; margin-bottom: 8px;
  color: var(--ink); background: var(--page); border: 1px solid var(--rule); border-radius: 6px; }
#groups td:nth-child(2), #groups td:last-child { min-width: 150px; }
@media (max-width: 600px) { main { padding: 18px 10px 40px; } .n { padding-right: 12px; }
  td:nth-child(2) { min-width: 90px; } .card { padding: 8px 10px; }
  #groups thead { display: none; } #groups tr { display: flex; flex-wrap: wrap; gap: 0 14px;
    padding: 6px 0; border-bottom: 1px solid var(--rule); } #groups tr[hidden] { display: none; }
  #groups td { padding: 0; border: 0; } #groups td:nth-child(2) { flex: 1 0 70%; }
  #groups td:last-child { flex: 1 0 100%; color: var(--soft); } #search { max-width: none; }
  #groups td[data-name]::before { content: attr(data-name) " "; color: var(--soft);
    font-size: 12px; } }
.mark { fill: var(--soft); } .mark.storm { fill: var(--bad); }
""" + "\n".join(f".c{color} .bar {{ fill: var(--m{color}); }}" for color in range(8))

_NOTHING = "\u2013"
"""An en dash: the value is unknown or does not apply."""


def render(findings: ReportFindings) -> str:
    """Return the whole page as HTML."""
    axis = TimeAxis(findings.from_ms, findings.at_ms)
    sections = (
        _tiles(findings),
        _attention(findings),
        groups_table(findings.summaries),
        _lag(findings, axis),
        _rebalances(findings, axis),
        _holdings(findings, axis),
        _forecasts(findings),
        _skews(findings),
        _abandoned(findings),
        _dead_letters(findings),
    )
    when = clock(findings.at_ms, "%d %B %Y, %H:%M:%S UTC")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>Consumer groups, {when}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>Consumer groups</h1>{covered(findings)}"
        f"{''.join(sections)}</main></body></html>\n"
    )


def _tiles(findings: ReportFindings) -> str:
    counts = (
        ("groups", len(findings.groups), ""),
        ("in error", findings.verdicts["ERR"], "bad"),
        ("with a warning", findings.verdicts["WARN"], "warn"),
        ("partitions at risk of loss", len(findings.risks), "bad"),
        ("groups in a storm", len(findings.storms), "warn"),
        ("groups abandoned", len(findings.abandoned), ""),
        ("records not decoded", findings.dead_letters.total(), "warn"),
    )
    return '<div class="tiles">' + "".join(
        f'<div class="tile {kind if count else ""}"><b>{number(count)}</b>{name}</div>'
        for name, count, kind in counts
    ) + "</div>"  # fmt: skip


def _attention(findings: ReportFindings) -> str:
    rows = [
        (_tag(row["status"]), _text(row["group"]), _text(row["rule"]), _count(row["lag"]),
         _count(row["members"]))
        for row in findings.groups if row["status"] != "OK"
    ]  # fmt: skip
    head = ("", "group", "why: its worst partition", "lag", "members")
    early = sum(EARLY in row["rule"] for row in findings.groups)
    nothing = "No group is in error or has a warning."
    if early:
        nothing += f" For {number(early)} it is too early to judge: the table below says why."
    return _section(
        "What needs attention", "Verdicts on groups, the worst first.", head, rows, nothing
    )


def _lag(findings: ReportFindings, axis: TimeAxis) -> str:
    if not findings.lines:
        return ""
    statuses = {row["group"]: row["status"] for row in findings.groups}
    note = "Records to read, over all partitions of a group. Each panel has its own scale. UTC."
    if len(findings.groups) > len(findings.lines):
        note += f" {len(findings.lines)} of {number(len(findings.groups))} groups, the worst first."
    return _figure("Lag over time", note, lag_panels(findings.lines, statuses, axis))


def _rebalances(findings: ReportFindings, axis: TimeAxis) -> str:
    counts = Counter(row["group"] for row in findings.rebalances)
    if not counts:
        return ""
    busy = [group for group, _ in counts.most_common(SHOWN_LANES)]
    note = "One mark a generation; red: five or more within five minutes. Point at one to read it."
    if len(counts) > len(busy):
        note += f" The {len(busy)} busiest of {number(len(counts))} groups."
    return _figure("Rebalances", note, rebalance_lanes(findings.rebalances, sorted(busy), axis))


def _holdings(findings: ReportFindings, axis: TimeAxis) -> str:
    if not findings.holdings:
        return ""
    pictures = "".join(
        f"<h3>{_text(holding.group)}</h3>{holding_lanes(holding, axis)}"
        for holding in findings.holdings
    )
    note = "The groups with the most generations; one colour a member."
    if any(len(holding.partitions) > SHOWN_PARTITIONS for holding in findings.holdings):
        note += f" The first {SHOWN_PARTITIONS} partitions of each."
    return _figure("Who held which partition when", note, pictures)


def _forecasts(findings: ReportFindings) -> str:
    risks = [
        (_text(row["verdict"].replace("_", " ")), _text(row["group"]), _place(row),
         _count(row["lag"]), _span(row["slack_ms"]), _when(row["loss_at_ms"]))
        for row in findings.risks
    ]  # fmt: skip
    expiries = [
        (_text(row["group"]), _place(row), _count(row["committed_offset"]),
         _span(row["expires_in_ms"]), _when(row["expires_ms"]), _count(row["skipped_by_latest"]),
         _count(row["repeated_by_earliest"]))
        for row in findings.expiries
    ]  # fmt: skip
    return _section(
        "Records that may be lost",
        "Retention may remove them before they are read.",
        ("verdict", "group", "partition", "unread", "slack", "from"),
        risks,
        "None.",
    ) + _section(
        "Committed offsets that will expire",
        "If nothing else happens; and what a reset would then skip or read again.",
        ("group", "partition", "offset", "in", "on", "latest skips", "earliest repeats"),
        expiries,
        "None.",
    )


def _skews(findings: ReportFindings) -> str:
    rows = [
        (_text(row["group"]), _text(row["member_id"]),
         _text(", ".join(row["verdicts"]).replace("_", " ")), _count(row["partitions"]),
         _count(row["lag"]))
        for row in findings.skews
    ]  # fmt: skip
    head = ("group", "member", "verdict", "partitions", "lag")
    return _section("Uneven work", "Members that stand out in their group.", head, rows, "None.")


def _abandoned(findings: ReportFindings) -> str:
    rows = [
        (_text(row["group"]), _text(", ".join(row["reasons"]).replace("_", " ")),
         _span(row["silent_ms"]), _text(row["last_client_id"] or ""), _count(row["lag"]),
         _count(row["log_bytes"]))
        for row in findings.abandoned
    ]  # fmt: skip
    head = ("group", "why", "silent for", "last client", "lag", "bytes kept")
    return _section("Groups nobody seems to need", "The longest silent first.", head, rows, "None.")


def _dead_letters(findings: ReportFindings) -> str:
    if not findings.dead_letters:
        return ""
    rows = [(_text(reason), _count(count)) for reason, count in findings.dead_letters.most_common()]
    note = "They are in the table dead_letters, in hex."
    return _section("Records that could not be decoded", note, ("why", "records"), rows, "")


def _figure(title: str, note: str, picture: str) -> str:
    return f'<h2>{title}</h2><p>{note}</p><div class="card">{picture}</div>'


def _section(
    title: str, note: str, head: Iterable[str], rows: Sequence[tuple[str, ...]], nothing: str
) -> str:
    if not rows:
        return f"<h2>{title}</h2><p>{nothing}</p>"
    if len(rows) > SHOWN_ROWS:
        note += f" The first {SHOWN_ROWS} of {number(len(rows))}."
    titles = "".join(
        f'<th class="n">{name}</th>' if name in _NUMBERS else f"<th>{name}</th>" for name in head
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows[:SHOWN_ROWS])
    return _figure(title, note, f"<table><tr>{titles}</tr>{body}</table>")


_NUMBERS = {"lag", "members", "unread", "offset", "latest skips", "earliest repeats",
            "partitions", "bytes kept", "records", "silent for", "slack", "in"}  # fmt: skip


def _text(value: object) -> str:
    return f"<td>{escape(str(value))}</td>"


def _tag(status: str) -> str:
    return f'<td><span class="tag {status.lower()}">{status}</span></td>'


def _count(value: int | None) -> str:
    return f'<td class="n">{_NOTHING if value is None else number(value)}</td>'


def _span(value_ms: int | None) -> str:
    return f'<td class="n">{_NOTHING if value_ms is None else duration(value_ms)}</td>'


def _when(at_ms: int | None) -> str:
    return f'<td class="w">{_NOTHING if at_ms is None else clock(at_ms, "%d %b %Y %H:%M")}</td>'


def _place(row: TableRow) -> str:
    return _text(f"{row['topic']}-{row['partition']}")


_MOMENT = "%d %B %Y, %H:%M:%S UTC"


def covered(findings: ReportFindings) -> str:
    """Return two paragraphs and the list of missing data, as HTML."""
    notes = [] if findings.coverage is None else findings.coverage["notes"] or []
    missing = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<p>{_cluster(findings)} {_window(findings)}</p><p>{_completeness(findings)}</p>" + (
        f'<ul class="missing">{missing}</ul>' if missing else ""
    )


def _cluster(findings: ReportFindings) -> str:
    """Return a sentence with the cluster and the instant."""
    when = clock(findings.at_ms, _MOMENT)
    coverage = findings.coverage
    if coverage is None:
        return f"{when}."
    name = coverage["cluster_id"]
    cluster = f"Cluster <b>{escape(name)}</b>" if name else "A cluster whose id is not known"
    place = f", from {escape(coverage['input'])}" if coverage["input"] else ""
    return f"{cluster}{place}, as of {when}."


def _window(findings: ReportFindings) -> str:
    """Return a sentence with the counts of groups and partitions, and the window."""
    if not findings.groups:
        return "No group has a verdict."
    partitions = sum(len(summary.partitions) for summary in findings.summaries)
    window = duration(findings.groups[0]["window_ms"])
    coverage: TableRow = findings.coverage or {}
    pattern = coverage.get("groups")
    of_names = f" with names like <code>{escape(pattern)}</code>" if pattern else ""
    begin_ms = findings.at_ms - findings.groups[0]["window_ms"]
    return (
        f"{number(len(findings.groups))} groups{of_names}, {number(partitions)} partitions;"
        f" verdicts look back {window}, to {clock(begin_ms, '%d %b %H:%M')}."
    )


def _completeness(findings: ReportFindings) -> str:
    """Return sentences on how complete commits and lags are, and when they were read."""
    said = []
    spans = sorted(row["complete"] or 0.0 for row in findings.groups)
    if spans:
        said.append(
            f"The commits of a group span {spans[len(spans) // 2]:.0%} of that time (median; least"
            f" {spans[0]:.0%})."
        )
    lags = [row["lag"] for summary in findings.summaries for row in summary.partitions]
    if None in lags:
        said.append(
            f"The lag of {number(lags.count(None))} of {number(len(lags))} partitions is not known."
        )
    elif lags:
        said.append("The lag of every partition is known.")
    coverage = findings.coverage
    if coverage is not None and coverage["first_log_ms"] is not None:
        since = clock(coverage["first_log_ms"], "%d %b %Y %H:%M")
        said.append(f"The oldest record of the offsets log is of {since}.")
    if coverage is not None and coverage["read_ms"] is not None:
        said.append(f"Log ends were taken {clock(coverage['read_ms'], '%d %b %Y %H:%M:%S')}.")
    if coverage is not None and not coverage["notes"]:
        said.append("Nothing was refused or damaged.")
    return " ".join(said)
