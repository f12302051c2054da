"""Read the tables of a run as plain rows, and replay the lag of the groups that are shown.

Parquet is read with pyarrow, only the rows that are shown, so that a report on many groups stays
small. The log end at a commit is replayed as in `log_ends`: the log end at an instant is one more
than the greatest offset among the records with a timestamp up to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pipeline import schema
from pipeline.decode.kinds import COMMIT
from pipeline.inputs import of_current_topics
from pipeline.schema.arrow import arrow_schema, polars_schema
from pipeline.tables.columns import owned

TableRow = dict[str, Any]
Place = tuple[str, int]

POINTS = 300
"""The maximum number of points of a line; more would not be visible."""

_BETWEEN = 20

_ENDS = {
    "topic": pl.String, "partition": pl.Int32, "topic_id": pl.String, "log_end": pl.Int64,
}  # fmt: skip


class NoReportError(Exception):
    """There is no data for a report. The text names the missing data."""


@dataclass(frozen=True)
class Line:
    """A group's lag over time: times in ms, lag in records summed over its partitions."""

    group: str
    times_ms: list[int]
    lags: list[int]


class Output:
    """The folder that `run --out` wrote. Raises NoReportError if it has no tables."""

    def __init__(self, out: Path) -> None:
        self._out = out
        # Resolve the link once, so that all tables are of the same version.
        complete = sorted(out.glob("versions/[0-9]*/_complete"))
        # A folder `tables` beside complete versions is of an older release.
        is_linked = (out / "tables").is_symlink() or not complete
        self._tables = (out / "tables").resolve() if is_linked else complete[-1].parent
        if not self._tables.is_dir():
            raise NoReportError(f"{out} holds no tables: run the pipeline with --out {out} first")

    def rows(self, table: schema.Table, condition: pc.Expression | None = None) -> list[TableRow]:
        """Return the rows of a table that match, in key order; none if the table does not exist."""
        rows = self._read(self._tables / table.name, table, condition)
        rows.sort(key=lambda row: tuple((row[name] is not None, row[name]) for name in table.key))
        return rows

    def any_row(self, table: schema.Table) -> TableRow | None:
        """Return one row of a table, for values that are the same in all rows; None if empty."""
        data = self._dataset(self._tables / table.name, table)
        rows = [] if data is None else data.head(1, columns=table.names).to_pylist()
        return rows[0] if rows else None

    def owners(self) -> dict[tuple[str, str, int], TableRow]:
        """Return the member of each assigned partition, by group, topic and partition.

        If several members own a partition, as in share groups, the one with the least id is taken.
        """
        generations = self._frame(schema.GROUP_GENERATIONS, "group", "log_offset", "event")
        last = pl.col("log_offset") == pl.col("log_offset").max().over("group")
        current = generations.filter(last & (pl.col("event") == "generation"))
        names = ("member_id", "client_id", "client_host")
        members = self._frame(schema.GROUP_MEMBERS, "group", "log_offset", "assigned", *names)
        members = members.join(current, on=["group", "log_offset"]).sort("member_id")
        return {
            (row["group"], row["topic"], row["partition"]): row
            for row in owned(members.reverse().lazy(), "group", *names)
            .collect()
            .iter_rows(named=True)
        }

    def _frame(self, table: schema.Table, *names: str) -> pl.DataFrame:
        """Return columns of a table."""
        rows = self._table(self._tables / table.name, table, None)
        if rows is None:
            return pl.DataFrame(schema=polars_schema(table)).select(names)
        frame = pl.from_arrow(rows.select(list(names)))
        assert isinstance(frame, pl.DataFrame)
        return frame

    @property
    def at_ms(self) -> int | None:
        """Return the instant of the tables; None if no table has it."""
        row = self.any_row(schema.COVERAGE) or self.any_row(schema.LAG)
        return None if row is None else row["at_ms"]

    def lines(self, groups: list[str], from_ms: int, at_ms: int) -> list[Line]:
        """Return the replayed lag of each group over time; groups without commits are left out."""
        if not groups:
            return []
        commits = self._read(
            self._out / "bronze" / "offsets_log",
            schema.OFFSETS_LOG,
            (pc.field("kind") == COMMIT)
            & pc.field("group").isin(groups)
            & (pc.field("log_timestamp_ms") <= at_ms),
        )
        commits.sort(key=lambda row: row["log_offset"])
        ends_now = self._ends_now()
        ids = {place: row["topic_id"] for place, row in ends_now.items()}
        # Commits of a deleted topic of the same name do not count.
        commits = [
            row
            for row in commits
            if ids.get((row["topic"], row["partition"])) in (None, row["topic_id"])
            or row["topic_id"] is None
        ]
        ends = self._ends(sorted({row["topic"] for row in commits}), ends_now)
        return [
            line
            for group in groups
            if (line := _line(group, commits, ends, from_ms, at_ms)).times_ms
        ]

    def _ends_now(self) -> dict[Place, TableRow]:
        """Return the last read end of each partition."""
        rows = self._read(self._last(schema.PARTITION_ENDS), schema.PARTITION_ENDS, None)
        return {(row["topic"], row["partition"]): row for row in rows}

    def _last(self, table: schema.Table) -> Path:
        """Return the folder of the last batch of a bronze table that is replaced as a whole."""
        folder = self._out / "bronze" / table.name
        batches = sorted(folder.glob("batch=*"))
        return batches[-1] if batches else folder

    def _ends(
        self, topics: list[str], ends_now: dict[Place, TableRow]
    ) -> dict[Place, tuple[Any, Any]]:
        """Return, for each partition, times in rising order and the log end from each time on.

        Bronze lacks the records of open transactions: the log end rises evenly from the last stable
        offset, at the begin of the transaction, to its known value. The same holds between records
        whose times were sampled.
        """
        if not topics:  # pyarrow cannot compare strings with an empty list, whose type is null
            return {}
        wanted = pc.field("topic").isin(topics)
        records = self._table(
            self._out / "bronze" / "topic_records",
            schema.TOPIC_RECORDS,
            wanted & pc.field("timestamp_ms").is_valid(),
        )
        sampled = self._table(self._last(schema.OFFSET_TIMES), schema.OFFSET_TIMES, wanted)
        tables = [*([] if sampled is None else [_evenly(sampled)]), *([records] if records else [])]
        records = pa.concat_tables(tables) if tables else None
        ends = {
            place: _held_back(row)
            for place, row in ends_now.items()
            if place[0] in topics and row["held_since_ms"] is not None
        }
        if records is None or not records.num_rows:
            return ends
        records = _of_current_topics(records, ends_now)
        records = records.sort_by([("topic", "ascending"), ("partition", "ascending")])
        names = records["topic"].to_numpy(zero_copy_only=False)
        numbers = records["partition"].to_numpy()
        times, offsets = records["timestamp_ms"].to_numpy(), records["offset"].to_numpy()
        changes = (names[1:] != names[:-1]) | (numbers[1:] != numbers[:-1])
        borders = [0, *(np.flatnonzero(changes) + 1), len(names)]
        for begin, end in pairwise(borders):
            if begin == end:
                continue
            place = str(names[begin]), int(numbers[begin])
            held = ends.get(place, (np.zeros(0, np.int64), np.zeros(0, np.int64)))
            when = np.concatenate([times[begin:end], held[0]])
            order = np.argsort(when, kind="stable")
            reached = np.concatenate([offsets[begin:end] + 1, held[1]])
            ends[place] = (when[order], np.maximum.accumulate(reached[order]))
        return ends

    def _read(
        self, folder: Path, table: schema.Table, condition: pc.Expression | None
    ) -> list[TableRow]:
        rows = self._table(folder, table, condition)
        return [] if rows is None else list(rows.to_pylist())

    def _table(self, folder: Path, table: schema.Table, condition: pc.Expression | None) -> Any:
        data = self._dataset(folder, table)
        return None if data is None else data.to_table(columns=table.names, filter=condition)

    @staticmethod
    def _dataset(folder: Path, table: schema.Table) -> Any:
        if not folder.is_dir():
            return None
        # The column `day` is only in the names of the folders (day=...), not in the files.
        columns = arrow_schema(table)
        folders = pa.schema([columns.field(name) for name in table.partitioned_by])
        hive = ds.partitioning(folders, flavor="hive") if table.partitioned_by else "hive"
        return ds.dataset(folder, columns, format="parquet", partitioning=hive)


def _held_back(row: TableRow) -> tuple[Any, Any]:
    """Return times, and the log end at each, since the open transaction of a partition began."""
    times = np.linspace(row["held_since_ms"], row["sampled_at_ms"], POINTS).astype(np.int64)
    return times, np.linspace(row["last_stable_offset"], row["log_end"], POINTS).astype(np.int64)


def _evenly(sampled: Any) -> Any:
    """Return sampled records, and `_BETWEEN` more between two of them, at an even pace."""
    frame = pl.from_arrow(sampled)
    assert isinstance(frame, pl.DataFrame)
    place = ("topic", "partition", "topic_id")
    before = pl.coalesce("timestamp_ms", "from_ms").shift().over(place)
    span_ms, rise = pl.col("from_ms") - pl.col("before_ms"), pl.col("offset") - pl.col("before")
    step = pl.col("step")
    between = (
        frame.sort("offset")
        .with_columns(before_ms=before, before=(pl.col("offset") + 1).shift().over(place))
        .filter(pl.col("before_ms").is_not_null())
        .join(pl.DataFrame({"step": range(1, _BETWEEN + 1)}), how="cross")
        .with_columns(
            timestamp_ms=pl.col("before_ms") + span_ms * step // _BETWEEN,
            offset=pl.col("before") + rise * step // _BETWEEN - 1,
        )
    )
    known = frame.filter(pl.col("timestamp_ms").is_not_null())
    made = pl.concat([known, between.select(frame.columns)])
    return made.to_arrow().cast(arrow_schema(schema.OFFSET_TIMES))


def _of_current_topics(records: Any, ends_now: dict[Place, TableRow]) -> Any:
    """Return the records without those of deleted topics of the same name."""
    ends = [{name: row[name] for name in _ENDS} for row in ends_now.values()]
    frame = pl.from_arrow(records)
    assert isinstance(frame, pl.DataFrame)
    return of_current_topics(frame.lazy(), pl.LazyFrame(ends, _ENDS)).collect().to_arrow()


def _line(
    group: str, commits: list[TableRow], ends: dict[Place, tuple[Any, Any]], from_ms: int,
    at_ms: int,
) -> Line:  # fmt: skip
    """Return the sum of the lags of all partitions at evenly spaced instants."""
    times = np.linspace(from_ms, at_ms, POINTS).astype(np.int64)
    total, known = np.zeros(POINTS, np.int64), np.zeros(POINTS, bool)
    places = sorted({(row["topic"], row["partition"]) for row in commits if row["group"] == group})
    for place in places:
        if place not in ends:
            continue
        own = [
            row
            for row in commits
            if row["group"] == group and (row["topic"], row["partition"]) == place
        ]
        # After a removal (-1) there is no committed offset until the next commit.
        at = np.array([row["commit_timestamp_ms"] or row["log_timestamp_ms"] for row in own])
        at = np.maximum.accumulate(at)
        offsets = np.array([-1 if row["tombstone"] else row["committed_offset"] for row in own])
        which = np.searchsorted(at, times, side="right") - 1
        committed = np.where(which >= 0, offsets[which], -1)
        moments, log_ends = ends[place]
        written = np.searchsorted(moments, times, side="right") - 1
        end = np.where(written >= 0, log_ends[written], -1)
        both_known = (committed >= 0) & (end >= 0)
        total += np.where(both_known, np.maximum(end - committed, 0), 0)
        known |= both_known
    return Line(group, times[known].tolist(), total[known].tolist())
