"""How long each reader has made no progress while records wait, and how long it may do so.

A reader makes progress when its position changes. Records wait from the moment at which the log end
rises above the position plus the allowed lag. Silence has its own limit, which is usually much
shorter than the window of rates: twice the time that the reader usually lets records wait, but at
least `patience_ms` and at most the window. The usual time is the second longest wait within the
window, so that a single stall, once over, does not delay the report of the next one; two long waits
do, until they leave the window. If no wait is known, the limit is a tenth of the window, but at
least `patience_ms`; for an empty group it is `patience_ms`. A group of a periodic job is empty
between jobs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline.tables.columns import PARTITION, READER
from pipeline.tables.kept import by_partition, kept
from pipeline.tables.log_ends import is_gap, time_in_gap
from pipeline.tables.positions import in_window, positions
from pipeline.tables.readers import standing_groups
from pipeline.tables.standings import standings

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


@kept
def stalls(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `standings` with the progress of each reader.

    Added columns: `progress_ms` (when the reader took its position), `passed_ms` (when the log end
    rose above the position plus the allowed lag; null if no record shows the time), `stalled_ms`
    (time without progress while records wait), `usual_ms` (usual time; null if no wait is known),
    `limit_ms` (see above), `is_stalled`, and `is_still`: whether the reader has stalled if no lag
    is allowed. Rates use `is_still`, because the allowed lag matters only for verdicts.
    """
    groups = standing_groups(bronze, questions).select("group", "members", "state_timestamp_ms")
    empty = pl.col("members") == 0
    stalled_ms = _stalled_ms(questions, empty, "passed_ms")
    still_ms = _stalled_ms(questions, empty, "passed_any_ms")
    lag, limit_ms = pl.col("lag"), _limit_ms(questions, empty, "usual_ms")
    is_stalled = (lag > questions.allowed_lag) & (stalled_ms > limit_ms)
    is_still = (lag > 0) & (still_ms > _limit_ms(questions, empty, "usual_any_ms"))
    return (
        standings(bronze, questions)
        .join(progress(bronze, questions), on=READER, how="left")
        .join(groups, on="group", how="left")
        .with_columns(
            stalled_ms=stalled_ms,
            limit_ms=limit_ms,
            is_stalled=is_stalled.fill_null(value=False),
            is_still=is_still.fill_null(value=False),
        )
        .drop("members", "state_timestamp_ms", "passed_any_ms", "usual_any_ms")
    )


def _stalled_ms(questions: Questions, empty: pl.Expr, passed_ms: str) -> pl.Expr:
    return questions.at_ms - pl.max_horizontal(
        "progress_ms",
        pl.when(pl.col("lag") > 0).then(passed_ms),
        pl.when(empty).then("state_timestamp_ms"),
    )


def _limit_ms(questions: Questions, empty: pl.Expr, usual_ms: str) -> pl.Expr:
    least_ms = min(questions.patience_ms, questions.window_ms)
    unknown_ms = pl.when(empty).then(least_ms).otherwise(max(least_ms, questions.window_ms // 10))
    return (2 * pl.col(usual_ms)).clip(least_ms, questions.window_ms).fill_null(unknown_ms)


@by_partition
def progress(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `READER`, `progress_ms`, `passed_ms`, `usual_ms` as in `stalls`.

    `passed_any_ms` and `usual_any_ms` are `passed_ms` and `usual_ms` if no lag is allowed.
    """
    at_ms, before = pl.col("commit_timestamp_ms"), pl.col("previous_offset")
    changes = (
        positions(bronze, questions)
        .filter(pl.col("committed_offset").ne_missing(before))
        # The rows of a reader are adjacent, and only the first row of a reader has no previous
        # offset. So `shift` reads the row before or after of the same reader.
        .with_columns(
            prior_ms=pl.when(before.is_not_null()).then(at_ms.shift()),
            is_current=before.shift(-1).is_null(),
        )
        .filter(in_window(questions) | pl.col("is_current"))
    )
    passed = _passed(bronze)
    of_any = _waits(changes, passed, 0)
    names = {"passed_any_ms": "passed_ms", "usual_any_ms": "usual_ms"}
    if not questions.allowed_lag:
        return of_any.with_columns(**names)
    of_any = of_any.select(*READER, **names)
    return _waits(changes, passed, questions.allowed_lag).join(of_any, on=READER, how="left")


def _waits(changes: pl.LazyFrame, passed: pl.LazyFrame, allowed_lag: int) -> pl.LazyFrame:
    """Return `READER`, `progress_ms`, `passed_ms`, `usual_ms` for the allowed lag."""
    at_ms = pl.col("commit_timestamp_ms")
    current = changes.filter("is_current").select(
        *READER, progress_ms=at_ms, offset=pl.col("committed_offset") + allowed_lag
    )
    taken = changes.select(
        *READER, "commit_timestamp_ms", "prior_ms", offset=pl.col("previous_offset") + allowed_lag
    )
    wait_ms = at_ms - pl.max_horizontal("prior_ms", "passed_ms")
    known = pl.col("prior_ms").is_not_null() & pl.col("passed_ms").is_not_null()
    usual_ms = pl.when(known).then(wait_ms.clip(lower_bound=0)).drop_nulls().top_k(2).min()
    usual = _joined(taken, passed).group_by(READER).agg(usual_ms=usual_ms)
    return (
        _joined(current, passed)
        .join(usual, on=READER, how="left")
        .select(*READER, "progress_ms", "passed_ms", "usual_ms")
    )


def _passed(bronze: Bronze) -> pl.LazyFrame:
    """Return `PARTITION`, `next_offset`, `passed_ms`: when the log end rose above known offsets.

    This is the least timestamp of the records from the offset on, since each of them put the log
    end above it. `from_ms`, `before_offset` and `before_ms` are for `time_in_gap`.
    """
    at_ms, passed_ms = pl.col("timestamp_ms"), pl.col("timestamp_ms").cum_min(reverse=True)
    return (
        bronze.topic_records.filter(at_ms.is_not_null() | pl.col("from_ms").is_not_null())
        .sort("offset")
        .select(
            *PARTITION,
            "from_ms",
            next_offset="offset",
            passed_ms=passed_ms.over(PARTITION),
            before_offset=pl.col("offset").shift(1).over(PARTITION),
            before_ms=at_ms.shift(1).over(PARTITION),
        )
    )


def _joined(places: pl.LazyFrame, passed: pl.LazyFrame) -> pl.LazyFrame:
    """Return `places` with `passed_ms`: when the log end rose above `offset`, if this is known."""
    return (
        places.sort("offset")
        .join_asof(
            passed,
            left_on="offset",
            right_on="next_offset",
            by=PARTITION,
            strategy="forward",
            coalesce=False,
            check_sortedness=False,
        )
        .with_columns(
            passed_ms=pl.when(is_gap("offset"))
            .then(pl.coalesce(time_in_gap("offset"), "from_ms"))
            .otherwise("passed_ms")
        )
        .drop("next_offset", "from_ms", "before_offset", "before_ms")
    )
