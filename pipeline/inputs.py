"""The input of every table: the bronze frames, and the questions of this run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

EXACT, SAMPLED, NO_TIMES = "exact", "sampled", "none"
"""The values of `--time`: read the records of topics, ask for times of some records, or neither."""

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True)
class Bronze:
    """The bronze frames, with the columns of `schema.BRONZE`; any of them may be empty.

    `topic_records` has the rows of `offset_times`, too.

    `results` caches frames that several tables share, see `pipeline.tables.kept`.
    """

    offsets_log: pl.LazyFrame
    topic_records: pl.LazyFrame
    partition_ends: pl.LazyFrame
    group_events: pl.LazyFrame
    share_state: pl.LazyFrame
    spark_progress: pl.LazyFrame
    results: dict[tuple[str, Questions], pl.DataFrame] = field(
        default_factory=dict, init=False, repr=False
    )


def merged(frames: Mapping[str, pl.LazyFrame]) -> dict[str, pl.LazyFrame]:
    """Return the frames of `Bronze` from the tables of `schema.BRONZE`.

    Only rows of existing topics are kept, and none of partitions that were read without times.
    """
    import polars as pl

    others = dict(frames)
    rows = pl.concat([others.pop("topic_records"), others.pop("offset_times")])
    ends = others["partition_ends"]
    timeless = ends.filter(pl.col("time") == NO_TIMES).select("topic", "partition")
    counted = of_current_topics(rows, ends).join(timeless, on=("topic", "partition"), how="anti")
    return {**others, "topic_records": counted}


def of_current_topics(records: pl.LazyFrame, ends: pl.LazyFrame) -> pl.LazyFrame:
    """Return `topic_records` without those of deleted topics, whose topic id is another one.

    `ends` is `partition_ends`. Records above its log ends were written later and do not count.
    Rows of `offset_times`, which have `from_ms`, include the log end.
    Records and partitions without an id are kept, except records from
    the first offset on that the current topic has: these would count twice.
    """
    import polars as pl

    place = ("topic", "partition")
    ids = ends.select(*place, "log_end", current_id="topic_id")
    joined = records.join(ids, on=place, how="left", maintain_order="left")
    own, offset = pl.col("topic_id") == pl.col("current_id"), pl.col("offset")
    is_older = pl.col("topic_id").is_not_null() | (offset < offset.filter(own).min().over(place))
    is_written = (offset < pl.col("log_end")) | pl.col("from_ms").is_not_null()
    counts = (own, is_older, is_written)
    return joined.filter(*(condition.fill_null(value=True) for condition in counts)).drop(
        "log_end", "current_id"
    )


@dataclass(frozen=True)
class Questions:
    """The parameters of a run.

    All tables are about the instant `at_ms`; no table reads a clock. `past` is true if `at_ms` lies
    before the time at which the partition ends were read: log ends are then replayed from the
    records, and events after the instant do not count. Otherwise records of the offsets log after
    `read_ms`, if known, do not count: they were read later than the log ends. `window_ms` is for
    rates and history,
    `patience_ms` the least time without progress after which a reader is not healthy.
    """

    at_ms: int
    past: bool = False
    read_ms: int | None = None
    window_ms: int = HOUR_MS
    patience_ms: int = 2 * MINUTE_MS
    allowed_lag: int = 0
    group_expires_ms: int = 7 * DAY_MS
    offsets_retention_ms: int = 7 * DAY_MS
    offsets_check_interval_ms: int = 10 * MINUTE_MS
    abandoned_after_ms: int = DAY_MS
    storm_generations: int = 5
    storm_window_ms: int = 5 * MINUTE_MS
    loss_horizon_ms: int = DAY_MS
    replay_from_ms: int | None = None

    @property
    def until_ms(self) -> int | None:
        """Return the time of the last record of the offsets log that counts; None for all."""
        return self.at_ms if self.past else self.read_ms
