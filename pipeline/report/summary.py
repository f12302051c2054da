"""The content of a report as a few lines for a terminal."""

from __future__ import annotations

from pipeline.report.drawing import clock, duration, number
from pipeline.report.findings import ReportFindings


def summary(findings: ReportFindings, most: int) -> str:
    """Return counts, and at most `most` lines for each kind of problem."""
    verdicts = findings.verdicts
    lines = [
        f"{clock(findings.at_ms, '%Y-%m-%d %H:%M:%S UTC')}: {number(len(findings.groups))} groups,"
        f" {verdicts['ERR']} in error, {verdicts['WARN']} with a warning, {verdicts['OK']} well"
    ]
    bad = [row for row in findings.groups if row["status"] != "OK"]
    lines += [
        f"  {row['status']:<4}  {row['group']}  lag {number(row['lag'] or 0)}  {row['rule']}"
        for row in bad[:most]
    ]
    lines += _more(len(bad), most)
    lines.append(f"{len(findings.risks)} partitions where records may be lost")
    lines += [
        f"  {row['verdict']}  {row['group']}  {row['topic']}-{row['partition']}"
        f"  {number(row['lag'] or 0)} unread"
        for row in findings.risks[:most]
    ]
    lines += _more(len(findings.risks), most)
    if findings.expiries:
        first = findings.expiries[0]
        lines.append(
            f"{len(findings.expiries)} committed offsets will expire, the first of group"
            f" {first['group']} in {duration(first['expires_in_ms'])}"
        )
    if findings.storms:
        lines.append(f"rebalance storms: {', '.join(findings.storms[:most])}")
    if findings.abandoned:
        lines.append(f"{len(findings.abandoned)} groups that nobody seems to need")
    if findings.dead_letters:
        lines.append(f"{findings.dead_letters.total()} records could not be decoded")
    return "\n".join(lines)


def _more(count: int, most: int) -> list[str]:
    return [f"  and {count - most} more"] if count > most else []
