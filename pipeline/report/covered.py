"""The head of the page: which cluster, which time span, and how complete the data is."""

from __future__ import annotations

from html import escape

from pipeline.report.drawing import clock, duration, number
from pipeline.report.findings import ReportFindings
from pipeline.report.reading import TableRow

_MOMENT = "%d %B %Y, %H:%M:%S UTC"


def covered(findings: ReportFindings) -> str:
    """Return two paragraphs and a list of what is missing, as HTML."""
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
    partitions = sum(len(one.partitions) for one in findings.summaries)
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
    lags = [row["lag"] for one in findings.summaries for row in one.partitions]
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
