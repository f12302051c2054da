"""Reduce the offsets log to the rows that tables about a later instant need.

The rows of a window stay as they are. Of older commits, few rows of each (group, topic, partition,
topic id) stay, and one removal of each (group, topic, partition): their number does not grow with
the history. All other records (generations, members, undecodable ones) stay; they are rare.

Reduced rows are rows of the offsets log, so tables are computed from them and from new rows in the
same way as from the whole log, and the result may be reduced again.
"""

from __future__ import annotations

import polars as pl

from pipeline.decode.kinds import COMMIT
from pipeline.tables.columns import KEY

_BUCKET = (*KEY, "topic_id")
"""Which topic of a name counts is known only when tables are made, so each topic id is reduced on
its own."""
_NEVER = 2**63 - 1
_BEGUN = "_begun"
"""The log offset of the first row of a key that stays together with all rows after it."""
_REMOVED = "_removed"


def reduced(log: pl.LazyFrame, since_ms: int) -> pl.LazyFrame:
    """Return the rows that are needed for instants whose window begins at `since_ms` or later.

    `log` has the columns of `schema.OFFSETS_LOG`, and all rows of some groups or the reduced rows.
    All tables are the same, except `offset_commits`, which lacks the rows that are left out.
    """
    at = pl.col("log_offset")
    is_commit = ((pl.col("kind") == COMMIT) & pl.col("problem").is_null()).fill_null(value=False)
    last_ms = pl.max_horizontal("commit_timestamp_ms", "log_timestamp_ms")
    is_late = (last_ms > since_ms).fill_null(value=True)
    commits = (
        log.filter(is_commit)
        .sort("log_offset")
        .with_columns(at.filter(is_late).min().over(KEY).fill_null(_NEVER).alias(_BEGUN))
    )
    removed = at.filter("tombstone").max().over(KEY).fill_null(-1)
    early = commits.filter(at < pl.col(_BEGUN)).with_columns(removed.alias(_REMOVED))
    kept = [
        log.filter(~is_commit),
        commits.filter(at >= pl.col(_BEGUN)),
        early.filter(at == pl.col(_REMOVED)),
        _names(early.filter(~pl.col("tombstone") & (at < pl.col(_REMOVED)))),
        _positions(early.filter(at > pl.col(_REMOVED))),
    ]
    return pl.concat([rows.drop(_BEGUN, _REMOVED, strict=False) for rows in kept])


def _names(removed: pl.LazyFrame) -> pl.LazyFrame:
    """Return a row per topic id of removed offsets: assignments of KIP-848 have no topic names."""
    at = pl.col("log_offset")
    return removed.filter(pl.col("topic_id").is_not_null() & (at == at.max().over(_BUCKET)))


def _positions(commits: pl.LazyFrame) -> pl.LazyFrame:
    """Return the last commit of each bucket, and the last two that changed the position.

    The time of the last change and the one before it show how long a reader made no progress. The
    rows that are left out are counted in `earlier_commits` of the next row that stays.
    """
    offset, at = pl.col("committed_offset"), pl.col("log_offset")
    changed = offset.ne_missing(offset.shift().over(_BUCKET))
    counted = (1 + pl.col("earlier_commits").fill_null(0)).cum_sum().over(_BUCKET)
    is_last = at == at.max().over(_BUCKET)
    is_recent = pl.col("_changed").cum_sum(reverse=True).over(_BUCKET) <= 2
    own = pl.col("_counted").diff().over(_BUCKET)
    return (
        commits.with_columns(_changed=changed, _counted=counted)
        .filter(is_last | (pl.col("_changed") & is_recent))
        .with_columns(earlier_commits=own.fill_null(pl.col("_counted")) - 1)
        .drop("_changed", "_counted")
    )
