"""How evenly the work lies on the members of each group's current generation.

Of a member: partitions, load (records produced to them by the second), lag and what it commits by
the second; a sum leaves out partitions of which nothing is known, and is null if that is all of
them. Of the group: coefficients of variation (deviation over all members, not a sample), greatest
load by mean load, and the Gini coefficient of the lag: 0 when all have the same, towards 1 when
one has it all. They are null when the mean is 0. Groups without members have no row.

Verdicts, each at the members that it is about:

* `idle`: it has no partition. `too_many_members` beside it: there are more members than partitions.
* `assignment_skew`: it has at least two partitions more than the member with the least.
* `key_skew`: it has a partition that takes more than 3/P of its topic's load (P partitions), or
  more than the median + 3 MAD of them. MAD, the median distance from the median, is taken as at
  least a tenth of the median: among partitions of nearly the same load, nearly is enough.
* `slow_member`: it has lag and at most one and a half times the mean load, and keeps up with its
  load less than half as well as the best member does with its own: it, not its load, is the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, Window
from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.tables import group_generations, group_members, rates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.window import WindowSpec

    from pipeline.inputs import Bronze, Questions

HOT_SHARE = 3
HOT_DEVIATIONS = 3
LEAST_DEVIATION = 0.1
NORMAL_LOAD = 1.5
SLOW = 0.5

_PLACE = ("group", "log_partition", "log_offset")
_KEY = ("group", "topic", "partition")


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """The table `member_skew`."""
    generations = group_generations.make(bronze, questions)
    current = group_generations.last_of_group(generations).where(sql.col("members") > 0)
    members = group_members.make(bronze, questions).join(
        current.select(*_PLACE), list(_PLACE), "left_semi"
    )
    rated = rates.make(bronze, questions).select(
        *_KEY, "produced_per_second", "consumed_per_second", "lag"
    )
    return of_members(members, rated)


def of_members(members: DataFrame, rated: DataFrame) -> DataFrame:
    """The table, from members of current generations and rates of their partitions.

    `members` has the columns of `group_members`, `rated` (group, topic, partition,
    produced_per_second, consumed_per_second, lag).
    """
    work = members.join(_loads(members, rated), ["group", "member_id"], "left")
    # Without a partition there is no load; with some of which nothing is known it is unknown.
    for name in ("load_per_second", "consumed_per_second", "lag"):
        nothing = sql.when(sql.col("assigned_count") == 0, 0)
        work = work.withColumn(name, sql.coalesce(sql.col(name), nothing))
    return (
        _of_group(work.withColumn("partitions", sql.col("assigned_count")))
        .withColumn("verdicts", _verdicts())
        .select(*schema.MEMBER_SKEW.names)
    )


def _loads(members: DataFrame, rated: DataFrame) -> DataFrame:
    """Sums over each member's partitions, and whether one of them is hot."""
    owned = (
        members.select("group", "member_id", sql.explode("assigned").alias("one"))
        .select("group", "member_id", "one.topic", sql.explode("one.partitions").alias("partition"))
        .join(rated, list(_KEY), "left")
    )
    topic = Window.partitionBy("group", "topic")
    load = sql.col("produced_per_second")
    middle = sql.median(load).over(topic)
    away = sql.abs(load - sql.col("middle"))
    deviation = sql.greatest(sql.median(away).over(topic), sql.col("middle") * LEAST_DEVIATION)
    hot = (load * sql.count(load).over(topic) > HOT_SHARE * sql.sum(load).over(topic)) | (
        load > sql.col("middle") + HOT_DEVIATIONS * sql.col("deviation")
    )
    return (
        owned.withColumn("middle", middle)
        .withColumn("deviation", deviation)
        .withColumn("hot", hot)
        .groupBy("group", "member_id")
        .agg(
            sql.sum(load).alias("load_per_second"),
            sql.sum("consumed_per_second").alias("consumed_per_second"),
            sql.sum("lag").alias("lag"),
            sql.max("hot").alias("hot"),
        )
    )


def _of_group(work: DataFrame) -> DataFrame:
    """With what is true of the whole group on each of its members."""
    group = Window.partitionBy("group")
    upwards = group.orderBy(sql.col("lag").asc_nulls_last(), "member_id")
    number = sql.col("partitions")
    load, unread = sql.col("load_per_second"), sql.col("lag")
    known = sql.count(unread).over(group)
    # Of values in rising order, x_1 to x_n: 2 * sum(i x_i) / (n * sum(x)) - (n + 1) / n.
    ranked = sql.sum(sql.col("rank") * unread).over(group)
    total = sql.sum(unread).over(group)
    gini = sql.try_divide(2 * ranked, known * total) - sql.try_divide(known + 1, known)
    consumed = sql.coalesce("consumed_per_second", sql.lit(0.0))
    # Who goes back keeps up not at all; below 0 it would be slower than itself.
    pace = sql.greatest(sql.least(consumed / load, sql.lit(1.0)), sql.lit(0.0))
    keeps_up = sql.when(load > 0, pace)
    return (
        work.withColumn("rank", sql.row_number().over(upwards))
        .withColumn("group_members", sql.count("*").over(group).cast("int"))
        .withColumn(
            "group_idle_members", sql.count(sql.when(number == 0, 1)).over(group).cast("int")
        )
        .withColumn("group_partitions", sql.sum(number).over(group))
        .withColumn("least_partitions", sql.min(number).over(group))
        .withColumn("partitions_cv", _variation(number, group))
        .withColumn("load_cv", _variation(load, group))
        .withColumn("mean_load", sql.avg(load).over(group))
        .withColumn("load_max_over_mean", sql.try_divide(sql.max(load).over(group), "mean_load"))
        .withColumn("lag_gini", gini)
        .withColumn("keeps_up", keeps_up)
        .withColumn("best", sql.max("keeps_up").over(group))
    )


def _variation(value: Column, group: WindowSpec) -> Column:
    return sql.try_divide(sql.stddev_pop(value).over(group), sql.avg(value).over(group))


def _verdicts() -> Column:
    number, load = sql.col("partitions"), sql.col("load_per_second")
    slow = (
        (sql.col("lag") > 0)
        & (load <= NORMAL_LOAD * sql.col("mean_load"))
        & (sql.col("keeps_up") < SLOW * sql.col("best"))
    )
    rules = {
        "assignment_skew": number - sql.col("least_partitions") > 1,
        "key_skew": sql.col("hot"),
        "slow_member": slow,
        "too_many_members": (number == 0)
        & (sql.col("group_members") > sql.col("group_partitions")),
        "idle": number == 0,
    }
    return sql.array_compact(sql.array(*(sql.when(rule, name) for name, rule in rules.items())))
