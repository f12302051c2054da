"""The findings in a few lines for a terminal."""

from __future__ import annotations

from pipeline.report.drawing import clock, number
from pipeline.report.findings import ReportFindings
from pipeline.report.page import duration


def summary(found: ReportFindings, most: int) -> str:
    """Counts, then at most `most` lines of each kind of trouble."""
    verdicts = found.verdicts
    lines = [
        f"{clock(found.at_ms, '%Y-%m-%d %H:%M:%S UTC')}: {number(len(found.groups))} groups,"
        f" {verdicts['ERR']} in error, {verdicts['WARN']} with a warning, {verdicts['OK']} well"
    ]
    bad = [row for row in found.groups if row["status"] != "OK"]
    lines += [
        f"  {row['status']:<4}  {row['group']}  lag {number(row['lag'] or 0)}  {row['rule']}"
        for row in bad[:most]
    ]
    lines += _more(len(bad), most)
    lines.append(f"{len(found.risks)} partitions where records may be lost")
    lines += [
        f"  {row['verdict']}  {row['group']}  {row['topic']}-{row['partition']}"
        f"  {number(row['lag'] or 0)} unread"
        for row in found.risks[:most]
    ]
    lines += _more(len(found.risks), most)
    if found.expiries:
        first = found.expiries[0]
        lines.append(
            f"{len(found.expiries)} committed offsets will expire, the first of group"
            f" {first['group']} in {duration(first['expires_in_ms'])}"
        )
    if found.storms:
        lines.append(f"rebalance storms: {', '.join(found.storms[:most])}")
    if found.abandoned:
        lines.append(f"{len(found.abandoned)} groups that nobody seems to need")
    if found.dead_letters:
        lines.append(f"{found.dead_letters.total()} records could not be decoded")
    return "\n".join(lines)


def _more(count: int, most: int) -> list[str]:
    return [f"  and {count - most} more"] if count > most else []
