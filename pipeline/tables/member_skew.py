"""Table `member_skew`: how evenly work is spread over the members of the current generation.

Figures of a member: partitions, load (records per second produced to its partitions), lag, and
records per second that it commits. A sum leaves out partitions with an unknown value, and is null
if the value is unknown for all of them. Figures of the group: coefficients of variation (population
standard deviation / mean), greatest load / mean load, and the Gini coefficient of the lag (0 if all
members have the same lag, towards 1 if one member has all of it). Figures of the group are null if
the mean is 0. Groups without members have no row.

Each verdict is in the row of the member that it is about:

* `idle`: the member has no partition. `too_many_members` is added if the group has more members
  than partitions.
* `assignment_skew`: the member has at least two partitions more than the member with the fewest.
* `key_skew`: the member has a hot partition, with more than 3/P of its topic's load (P partitions)
  or more than the median + 3 MAD of the topic. MAD, the median distance from the median, counts as
  at least a tenth of the median, so that partitions with nearly the same load are not hot.
* `slow_member`: the member has lag, at most 1.5 times the mean load, and consumes a share of its
  load that is less than half of the best member's share. The member is slow, not overloaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.tables import group_generations, group_members, rates
from pipeline.tables.columns import KEY, PLACE, owned

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

HOT_SHARE = 3
HOT_DEVIATIONS = 3
LEAST_DEVIATION = 0.1
NORMAL_LOAD = 1.5
SLOW = 0.5


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `member_skew`."""
    generations = group_generations.make(bronze, questions)
    current = group_generations.last_of_group(generations).filter(pl.col("members") > 0)
    members = group_members.make(bronze, questions).join(current, on=PLACE, how="semi")
    rated = rates.make(bronze, questions).select(
        *KEY, "produced_per_second", "consumed_per_second", "lag"
    )
    return of_members(members, rated)


def of_members(members: pl.LazyFrame, rated: pl.LazyFrame) -> pl.LazyFrame:
    """Return the table, from members of current generations and the rates of their partitions.

    `members` has the columns of `group_members`, `rated` (group, topic, partition,
    produced_per_second, consumed_per_second, lag).
    """
    # A member without partitions has load 0; a member with partitions of unknown load has load
    # null.
    sums = pl.col("load_per_second", "consumed_per_second", "lag")
    nothing = pl.when(pl.col("assigned_count") == 0).then(0)
    work = members.join(_loads(members, rated), on=["group", "member_id"], how="left").with_columns(
        sums.fill_null(nothing), partitions="assigned_count"
    )
    return _of_group(work).with_columns(verdicts=_verdicts()).select(schema.MEMBER_SKEW.names)


def _loads(members: pl.LazyFrame, rated: pl.LazyFrame) -> pl.LazyFrame:
    """Return sums over each member's partitions, and whether one of these partitions is hot."""
    topic = ("group", "topic")
    load, middle = pl.col("produced_per_second"), pl.col("middle")
    away = (load - middle).abs().median().over(topic)
    hot = (load * load.count().over(topic) > HOT_SHARE * load.sum().over(topic)) | (
        load > middle + HOT_DEVIATIONS * pl.col("deviation")
    )
    return (
        owned(members, "group", "member_id")
        .join(rated, on=KEY, how="left")
        .with_columns(middle=load.median().over(topic))
        .with_columns(deviation=pl.max_horizontal(away, middle * LEAST_DEVIATION))
        .with_columns(hot=hot)
        .group_by("group", "member_id")
        .agg(
            load_per_second=_sum_of_known("produced_per_second"),
            consumed_per_second=_sum_of_known("consumed_per_second"),
            lag=_sum_of_known("lag"),
            hot=pl.col("hot").any(),
        )
    )


def _sum_of_known(name: str) -> pl.Expr:
    """Return the sum of the non-null values; null if all values are null."""
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum())


def _of_group(work: pl.LazyFrame) -> pl.LazyFrame:
    """Return `work` with the figures of the whole group in each member's row."""
    number = pl.col("partitions")
    load, unread = pl.col("load_per_second"), pl.col("lag")
    known = unread.count()
    # Gini coefficient of x_1 <= ... <= x_n: 2 * sum(i x_i) / (n * sum(x)) - (n + 1) / n.
    ranked = (unread.rank("ordinal") * unread).sum()
    gini = _ratio(2 * ranked, known * unread.sum()) - _ratio(known + 1, known)
    # A member that rewinds has a negative rate, which counts as 0: the member makes no progress.
    pace = (pl.col("consumed_per_second").fill_null(0.0) / load).clip(0.0, 1.0)
    of_group = {
        "group_members": pl.len().cast(pl.Int32),
        "group_idle_members": (number == 0).sum().cast(pl.Int32),
        "group_partitions": number.sum(),
        "least_partitions": number.min(),
        "partitions_cv": _ratio(number.std(ddof=0), number.mean()),
        "load_cv": _ratio(load.std(ddof=0), load.mean()),
        "mean_load": load.mean(),
        "load_max_over_mean": _ratio(load.max(), load.mean()),
        "lag_gini": gini,
        "best": pl.col("keeps_up").max(),
    }
    return work.with_columns(keeps_up=pl.when(load > 0).then(pace)).with_columns(
        **{name: figure.over("group") for name, figure in of_group.items()}
    )


def _ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return `part` / `whole`; null if `whole` is 0."""
    return part / pl.when(whole != 0).then(whole)


def _verdicts() -> pl.Expr:
    number, load = pl.col("partitions"), pl.col("load_per_second")
    slow = (
        (pl.col("lag") > 0)
        & (load <= NORMAL_LOAD * pl.col("mean_load"))
        & (pl.col("keeps_up") < SLOW * pl.col("best"))
    )
    rules = {
        "assignment_skew": number - pl.col("least_partitions") > 1,
        "key_skew": pl.col("hot"),
        "slow_member": slow,
        "too_many_members": (number == 0) & (pl.col("group_members") > pl.col("group_partitions")),
        "idle": number == 0,
    }
    reasons = (pl.when(rule).then(pl.lit(name)) for name, rule in rules.items())
    return pl.concat_list(*reasons).list.drop_nulls()
