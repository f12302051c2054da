"""Collect the content of a report: the rows that it shows, selected and counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from pipeline import schema
from pipeline.inputs import DAY_MS, MINUTE_MS
from pipeline.report.every_group import GroupSummary, group_summaries
from pipeline.report.reading import Line, NoReportError, Output, TableRow

SHOWN_ROWS = 50
SHOWN_LINES = 6
SHOWN_LANES = 20
SHOWN_HOLDINGS = 4
_LEAST_SPAN_MS = 10 * MINUTE_MS
_SEVERITY = {"ERR": 0, "WARN": 1, "OK": 2}
_AT_RISK = ("losing", "at_risk")


@dataclass(frozen=True)
class Holding:
    """The owners of a group's partitions over time: spans of (place, owner, from_ms, to_ms)."""

    group: str
    spans: list[tuple[tuple[str, int], str, int, int]]

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Return the partitions that had an owner, in order."""
        return sorted({place for place, *_ in self.spans})


@dataclass(frozen=True)
class ReportFindings:
    """The content of a report: its instant, the start of its time axis, and rows, worst first."""

    at_ms: int
    from_ms: int
    coverage: TableRow | None
    verdicts: Counter[str]
    groups: list[TableRow]
    summaries: list[GroupSummary]
    partitions: list[TableRow]
    lines: list[Line]
    rebalances: list[TableRow]
    storms: list[str]
    holdings: list[Holding]
    risks: list[TableRow]
    expiries: list[TableRow]
    abandoned: list[TableRow]
    skews: list[TableRow]
    dead_letters: Counter[str]

    @property
    def alarms(self) -> list[str]:
        """Return the reasons for an alert: groups in error, and records that may be lost."""
        errors = [
            f"group {row['group']} is ERR: {row['rule']}"
            for row in self.groups
            if row["status"] == "ERR"
        ]
        losses = [
            f"group {row['group']}, {row['topic']}-{row['partition']}: {row['verdict']},"
            f" {row['lag']} records unread"
            for row in self.risks
        ]
        return errors + losses


def find(output: Output) -> ReportFindings:
    """Collect the content of a report. Raises NoReportError if no table has the instant."""
    groups = output.rows(schema.STATUS, pc.field("topic").is_null())
    groups.sort(key=lambda row: (_SEVERITY[row["status"]], -(row["lag"] or 0), row["group"]))
    at_ms = output.at_ms
    if at_ms is None:
        raise NoReportError("the table lag has no rows: no group has an offset or an assignment")
    rebalances = output.rows(schema.REBALANCES, pc.field("at_ms") > at_ms - DAY_MS)
    starts = [row["at_ms"] for row in rebalances]
    starts += [row["first_commit_ms"] for row in groups if row["first_commit_ms"] is not None]
    from_ms = min(
        [at_ms - _LEAST_SPAN_MS, *(start_ms for start_ms in starts if start_ms > at_ms - DAY_MS)]
    )
    shown = [row["group"] for row in groups][:SHOWN_LINES]
    busiest = Counter(row["group"] for row in rebalances).most_common(SHOWN_HOLDINGS)
    expiries = output.rows(schema.OFFSET_EXPIRY_FORECAST, pc.field("expires_ms").is_valid())
    expiries.sort(key=lambda row: (row["expires_ms"], row["group"], row["topic"]))
    risks = output.rows(schema.DATA_LOSS_FORECAST, pc.field("verdict").isin(_AT_RISK))
    risks.sort(key=lambda row: (_AT_RISK.index(row["verdict"]), row["loss_at_ms"] or 0))
    skews = [row for row in output.rows(schema.MEMBER_SKEW) if row["verdicts"]]
    abandoned = output.rows(schema.ABANDONED_GROUPS)
    abandoned.sort(key=lambda row: (-(row["silent_ms"] or 0), row["group"]))
    return ReportFindings(
        at_ms=at_ms,
        from_ms=from_ms,
        coverage=output.any_row(schema.COVERAGE),
        verdicts=Counter(row["status"] for row in groups),
        groups=groups,
        summaries=group_summaries(output, groups),
        partitions=output.rows(
            schema.STATUS, pc.field("topic").is_valid() & (pc.field("status") != "OK")
        ),
        lines=_ending_now(output.lines(shown, from_ms, at_ms), groups),
        rebalances=rebalances,
        storms=sorted({row["group"] for row in rebalances if row["storm"]}),
        holdings=_holdings(output, [group for group, _ in busiest], from_ms, at_ms),
        risks=risks,
        expiries=expiries,
        abandoned=abandoned,
        skews=skews,
        dead_letters=Counter(row["reason"] for row in output.rows(schema.DEAD_LETTERS)),
    )


def _ending_now(lines: list[Line], groups: list[TableRow]) -> list[Line]:
    """Return the lines with the lag of `status` as last value.

    The replay does not see records of open transactions, because bronze does not have them.
    """
    lags = {row["group"]: row["lag"] for row in groups}
    return [
        line
        if lags[line.group] is None
        else replace(line, lags=[*line.lags[:-1], lags[line.group]])
        for line in lines
    ]


def _holdings(output: Output, groups: list[str], from_ms: int, at_ms: int) -> list[Holding]:
    """Return the assignments of each generation, as spans up to the group's next generation."""
    if not groups:  # pyarrow cannot compare strings with an empty list, whose type is null
        return []
    chosen = pc.field("group").isin(groups)
    members = output.rows(schema.GROUP_MEMBERS, chosen)
    generations = output.rows(schema.GROUP_GENERATIONS, chosen)
    holdings = []
    for group in sorted(groups):
        spans: dict[tuple[tuple[str, int], str], list[tuple[int, int]]] = {}
        records = [row for row in generations if row["group"] == group]
        ends = [*(row["log_timestamp_ms"] for row in records[1:]), at_ms]
        for record, end_ms in zip(records, ends, strict=True):
            begin_ms = max(record["log_timestamp_ms"], from_ms)
            if end_ms <= begin_ms:
                continue
            place = (record["log_partition"], record["log_offset"])
            for row in members:
                if (row["group"], row["log_partition"], row["log_offset"]) != (group, *place):
                    continue
                owner = row["group_instance_id"] or row["member_id"]
                for assigned in row["assigned"] or ():
                    for number in assigned["partitions"]:
                        known = spans.setdefault(((assigned["topic"], number), owner), [])
                        # Extend the span of an owner that keeps the partition.
                        if known and known[-1][1] == begin_ms:
                            known[-1] = (known[-1][0], end_ms)
                        else:
                            known.append((begin_ms, end_ms))
        flat = [
            (where, owner, begin, end)
            for (where, owner), times in spans.items()
            for begin, end in times
        ]
        if flat:
            holdings.append(Holding(group, sorted(flat)))
    return holdings
