"""Verdict on each group and partition: Burrow's rules, with the repairs that its users asked for.

Notation: commits (c_i, k_i) of the window, the last one (c_N, k_N) wherever it lies, allowed lag A,
the instant n, log end e(t). The first rule that holds decides:

1. Lag at n <= A: OK. A lag that is not known (no commit, no topic) cannot be judged: OK, in words.
2. No live member and no commit for `group_expires_ms`: OK, expired. `abandoned_groups` has it.
3. Live members, but none subscribes to the topic any more: OK, left behind.
4. STOP: nobody reads the partition and records beyond A have waited for too long.
5. REWIND: c_N lies below a commit of the window (or the last one before it).
6. STALL: a live consumer stays at c_N; either it commits c_N again and again for a tenth of the
   window with more than A to read all the time, or it commits nothing for a whole window.
7. WARN: more than A to read at every commit, and in the tenths of the window that have a commit (at
   least three of them), the lag at the last commit of each never falls and ends above where it
   began.
8. OK.

What differs from Burrow, and why (numbers are issues of linkedin/Burrow):

* The window is time, not ten commits, and no commit is dropped for following another too soon
  (#171, #182). Tenths of the window take the place of the ten samples in rule 7 only.
* e(k_i) is replayed from the records, and lag at n is that of n, never that of the last commit
  (#287, #446).
* Waiting is counted from when the log end passed c_N + A or from k_N, whichever is later, not from
  the last commit alone: a consumer of a quiet topic is not late before there is something to read
  (#94, #140, #185).
* "Too long" is Burrow's k_N - k_1, but with a floor of ten seconds and a ceiling of the window;
  with fewer than two commits in the window it is the distance of the last two, with one commit in
  all the window. So neither a burst of commits (#237) nor a long quiet (#303) sets the patience.
* A group that the log shows to be empty is not given more than a tenth of the window, counted
  from when it became empty too: whether it will commit again is no guess then (#303).
* A live member that owns the partition rules STOP out (#237): it may be busy with what it has. If
  the group has members that subscribe to the topic and none owns the partition, nobody reads it.
* A rewind that was made up for is none.
* A lag that stays what it was is no trend: who commits a second late has it for ever.

`members` is null for a group that never had any: standalone consumers, of which the log knows
nothing but their commits; for them patience decides. A member counts as live until the log says
otherwise, which it does when its session ends.

The row of a group (topic and partition null) carries the worst partition's rule and evidence; its
lags at commits are null, as they belong to partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.tables.kept import kept
from pipeline.tables.log_ends import ends_at
from pipeline.tables.positions import GROUP, commits_that_live, in_window
from pipeline.tables.readers import standing_groups
from pipeline.tables.standings import standings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions

MIN_PATIENCE_MS = 10_000
"""Nothing is called stopped before that: brokers and consumers take a moment."""

SLICES = 10
"""Parts of the window: Burrow keeps ten commits."""

WARN_SLICES = 3
"""A trend needs three points."""

_OF_LAST = ("last_order", "last_commit_ms", "previous_ms", "end_then")
KEY = ("group", "topic", "partition")
_SEVERITY = {"OK": 0, "WARN": 1, "STALL": 2, "STOP": 3, "REWIND": 4}


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """The table `status`."""
    partitions = _partitions(bronze, questions)
    names = schema.STATUS.names
    return partitions.select(*names).unionByName(_groups(partitions).select(*names))


@kept
def _partitions(bronze: Bronze, questions: Questions) -> DataFrame:
    """The rows of partitions, each with its verdict; groups are judged by them."""
    standing = standings(bronze, questions).where(sql.col("source") == GROUP).drop("source")
    evidence = _evidence(bronze, questions)
    groups = standing_groups(bronze, questions)
    owned = groups.select("group", sql.explode("assigned").alias("one"))
    waiting = _waiting(bronze, questions, standing)
    joined = (
        waiting.join(evidence, list(KEY), "left")
        .join(
            owned.select("group", "one.*").distinct().withColumn("owned", sql.lit(True)),
            list(KEY),
            "left",
        )
        .join(
            groups.select("group", "members", "state_timestamp_ms", "subscribed"), "group", "left"
        )
        .withColumn("allowed_lag", sql.lit(questions.allowed_lag).cast("bigint"))
        .withColumn("window_ms", sql.lit(questions.window_ms).cast("bigint"))
        .withColumn("commits", sql.coalesce("commits", sql.lit(0).cast("bigint")))
    )
    return _judged(joined, questions)


def _evidence(bronze: Bronze, questions: Questions) -> DataFrame:
    """What the commits of each key show: one row a key that holds."""
    key = Window.partitionBy(*KEY)
    changed = ~sql.col("committed_offset").eqNullSafe(sql.col("previous_offset"))
    commits = commits_that_live(bronze, questions).select(
        *KEY, "log_offset", "committed_offset", "previous_offset", "commit_timestamp_ms", "is_last"
    )
    commits = (
        commits.withColumn("inside", in_window(questions))
        .withColumn("previous_ms", sql.lag("commit_timestamp_ms").over(key.orderBy("log_offset")))
        # The run of equal commits at the end begins at the last change.
        .withColumn("run_offset", sql.max(sql.when(changed, sql.col("log_offset"))).over(key))
        .where(sql.col("inside") | sql.col("is_last"))
    )
    # Nobody asks for the log end at a commit that the rules do not look at.
    asked = commits.withColumn("t_ms", sql.col("commit_timestamp_ms"))
    slices = _with_lag(ends_at(bronze, asked), questions).groupBy(*KEY, "slice")
    return _of_keys(slices.agg(*_aggregates()))


def _with_lag(commits: DataFrame, questions: Questions) -> DataFrame:
    """The lag at each commit, and which tenth of the window it lies in."""
    zero = sql.lit(0).cast("bigint")
    begin_ms = questions.at_ms - questions.window_ms
    slice_ = sql.floor(
        (sql.col("commit_timestamp_ms") - begin_ms - 1) * SLICES / questions.window_ms
    )
    unread = sql.col("log_end") - sql.col("committed_offset")
    lag = sql.when(unread.isNotNull(), sql.greatest(unread, zero))
    return (
        commits.withColumn("lag_then", lag)
        .withColumn("slice", slice_)
        .withColumn("run", sql.col("log_offset") >= sql.col("run_offset"))
    )


def _aggregates() -> list[Column]:
    """Of the commits of one slice; lags of the last commit before the window do not count."""
    inside, order = sql.col("inside"), sql.col("log_offset")
    lag = sql.when(inside, sql.col("lag_then"))
    backwards = sql.col("committed_offset") < sql.col("previous_offset")
    run = inside & sql.col("run")
    at_ms = sql.col("commit_timestamp_ms")
    # Numbers only: an aggregate of structs would be done by sorting all commits.
    last = {"last_order": order, "last_commit_ms": at_ms, "previous_ms": sql.col("previous_ms"),
            "end_then": sql.col("log_end")}  # fmt: skip
    return [
        sql.count(sql.when(inside, 1)).alias("commits"),
        sql.min(sql.when(inside, at_ms)).alias("first_ms"),
        *(sql.max(sql.when(sql.col("is_last"), one)).alias(name) for name, one in last.items()),
        sql.min(lag).alias("min_lag"),
        sql.max(lag).alias("max_lag"),
        sql.min_by(lag, sql.when(inside, order)).alias("first_lag"),
        sql.min(sql.when(inside, order)).alias("first_order"),
        sql.max_by(lag, sql.when(lag.isNotNull(), order)).alias("slice_lag"),
        sql.max(
            sql.when(inside, sql.greatest("committed_offset", "previous_offset"))
        ).alias("highest"),
        sql.max(sql.when(inside & backwards, order)).alias("backwards_at"),
        sql.min(sql.when(run, at_ms)).alias("run_ms"),
        sql.min(sql.when(run, lag)).alias("run_min_lag"),
    ]  # fmt: skip


def _of_keys(slices: DataFrame) -> DataFrame:
    """The slices of each key together."""
    tenths = sql.sort_array(
        sql.collect_list(
            sql.when(sql.col("slice_lag").isNotNull(), sql.struct("slice", "slice_lag"))
        )
    )
    # A fall is where a tenth's lag lies below the one before.
    falls = sql.exists(
        sql.transform(
            "tenths",
            lambda one, index: one["slice_lag"] < sql.get("tenths", index - 1)["slice_lag"],
        ),
        lambda fallen: sql.coalesce(fallen, sql.lit(False)),
    )
    # A steady lag is that of every consumer that reads in turns: a pipe, not a leak.
    rises = (
        sql.get("tenths", sql.size("tenths") - 1)["slice_lag"]
        > sql.get("tenths", sql.lit(0))["slice_lag"]
    )
    return (
        slices.groupBy(*KEY)
        .agg(
            sql.sum("commits").alias("commits"),
            sql.min("first_ms").alias("first_commit_ms"),
            *(sql.max(name).alias(name) for name in _OF_LAST),
            sql.min("min_lag").alias("min_lag"),
            sql.max("max_lag").alias("max_lag"),
            sql.min_by("first_lag", "first_order").alias("first_lag"),
            sql.max("highest").alias("highest"),
            sql.max("backwards_at").alias("backwards_at"),
            sql.min("run_ms").alias("run_ms"),
            sql.min("run_min_lag").alias("run_min_lag"),
            tenths.alias("tenths"),
        )
        .withColumn("rising", (sql.size("tenths") >= WARN_SLICES) & ~falls & rises)
        .drop("tenths")
    )


def _waiting(bronze: Bronze, questions: Questions, standing: DataFrame) -> DataFrame:
    """`standing` with `passed_ms`: when the log end rose above c_N + A, if the records tell.

    The least timestamp of the records at or above c_N + A: any of them put the log end there.
    """
    names = [name for name in standing.columns if name not in ("topic", "partition")]
    asked = standing.select(
        "topic",
        "partition",
        (sql.col("committed_offset") + questions.allowed_lag).alias("_offset"),
        sql.struct(*names).alias("_row"),
    )
    records = bronze.topic_records.select(
        "topic", "partition", sql.col("offset").alias("_offset"), "timestamp_ms"
    )
    downwards = (
        Window.partitionBy("topic", "partition")
        .orderBy(sql.col("_offset").desc_nulls_last(), sql.col("_row").isNotNull())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        asked.unionByName(records, allowMissingColumns=True)
        .withColumn("passed_ms", sql.min("timestamp_ms").over(downwards))
        .where(sql.col("_row").isNotNull())
        .select("topic", "partition", "_row.*", "passed_ms")
    )


def _judged(joined: DataFrame, questions: Questions) -> DataFrame:
    """The verdicts, each rule a column first: a table to read, and for Spark to plan."""
    at_ms, window_ms, allowed = questions.at_ms, questions.window_ms, questions.allowed_lag
    tenth_ms = window_ms // SLICES
    members = sql.coalesce("members", sql.lit(0))
    # Members of which it cannot be read what they subscribe to or own may own it.
    subscribed = sql.coalesce(sql.array_contains("subscribed", sql.col("topic")), sql.lit(True))
    unreadable = sql.col("subscribed").isNull()
    read_by = (members > 0) & (unreadable | sql.col("owned").isNotNull())
    empty = sql.col("members") == 0
    span_ms = sql.col("last_commit_ms") - sql.when(
        sql.col("commits") >= 2, sql.col("first_commit_ms")
    ).otherwise(sql.col("previous_ms"))
    patience_ms = sql.greatest(
        sql.least(sql.coalesce(span_ms, sql.lit(window_ms)), sql.lit(window_ms)),
        sql.lit(MIN_PATIENCE_MS),
    )
    since_ms = sql.greatest("last_commit_ms", sql.when(sql.col("lag") > 0, sql.col("passed_ms")))
    empty_ms = sql.when(empty, sql.greatest(since_ms, sql.col("state_timestamp_ms"))).otherwise(
        since_ms
    )
    run_ms = sql.col("last_commit_ms") - sql.col("run_ms")
    repeats = (run_ms >= tenth_ms) & (sql.col("run_min_lag") > allowed)
    backwards = sql.col("backwards_at").isNotNull() & (
        sql.col("committed_offset") < sql.col("highest")
    )
    framed = (
        joined.withColumn("read_by", read_by)
        .withColumn("waited_ms", sql.lit(at_ms) - empty_ms)
        .withColumn(
            "patience_ms",
            sql.when(empty, sql.least(patience_ms, sql.lit(tenth_ms))).otherwise(patience_ms),
        )
        .withColumn(
            "expired", sql.lit(at_ms) - sql.col("last_commit_ms") > questions.group_expires_ms
        )
        .withColumn("left_behind", (members > 0) & ~unreadable & ~subscribed)
        .withColumn("repeats", sql.coalesce(repeats, sql.lit(False)))
        .withColumn("silent", (sql.col("commits") == 0) & (sql.col("waited_ms") >= window_ms))
        .withColumn("backwards", sql.coalesce(backwards, sql.lit(False)))
        .withColumn("behind", sql.col("min_lag") > allowed)
    )
    return _with_evidence(framed.withColumn("verdict", _verdict(allowed)), questions)


def _verdict(allowed: int) -> Column:
    """The rules in order, each with what it says."""
    lag, waited = sql.col("lag"), sql.col("waited_ms")
    nobody = ~sql.col("read_by")
    reader = (
        sql.when(sql.col("members").isNull(), "a standalone consumer committed nothing more")
        .when(sql.col("members") == 0, "the group is empty")
        .otherwise("no member owns the partition")
    )
    seconds = sql.format_string("%d s", sql.floor(waited / 1000))
    behind = sql.format_string("%d records to read", lag)
    rules = (
        (sql.col("state") == "NO_COMMIT", "OK", sql.lit("no commit to judge by")),
        (sql.col("state") == "NO_TOPIC", "OK", sql.lit("the topic is not known")),
        (lag <= allowed, "OK", sql.lit("no more to read than is allowed")),
        (
            (sql.coalesce("members", sql.lit(0)) == 0) & sql.col("expired"),
            "OK",
            sql.lit("expired: nobody committed for long, see abandoned_groups"),
        ),
        (sql.col("left_behind"), "OK", sql.lit("no member subscribes to the topic any more")),
        (
            nobody & (waited > sql.col("patience_ms")),
            "STOP",
            sql.concat(reader, sql.lit(" while "), behind, sql.lit(" wait for "), seconds),
        ),
        (
            sql.col("backwards"),
            "REWIND",
            sql.concat(sql.lit("committed below where it was, and did not come back: "), behind),
        ),
        (
            sql.col("repeats"),
            "STALL",
            sql.concat(sql.lit("commits the same offset again with "), behind),
        ),
        (
            sql.col("read_by") & sql.col("silent"),
            "STALL",
            sql.concat(sql.lit("a live member committed nothing while "), behind,
                       sql.lit(" wait for "), seconds),
        ),
        (
            sql.col("behind") & sql.col("rising"),
            "WARN",
            sql.concat(sql.lit("commits, but the lag never falls: "), behind),
        ),
    )  # fmt: skip
    said = [sql.when(holds, _said(status, words)) for holds, status, words in rules]
    return sql.coalesce(*said, _said("OK", sql.concat(sql.lit("on its way: "), behind)))


def _said(status: str, words: Column) -> Column:
    return sql.struct(
        sql.lit(_SEVERITY[status]).alias("severity"),
        sql.lit(status).alias("status"),
        words.alias("rule"),
    )


def _with_evidence(judged: DataFrame, questions: Questions) -> DataFrame:
    zero = sql.lit(0).cast("bigint")
    risen = sql.col("log_end") - sql.col("end_then")
    spanned = (sql.col("last_commit_ms") - sql.col("first_commit_ms")) / questions.window_ms
    rewound = sql.col("verdict.status") == "REWIND"
    return (
        judged.withColumn("status", sql.col("verdict.status"))
        .withColumn("severity", sql.col("verdict.severity"))
        .withColumn("rule", sql.col("verdict.rule"))
        .withColumn("produced_since_commit", sql.when(risen.isNotNull(), sql.greatest(risen, zero)))
        .withColumn("complete", sql.when(sql.col("commits") > 0, spanned).otherwise(0.0))
        .withColumn(
            "evidence_offset",
            sql.when(rewound, sql.col("backwards_at")).otherwise(sql.col("last_order")),
        )
    )


def _groups(partitions: DataFrame) -> DataFrame:
    """One row a group: as bad as its worst partition, the first of the worst by name."""
    unknown = sql.lit(None)
    worst_first = sql.struct(
        (-sql.col("severity")).alias("severity"), sql.col("topic"), sql.col("partition"),
        sql.col("status"), sql.col("rule"), sql.col("evidence_offset"),
    )  # fmt: skip
    place = sql.concat(
        sql.col("worst.topic"), sql.lit("-"), sql.col("worst.partition"), sql.lit(": "),
        sql.when(sql.col("worst.severity") < 0, sql.concat("worst.status", sql.lit(", ")))
        .otherwise(""), sql.col("worst.rule"),
    )  # fmt: skip
    return (
        partitions.groupBy("group", "allowed_lag", "window_ms", "members")
        .agg(
            sql.min(worst_first).alias("worst"),
            sql.sum("lag").alias("lag"),
            sql.sum("commits").alias("commits"),
            sql.min("complete").alias("complete"),
            sql.min("first_commit_ms").alias("first_commit_ms"),
            sql.max("last_commit_ms").alias("last_commit_ms"),
            sql.sum("produced_since_commit").alias("produced_since_commit"),
        )
        .withColumn("topic", unknown.cast("string"))
        .withColumn("partition", unknown.cast("int"))
        .withColumn(
            "status",
            sql.when(sql.col("worst.severity") <= -2, "ERR").otherwise(sql.col("worst.status")),
        )
        .withColumn("rule", place)
        .withColumn("evidence_offset", sql.col("worst.evidence_offset"))
        .withColumn("first_lag", unknown.cast("bigint"))
        .withColumn("min_lag", unknown.cast("bigint"))
        .withColumn("max_lag", unknown.cast("bigint"))
    )
