"""Table `status`: a verdict on each group and partition, by amended rules of Burrow.

Notation: commits (c_i, k_i) of the window (offset, time), the last commit (c_N, k_N) at any time,
allowed lag A, the instant n, log end e(t). The first rule that holds decides:

1. c_N above e(n): WARN, since one of them belongs to another log. Lag at n <= A: OK. An unknown lag
   (no commit, no topic) cannot be judged: OK, and `rule` says so.
2. No live member and no commit for `group_expires_ms`: OK, expired. `abandoned_groups` lists the
   group.
3. Live members, none of which subscribes to the topic any more: OK, left behind. Only offsets
   without data, such as markers of transactions, are left: OK. An open transaction at the last
   stable offset, with no committed record left to read: WARN once it is open for three times the
   patience, as it may hang; until then OK, since the reader is not at fault. A member was assigned
   a topic id without a known name (KIP-848), so that it may own this partition: OK, and `rule` says
   so.
4. STOP: no member reads the partition, and records beyond A have waited longer than the limit since
   the last commit.
5. REWIND: c_N is below a commit of the window, or below the last one before the window.
6. STALL: records beyond A have waited longer than the limit while the reader made no progress. It
   either commits c_N again and again, or has a live member that commits nothing.
7. WARN: the lag rises, over the window or over the patience: it is above A at every commit, and the
   lag at the last commit of each tenth of the span never falls and ends above its first value. The
   rise must exceed what is written on average between two of these commits, or the oldest unread
   record beyond A must be older than the patience.
8. OK. If the reader will be a STOP or STALL unless it makes progress, `rule` says so once it is
   slower than usual; if the lag rose within the patience, `rule` says by how much.

The limit of rules 4 and 6 is usually much shorter than the window, see `pipeline.tables.stalls`.

Differences from Burrow, and their reasons (numbers are issues of linkedin/Burrow):

* The window is a time span, not ten commits, and no commit is dropped for following another too
  soon (#171, #182). Tenths of the window replace Burrow's ten samples, in rule 7 only.
* e(k_i) is replayed from the records, and the lag at n is the lag at n, not at the last commit
  (#287, #446).
* Waiting starts when the log end passed c_N + A or at k_N, whichever is later. A consumer of a
  quiet topic is not late before it has something to read (#94, #140, #185).
* The allowed silence is twice the time that this reader usually lets records wait, but at least the
  patience (#24). Neither a burst of commits (#237) nor a long quiet time (#303) sets it.
* For a group that the log shows as empty, the allowed silence starts when the group became empty,
  and is the patience if no wait is known (#303). A periodic job may be silent for two periods.
* A partition that a live member owns is never STOP (#237): the member may be busy with the records
  that it has. If the group has members that subscribe to the topic and none owns the partition, the
  partition is not read.
* A rewind after which the group caught up again is not a REWIND.
* A constant lag is not a trend: a consumer that commits a second late always has this lag. Nor is a
  small rise: commits and the producer's batches have different periods, and traffic has its hours.

`members` is null for a group that never had any. The log has only the commits of such standalone
consumers, so only the allowed silence decides. A member counts as live until the log removes it, at
the latest when its session ends.

The row of a group (topic and partition null) has the rule and evidence of its worst partition. Its
lags at commits are null, as these belong to partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.tables.columns import KEY
from pipeline.tables.kept import by_partition, kept
from pipeline.tables.log_ends import ends_at
from pipeline.tables.positions import GROUP, commits_that_live, in_window
from pipeline.tables.readers import assignments, standing_groups, subscriptions
from pipeline.tables.stalls import stalls

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

MIN_PATIENCE_MS = 10_000
"""How long records may wait before `rule` says that it is too early to judge."""

HANGS_PATIENCES = 3
"""The patience with an open transaction, which may hang, as a multiple of the patience."""

SLICES = 10
"""The number of parts of the window, as Burrow keeps ten commits."""

WARN_SLICES = 3
"""The least number of parts with a commit for a trend over the window."""

WARN_SLICES_NOW = 6
"""The same for a trend over the patience, whose lags vary more."""

EARLY = "too early to judge"
"""The start of the `rule` of a partition that may soon be a STOP."""

_SEVERITY = {"OK": 0, "WARN": 1, "STALL": 2, "STOP": 3, "REWIND": 4}


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `status`."""
    partitions = _partitions(bronze, questions)
    names = schema.STATUS.names
    return pl.concat([partitions.select(names), _groups(partitions).select(names)])


@kept
def _partitions(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the rows of partitions with their verdicts. The rows of groups are made from these."""
    standing = stalls(bronze, questions).filter(pl.col("source") == GROUP).drop("source")
    groups = standing_groups(bronze, questions)
    joined = (
        standing.join(evidence(bronze, questions), on=KEY, how="left")
        .join(assignments(groups).unique().with_columns(owned=True), on=KEY, how="left")
        .join(
            groups.select(
                "group",
                "members",
                "state_timestamp_ms",
                unreadable=pl.col("subscribed").is_null(),
                unresolved=pl.col("unresolved") > 0,
            ),
            on="group",
            how="left",
        )
        .join(subscriptions(groups), on=("group", "topic"), how="left")
        .with_columns(
            pl.col("commits").fill_null(0),
            pl.col("owned", "is_subscribed").fill_null(value=False),
            allowed_lag=pl.lit(questions.allowed_lag, pl.Int64),
            window_ms=pl.lit(questions.window_ms, pl.Int64),
        )
    )
    return _judged(joined, questions)


@by_partition
def evidence(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return one row per existing key with what its commits show.

    Columns: `KEY`; of the commits in the window `commits` (their number), `first_commit_ms`,
    `first_lag`, `min_lag`, `max_lag`, `highest` (offset), `backwards_at` (`log_offset` of the last
    commit below the one before), `rises`, `rises_now` and the same with `_much` (see `_trend`); of
    the last commit at any time `last_order`, `last_commit_ms` and `end_then` (log end);
    `recent_lag`, the lag at the first commit within the patience.
    """
    commits = (
        commits_that_live(bronze, questions)
        .select(
            *KEY,
            "log_offset",
            "committed_offset",
            "previous_offset",
            "commit_timestamp_ms",
            "is_last",
            inside=in_window(questions),
        )
        # The rules use only these commits, so only these commits need a log end.
        .filter(pl.col("inside") | pl.col("is_last"))
        .with_columns(t_ms=pl.col("commit_timestamp_ms"))
    )
    unread = pl.col("log_end") - pl.col("committed_offset")
    lags = ends_at(bronze, commits).with_columns(
        # The lag is null for a last commit that lies before the window.
        lag=pl.when("inside").then(unread.clip(lower_bound=0))
    )
    of_keys = lags.group_by(KEY).agg(_aggregates(questions))
    long = _trend(lags, questions, questions.window_ms, WARN_SLICES, "rises")
    short = _trend(lags, questions, questions.patience_ms, WARN_SLICES_NOW, "rises_now")
    return of_keys.join(long, on=KEY, how="left").join(short, on=KEY, how="left")


def _aggregates(questions: Questions) -> list[pl.Expr]:
    """Return the aggregations of `evidence` over the commits of one key."""
    order, at_ms, lag = pl.col("log_offset"), pl.col("commit_timestamp_ms"), pl.col("lag")
    backwards = pl.col("committed_offset") < pl.col("previous_offset")
    inside_order = pl.when("inside").then(order)
    is_recent = pl.col("inside") & (at_ms > questions.at_ms - questions.patience_ms)
    last = {"last_order": order, "last_commit_ms": at_ms, "end_then": pl.col("log_end")}
    return [
        pl.col("inside").sum().cast(pl.Int64).alias("commits"),
        pl.when("inside").then(at_ms).min().alias("first_commit_ms"),
        *(pl.when("is_last").then(value).max().alias(name) for name, value in last.items()),
        lag.min().alias("min_lag"),
        lag.max().alias("max_lag"),
        lag.get(inside_order.arg_min()).alias("first_lag"),
        lag.get(pl.when(is_recent).then(order).arg_min()).alias("recent_lag"),
        pl.when("inside")
        .then(pl.max_horizontal("committed_offset", "previous_offset"))
        .max()
        .alias("highest"),
        pl.when(backwards).then(inside_order).max().alias("backwards_at"),
    ]


def _trend(
    lags: pl.LazyFrame, questions: Questions, span_ms: int, least: int, name: str
) -> pl.LazyFrame:
    """Return KEY; as `name`, whether the lag rises over the last `span_ms`, in tenths; `name_much`.

    The lag rises if at least `least` tenths have a commit, and the lag at the last commit of each
    never falls from tenth to tenth and ends above its start. Only keys with more than the allowed
    lag at every commit of the span have a row. A constant lag does not rise: every consumer that
    reads in batches has one. The lag rises much if it rises by more than the log end rises on
    average from one of these commits to the next.
    """
    lag, log_end = pl.col("lag"), pl.col("log_end")
    since_ms = pl.col("commit_timestamp_ms") - (questions.at_ms - span_ms) - 1
    never_falls, risen = (lag.diff() >= 0).all(), lag.last() - lag.first()
    return (
        lags.filter(lag.is_not_null() & (since_ms >= 0))
        .filter(lag.min().over(KEY) > questions.allowed_lag)
        .group_by(*KEY, slice=since_ms * SLICES // span_ms)
        .agg(pl.col("lag", "log_end").get(pl.col("log_offset").arg_max()))
        .sort("slice")
        .group_by(KEY)
        .agg(
            ((pl.len() >= least) & never_falls & (risen > 0)).alias(name),
            (risen * (pl.len() - 1) > log_end.last() - log_end.first()).alias(f"{name}_much"),
        )
    )


def _judged(joined: pl.LazyFrame, questions: Questions) -> pl.LazyFrame:
    """Return `joined` with the verdicts; the conditions of the rules become columns first."""
    at_ms = questions.at_ms
    is_live, empty = pl.col("members") > 0, pl.col("members") == 0
    last_ms, passed_ms = pl.col("last_commit_ms"), pl.col("passed_ms")
    since_ms = pl.max_horizontal(
        last_ms,
        pl.when(pl.col("lag") > 0).then("passed_ms"),
        pl.when(empty).then("state_timestamp_ms"),
    )
    is_late = at_ms - passed_ms > questions.patience_ms
    rewound = pl.col("committed_offset") < pl.col("highest")
    stable = pl.col("last_stable_offset").fill_null(pl.col("log_end"))
    # Every known record lies below the position, so the unread offsets have no data.
    no_data = (pl.col("last_offset") < pl.col("committed_offset")) & (stable >= pl.col("log_end"))
    framed = joined.with_columns(
        # A member with an unreadable subscription or assignment may own the partition.
        read_by=(
            is_live & (pl.col("unreadable") | pl.col("owned") | pl.col("unresolved"))
        ).fill_null(value=False),
        held=(
            (pl.col("last_stable_offset") < pl.col("log_end"))
            & (pl.col("committed_offset") <= pl.col("last_stable_offset"))
            & passed_ms.is_null()
        ).fill_null(value=False),
        no_data=no_data.fill_null(value=False),
        held_ms=at_ms - pl.col("held_since_ms"),
        owner_unknown=(is_live & pl.col("unresolved") & ~pl.col("owned")).fill_null(value=False),
        waited_ms=at_ms - since_ms,
        expired=at_ms - last_ms > questions.group_expires_ms,
        left_behind=is_live & ~pl.col("unreadable") & ~pl.col("is_subscribed"),
        commits_on=at_ms - last_ms <= pl.col("limit_ms"),
        backwards=pl.col("backwards_at").is_not_null() & rewound,
        rising=pl.any_horizontal(
            pl.col(name) & (pl.col(f"{name}_much") | is_late) for name in ("rises", "rises_now")
        ).fill_null(value=False),
        last_lag=pl.col("end_then") - pl.col("committed_offset"),
    )
    return _with_evidence(framed.with_columns(_verdict(questions)), questions)


def _verdict(questions: Questions) -> list[pl.Expr]:
    """Return status, severity and rule of the first rule that holds."""
    behind = pl.format("{} records to read", "lag")
    # Nest the conditions from the last rule to the first, so that the first rule is tested first.
    status, severity, rule = (
        pl.lit("OK"),
        pl.lit(_SEVERITY["OK"]),
        pl.format("on its way: {}", behind),
    )
    for holds, name, words in reversed(_rules(questions)):
        status = pl.when(holds).then(pl.lit(name)).otherwise(status)
        severity = pl.when(holds).then(_SEVERITY[name]).otherwise(severity)
        rule = pl.when(holds).then(words).otherwise(rule)
    return [status.alias("status"), severity.alias("severity"), rule.alias("rule")]


def _held() -> pl.Expr:
    """Return a text: which producer holds back how many records, and for how long if known."""
    return pl.format(
        "an open transaction of {} holds back {} records{}",
        pl.col("held_by").fill_null("an unknown producer"),
        pl.col("log_end") - pl.col("last_stable_offset"),
        pl.format(" for {} s", pl.col("held_ms") // 1000).fill_null(""),
    )


def _ahead() -> tuple[pl.Expr, str, pl.Expr]:
    """Return the rule for a lag that is 0 only because the known log is too short.

    For a past instant, the log end is replayed by the clocks of producers, which may be late.
    """
    above = pl.col("committed_offset") - pl.col("log_end")
    words = "committed {} above the log end: the topic was created again, or this is no whole copy"
    return pl.col("state") == "AHEAD", "WARN", pl.format(words, above)


def _rules(questions: Questions) -> list[tuple[pl.Expr, str, pl.Expr]]:
    """Return the rules in order: the condition, the verdict, and the text for `rule`."""
    allowed, waited_ms, members = questions.allowed_lag, pl.col("waited_ms"), pl.col("members")
    reader = (
        pl.when(members.is_null())
        .then(pl.lit("a standalone consumer committed nothing more"))
        .when(members == 0)
        .then(pl.lit("the group is empty"))
        .otherwise(pl.lit("no member owns the partition"))
    )
    seconds = pl.format("{} s", waited_ms // 1000)
    stalled, limit_ms = pl.format("{} s", pl.col("stalled_ms") // 1000), pl.col("limit_ms")
    behind = pl.format("{} records to read", "lag")
    held, hangs_ms = _held(), HANGS_PATIENCES * questions.patience_ms
    return [
        (pl.col("state") == "NO_COMMIT", "OK", pl.lit("no commit to judge by")),
        (pl.col("state") == "NO_TOPIC", "OK", pl.lit("the topic is not known")),
        *([] if questions.past else [_ahead()]),
        (pl.col("lag") <= allowed, "OK", pl.lit("no more to read than is allowed")),
        (
            (members.fill_null(0) == 0) & pl.col("expired"),
            "OK",
            pl.lit("expired: nobody committed for long, see abandoned_groups"),
        ),
        (pl.col("left_behind"), "OK", pl.lit("no member subscribes to the topic any more")),
        (pl.col("no_data"), "OK", pl.lit("only offsets without data are left to read")),
        (pl.col("held") & (pl.col("held_ms") >= hangs_ms), "WARN", held),
        (pl.col("held"), "OK", held),
        (
            pl.col("owner_unknown"),
            "OK",
            pl.format("the owner is not known, as ids of topics have no name: {}", behind),
        ),
        (
            ~pl.col("read_by") & (waited_ms > limit_ms),
            "STOP",
            pl.format("{} while {} wait for {}", reader, behind, seconds),
        ),
        (
            pl.col("backwards"),
            "REWIND",
            pl.format("committed below where it was, and did not come back: {}", behind),
        ),
        (
            pl.col("is_stalled") & pl.col("commits_on"),
            "STALL",
            pl.format("commits the same offset again with {} for {}", behind, stalled),
        ),
        (
            pl.col("read_by") & pl.col("is_stalled"),
            "STALL",
            pl.format("a live member committed nothing while {} wait for {}", behind, stalled),
        ),
        (
            pl.col("rising"),
            "WARN",
            pl.format("commits, but the lag never falls: {}", behind),
        ),
        *_early(behind),
        (
            pl.col("last_lag") > pl.col("recent_lag"),
            "OK",
            pl.format("the lag rose from {} to {} records", "recent_lag", "lag"),
        ),
    ]


def _early(behind: pl.Expr) -> list[tuple[pl.Expr, str, pl.Expr]]:
    """Return the rules for readers that will be a STOP or STALL if they make no progress."""
    soon_ms = pl.max_horizontal(pl.lit(MIN_PATIENCE_MS, pl.Int64), 2 * pl.col("usual_ms"))
    cases = (
        ("STOP", "waited_ms", ~pl.col("read_by") & (pl.col("waited_ms") > MIN_PATIENCE_MS)),
        ("STALL", "stalled_ms", pl.col("stalled_ms") > soon_ms),
    )
    return [
        (
            holds,
            "OK",
            pl.format(
                "{}: {} wait for {} s, {} after {} s",
                pl.lit(EARLY),
                behind,
                pl.col(since) // 1000,
                pl.lit(verdict),
                pl.col("limit_ms") // 1000,
            ),
        )
        for verdict, since, holds in cases
    ]


def _with_evidence(judged: pl.LazyFrame, questions: Questions) -> pl.LazyFrame:
    risen = pl.col("log_end") - pl.col("end_then")
    spanned = (pl.col("last_commit_ms") - pl.col("first_commit_ms")) / questions.window_ms
    return judged.with_columns(
        produced_since_commit=risen.clip(lower_bound=0),
        complete=pl.when(pl.col("commits") > 0).then(spanned).otherwise(0.0),
        evidence_offset=pl.when(pl.col("status") == "REWIND")
        .then("backwards_at")
        .otherwise("last_order"),
    )


def _groups(partitions: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row per group, with its worst partition's verdict; ties go to the greatest lag."""
    worst = ("topic", "partition", "status", "severity", "rule", "evidence_offset")
    is_ok = pl.col("severity") == _SEVERITY["OK"]
    place = pl.format(
        "{}-{}: {}{}",
        "topic",
        "partition",
        pl.when(is_ok).then(pl.lit("")).otherwise(pl.format("{}, ", "status")),
        "rule",
    )
    return (
        partitions.sort(
            "severity",
            pl.col("lag").fill_null(-1),
            "topic",
            "partition",
            descending=[True, True, False, False],
        )
        .group_by("group")
        .agg(
            pl.first(*worst, "allowed_lag", "window_ms", "members"),
            *(
                pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name)
                for name in ("lag", "produced_since_commit")
            ),
            pl.sum("commits"),
            pl.min("complete", "first_commit_ms"),
            pl.max("last_commit_ms"),
        )
        .with_columns(
            pl.when(pl.col("severity") > _SEVERITY["WARN"])
            .then(pl.lit("ERR"))
            .otherwise("status")
            .alias("status"),
            rule=place,
        )
        # These columns apply to partitions only.
        .with_columns(
            topic=pl.lit(None, pl.String),
            partition=pl.lit(None, pl.Int32),
            first_lag=pl.lit(None, pl.Int64),
            min_lag=pl.lit(None, pl.Int64),
            max_lag=pl.lit(None, pl.Int64),
        )
    )
