"""The state of a run as a Prometheus text file, for node_exporter's textfile collector or a push.

Names and labels of lag are those of the widely used kafka-lag-exporter, so that dashboards made
for it work; what it does not know bears a name of ours (`coordinator_`). A value that is not known
has no line: in a graph that is a gap, which a zero would hide. Times are in seconds, as is the
custom there. The format is that of Prometheus' text exposition, version 0.0.4.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pipeline import schema
from pipeline.report.reading import Output, TableRow

STATUSES = ("OK", "WARN", "ERR")
_PLACE = ("group", "topic", "partition")

Labels = Mapping[str, object]


class Gauge(NamedTuple):
    """A gauge and its samples; a value of None has no line."""

    name: str
    help: str
    samples: list[tuple[Labels, float | int | None]]


def export(output: Output, target: Path) -> None:
    """Write the file, whole or not at all: a collector may read it at any time."""
    staging = target.with_name(f".{target.name}.part")
    staging.write_text(render(gauges(output)), encoding="utf-8")
    os.replace(staging, target)


def gauges(output: Output) -> list[Gauge]:
    """All gauges of the tables of a run."""
    lag = output.rows(schema.LAG)
    return [*_of_lag(lag), *_of_groups(lag, output), *_of_forecasts(output)]


def _of_lag(lag: list[TableRow]) -> list[Gauge]:
    """One sample for a group and partition; ends of partitions once."""
    places = [({name: row[name] for name in _PLACE}, row) for row in lag]
    ends = {(row["topic"], row["partition"]): row for row in lag}
    logs = [({"topic": key[0], "partition": key[1]}, row) for key, row in sorted(ends.items())]
    return [
        Gauge(
            "kafka_consumergroup_group_offset",
            "Committed offset: the next record to read.",
            [(labels, row["committed_offset"]) for labels, row in places],
        ),
        Gauge(
            "kafka_consumergroup_group_lag",
            "Records to read.",
            [(labels, row["lag"]) for labels, row in places],
        ),
        Gauge(
            "kafka_consumergroup_group_lag_seconds",
            "Age of the oldest unread record.",
            [(labels, _seconds(row["oldest_unread_age_ms"])) for labels, row in places],
        ),
        Gauge(
            "kafka_partition_latest_offset",
            "Log end: the next offset to be written.",
            [(labels, row["log_end"]) for labels, row in logs],
        ),
        Gauge(
            "kafka_partition_earliest_offset",
            "Log start: the first offset there.",
            [(labels, row["log_start"]) for labels, row in logs],
        ),
    ]


def _of_groups(lag: list[TableRow], output: Output) -> list[Gauge]:
    """One sample for a group; of its status, one for each that there is."""
    of_group: dict[str, list[TableRow]] = {}
    for row in lag:
        of_group.setdefault(row["group"], []).append(row)
    groups = [row for row in output.rows(schema.STATUS) if row["topic"] is None]
    return [
        Gauge(
            "kafka_consumergroup_group_sum_lag",
            "Records to read, over all partitions of the group.",
            [({"group": group}, _over(sum, rows, "lag")) for group, rows in of_group.items()],
        ),
        Gauge(
            "kafka_consumergroup_group_max_lag",
            "Records to read of the partition that is furthest behind.",
            [({"group": group}, _over(max, rows, "lag")) for group, rows in of_group.items()],
        ),
        Gauge(
            "kafka_consumergroup_group_max_lag_seconds",
            "Age of the oldest record that the group has not read.",
            [
                ({"group": group}, _seconds(_over(max, rows, "oldest_unread_age_ms")))
                for group, rows in of_group.items()
            ],
        ),
        Gauge(
            "coordinator_group_members",
            "Live members.",
            [({"group": row["group"]}, row["members"]) for row in groups],
        ),
        Gauge(
            "coordinator_group_status",
            "1 for the verdict that holds, 0 for the others.",
            [
                ({"group": row["group"], "status": one}, int(row["status"] == one))
                for row in groups
                for one in STATUSES
            ],
        ),
        Gauge(
            "coordinator_group_abandoned_seconds",
            "Time for which a group that nobody seems to need was silent.",
            [
                ({"group": row["group"]}, _seconds(row["silent_ms"]))
                for row in output.rows(schema.ABANDONED_GROUPS)
            ],
        ),
    ]


def _of_forecasts(output: Output) -> list[Gauge]:
    """What will be, and the instant that all is about."""
    expiries = output.rows(schema.OFFSET_EXPIRY_FORECAST)
    losses = output.rows(schema.DATA_LOSS_FORECAST)
    instants = {row["at_ms"] for row in output.rows(schema.LAG)}
    return [
        Gauge(
            "coordinator_offset_expires_seconds",
            "Time until the committed offset may be removed.",
            [
                ({name: row[name] for name in _PLACE}, _seconds(row["expires_in_ms"]))
                for row in expiries
            ],
        ),
        Gauge(
            "coordinator_unread_slack_seconds",
            "Time until retention may remove the oldest unread record.",
            [({name: row[name] for name in _PLACE}, _seconds(row["slack_ms"])) for row in losses],
        ),
        Gauge(
            "coordinator_pipeline_instant_seconds",
            "The instant that all of this is about, since 1970.",
            [({}, _seconds(at_ms)) for at_ms in instants],
        ),
    ]


def _seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000


def _over(choose: Callable[[list[int]], int], rows: list[TableRow], name: str) -> int | None:
    values = [row[name] for row in rows if row[name] is not None]
    return choose(values) if values else None


def render(found: Iterable[Gauge]) -> str:
    """The text of the file."""
    lines = []
    for gauge in found:
        samples = [(labels, value) for labels, value in gauge.samples if value is not None]
        if not samples:
            continue
        lines += [f"# HELP {gauge.name} {gauge.help}", f"# TYPE {gauge.name} gauge"]
        for labels, value in samples:
            inner = ",".join(f'{name}="{_escaped(str(one))}"' for name, one in labels.items())
            lines.append(f"{gauge.name}{{{inner}}} {value}" if inner else f"{gauge.name} {value}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    """A label's value: these three are all that the format escapes."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
