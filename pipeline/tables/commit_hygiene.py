"""Table `commit_hygiene`: how often groups commit, and how many commits are useless or stale.

The window is `(at_ms - window_ms, at_ms]`, by the commit timestamp, or by the record's timestamp
for removals. The previous commit, with which a commit is compared, may lie before the window. Only
groups with a commit or a removal in the window have a row.

`stale_commits` compares a commit with the generation whose record precedes the commit in the log,
because the log has the order in which the coordinator accepted both. A commit counts as fine if it
lies before the first known generation, or if its generation has no members or an unreadable
assignment. `stale_commits` is null for KIP-848 groups: their members move to an epoch one by one,
and the broker itself rejects a commit with an old epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.decode.kinds import CLASSIC, COMMIT, EPOCH
from pipeline.tables.columns import KEY, decoded_records, owned

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `commit_hygiene`."""
    records = decoded_records(bronze, questions).filter(pl.col("group").is_not_null())
    commits = _with_generation(_windowed(records, questions), records)
    judged = commits.join(
        _owned(records, commits), on=["group", "generation_at", "topic", "partition"], how="left"
    )
    commit = ~pl.col("tombstone")
    offset, before = pl.col("committed_offset"), pl.col("before")
    stale = pl.col("readable") & pl.col("owner").is_null()
    commit_count, keys = pl.col("commits"), pl.col("keys")
    return (
        judged.group_by("group")
        .agg(
            commits=_how_many(commit),
            noop_commits=_how_many(commit & (offset == before)),
            rewinds=_how_many(commit & (offset < before)),
            tombstones=_how_many(pl.col("tombstone")),
            log_bytes=pl.col("record_bytes").cast(pl.Int64).sum(),
            keys=_how_many(pl.col("last") & commit),
            stale_commits=pl.when(~pl.col("modern").any()).then(_how_many(commit & stale)),
            max_metadata_bytes=pl.col("metadata").str.len_bytes().max().cast(pl.Int32),
        )
        .with_columns(
            commits_per_second=commit_count / (questions.window_ms / 1000),
            write_amplification=commit_count / pl.when(keys > 0).then(keys),
        )
        .select(schema.COMMIT_HYGIENE.names)
    )


def _windowed(records: pl.LazyFrame, questions: Questions) -> pl.LazyFrame:
    """Return the commits and removals of the window in log order.

    `before` is the previously committed offset; `last` is true for the last record of its key.
    """
    at_ms = pl.coalesce("commit_timestamp_ms", "log_timestamp_ms")
    return (
        records.filter(pl.col("kind") == COMMIT)
        .sort("log_offset")
        .with_columns(
            before=pl.col("committed_offset").shift().over(KEY),
            last=pl.col("log_offset").shift(-1).over(KEY).is_null(),
        )
        .filter(at_ms > questions.at_ms - questions.window_ms)
    )


def _with_generation(commits: pl.LazyFrame, records: pl.LazyFrame) -> pl.LazyFrame:
    """Return `commits`, each with the generation or epoch whose record precedes it in the log.

    `generation_at` is the log offset of this record, null if there is none. `readable` is true if
    the record has members and all their assignments. `modern` is true if the record is an epoch's.
    """
    classic = pl.col("kind") == CLASSIC
    exists = ~pl.col("tombstone")
    assigned = pl.element().struct.field("assigned")
    readable = pl.col("members").list.eval(assigned.is_not_null()).list.all()
    generations = records.filter(pl.col("kind").is_in([CLASSIC, EPOCH])).select(
        "group",
        generation_at="log_offset",
        readable=classic & exists & (pl.col("members").list.len() > 0) & readable,
        modern=~classic & exists,
    )
    # All records of a group lie in one partition of the log, so offsets give their order.
    return commits.join_asof(
        generations.sort("generation_at"),
        left_on="log_offset",
        right_on="generation_at",
        by="group",
        coalesce=False,
        check_sortedness=False,
    )


def _owned(records: pl.LazyFrame, commits: pl.LazyFrame) -> pl.LazyFrame:
    """Return (group, generation_at, topic, partition) of each owned partition.

    Only the generations that occur in `commits` are included.
    """
    place = ("group", "generation_at")
    members = (
        records.filter(pl.col("kind") == CLASSIC)
        .select("group", "members", generation_at="log_offset")
        .join(commits.select(place), on=place, how="semi")
        .explode("members", keep_nulls=False)
        .unnest("members")
    )
    return owned(members, *place).unique().with_columns(owner=True)


def _how_many(condition: pl.Expr) -> pl.Expr:
    return condition.sum().cast(pl.Int64)
