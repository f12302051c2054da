"""A hand-made output folder of a run: a few groups over two hours, one of them in a storm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import schema
from pipeline.inputs import HOUR_MS, MINUTE_MS
from pipeline.schema.arrow import arrow_schema
from tests.pipeline.tables.log_rows import commit

Row = dict[str, Any]

AT_MS = 1_772_373_600_000  # 2026-03-01 14:00:00 UTC
BEGIN_MS = AT_MS - 2 * HOUR_MS
EVIL = "<script>alert('ü')</script>"


def ago(minutes: float) -> int:
    """Return the time in ms that lies `minutes` before the instant."""
    return AT_MS - round(minutes * MINUTE_MS)


def write(out: Path, folder: str, table: schema.Table, rows: Sequence[Row]) -> None:
    """Write rows of a table as a run does; missing columns are null."""
    columns = arrow_schema(table)
    place = out / folder / table.name
    place.mkdir(parents=True)
    full = [{name: row.get(name) for name in table.names} for row in rows]
    made = pa.Table.from_pylist(full, columns)
    pq.write_to_dataset(made, place, partition_cols=list(table.partitioned_by) or None)


def group_row(group: str, status: str, rule: str, lag: int, members: int | None) -> Row:
    """Return a group's row of `status`."""
    return {"group": group, "status": status, "rule": rule, "lag": lag, "members": members,
            "first_commit_ms": ago(59), "window_ms": HOUR_MS}  # fmt: skip


def generation_rows(
    group: str, minutes: float, number: int, held: dict[str, list[int]], **more: Any
) -> tuple[Row, list[Row], Row]:
    """Return a generation, its members, which hold partitions of `orders`, and its rebalance."""
    place = {"group": group, "generation": number, "log_partition": 0, "log_offset": number}
    members = [
        {**place, "member_id": name, "assigned": [{"topic": "orders", "partitions": numbers}]}
        for name, numbers in held.items()
    ]
    made = {**place, "group_type": "classic", "event": "generation", "members": len(held),
            "log_timestamp_ms": ago(minutes)}  # fmt: skip
    rebalance = {**place, "at_ms": ago(minutes), "members": len(held), "joined": [], "left": [],
                 "restarted": [], "storm": False, **more}  # fmt: skip
    return made, members, rebalance


def commits(group: str, topic: str, first: float, last: float, places: Sequence[int]) -> list[Row]:
    """Return commits spread evenly from `first` to `last` minutes before the instant."""
    step = (first - last) / max(len(places) - 1, 1)
    return [
        commit(group, ago(first - step * number), number, f"{topic}-0", place)
        for number, place in enumerate(places)
    ]


def scene(out: Path, *, well: bool = False, calm: bool = False) -> Path:
    """Write the output folder; `well`: without reasons for an alert; `calm`: without rebalances."""
    error = "orders-0: STOP, the group is empty while 4000 records to read wait for 2400 s"
    warn = "orders-0: WARN, commits, but the lag never falls: 6000 records to read"
    groups = [
        group_row("healthy", "OK", "orders-0: no more to read than is allowed", 0, 2),
        group_row("lagging", "WARN", warn, 6000, 2),
        group_row(EVIL, "OK", "clicks-0: no more to read than is allowed", 0, 1),
    ]
    risks = [{"group": "healthy", "topic": "orders", "partition": 0, "lag": 0, "verdict": "safe"}]
    if not well:
        groups.append(group_row("stopped", "ERR", error, 4000, 0))
        risks.append(
            {"group": "stopped", "topic": "orders", "partition": 0, "lag": 4_000,
             "slack_ms": 5 * HOUR_MS, "loss_at_ms": AT_MS + 5 * HOUR_MS, "verdict": "at_risk"}
        )  # fmt: skip
    held = [{"m-1": [0, 1, 2, 3]}, {"m-1": [0, 1], "m-2": [2, 3]}]
    made = [
        generation_rows("healthy", 110, 1, held[0], joined=["m-1"], trigger="member.joined"),
        generation_rows("healthy", 70, 2, held[1], joined=["m-2"], moved=2, partitions=4),
        generation_rows("lagging", 100, 1, {"slow-consumer-7f3a": [0]}),
        *(
            generation_rows("lagging", 31 - number / 2, number + 2,
                            held[number % 2], storm=True) for number in range(6)
        ),
    ]  # fmt: skip
    write(out, "tables", schema.STATUS, groups)
    covered = {"at_ms": AT_MS, "window_ms": HOUR_MS, "cluster_id": "AbC", "input": "kafka:9092",
               "first_log_ms": ago(500), "read_ms": ago(1), "notes": []}  # fmt: skip
    write(out, "tables", schema.COVERAGE, [covered])
    write(out, "tables", schema.LAG, [{"group": "healthy", "at_ms": AT_MS}])
    write(out, "tables", schema.REBALANCES, [] if calm else [one[2] for one in made])
    write(out, "tables", schema.GROUP_GENERATIONS, [one[0] for one in made])
    write(out, "tables", schema.GROUP_MEMBERS, [row for one in made for row in one[1]])
    write(out, "tables", schema.DATA_LOSS_FORECAST, risks)
    expiry = {"group": "stopped", "topic": "orders", "partition": 0, "committed_offset": 8000,
              "expires_ms": AT_MS + 150 * HOUR_MS, "expires_in_ms": 150 * HOUR_MS,
              "skipped_by_latest": 4000, "repeated_by_earliest": 8000}  # fmt: skip
    never = {"group": "healthy", "topic": "orders", "partition": 0, "base": "never"}
    write(out, "tables", schema.OFFSET_EXPIRY_FORECAST, [expiry, never])
    litter = {"group": "console-consumer-48213", "reasons": ["litter_name"], "silent_ms": HOUR_MS,
              "lag": 20, "log_bytes": 180}  # fmt: skip
    evil = {"group": EVIL, "reasons": ["topic_gone"], "silent_ms": 0, "last_client_id": EVIL}
    write(out, "tables", schema.ABANDONED_GROUPS, [litter, evil])
    skew = {"group": "lagging", "member_id": "m-2", "partitions": 2, "lag": 5900,
            "verdicts": ["slow_member"]}  # fmt: skip
    fine = {"group": "lagging", "member_id": "m-1", "partitions": 2, "lag": 100, "verdicts": []}
    write(out, "tables", schema.MEMBER_SKEW, [skew, fine])
    lost = {"log_partition": 0, "log_offset": 7, "reason": "unknown record type 99"}
    write(out, "tables", schema.DEAD_LETTERS, [lost])
    _bronze(out)
    return out


def _bronze(out: Path) -> None:
    """Write 100 records per minute and the commits of the groups.

    `lagging` reads half of the records, and `stopped` none for the last forty minutes.
    """
    records = [
        {"topic": "orders", "partition": 0, "offset": number,
         "timestamp_ms": BEGIN_MS + number * 600} for number in range(12_000)
    ]  # fmt: skip
    log = [
        *commits("healthy", "orders", 119, 0, [100 * number for number in range(1, 121)]),
        *commits("lagging", "orders", 119, 0, [50 * number for number in range(1, 121)]),
        *commits("stopped", "orders", 119, 40, [100 * number for number in range(1, 81)]),
    ]
    write(out, "bronze", schema.TOPIC_RECORDS, records)
    write(out, "bronze", schema.OFFSETS_LOG, log)
