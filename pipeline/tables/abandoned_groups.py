"""Groups that nobody seems to need, with the reasons; a group without a reason has no row.

* `empty_and_silent`: it has no member, and neither a commit nor a change of its state for
  `abandoned_after_ms`.
* `topic_gone`: it committed, and none of the topics that it committed to is known any more.
* `lag_grows_without_members`: it has no member; to a partition on which it did not commit within
  the window, records were written in that time.
* `litter_name`: it has no member, and its name is one that tools make up for a single use:
  a name with a random id in it. `litter_family` is the name without what is random, whoever uses
  it: `console-consumer-*`.

A group that was removed and holds no offset is gone, not abandoned. Standalone consumers have
offsets but never had members: `members` is null, and counts as none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.tables import current_offsets, group_generations, group_members, rates
from pipeline.tables.known import decoded_records
from pipeline.tables.positions import GROUP
from pipeline.tables.standings import standings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions

LITTER = (
    (r"^console-consumer-\d+$", "console-consumer-*"),
    (r"^perf-consumer-\d+$", "perf-consumer-*"),
    (r"^spark-kafka-(source|relation)-.+$", "spark-kafka-$1-*"),
    # A uuid with or without dashes, wherever it stands in the name.
    (r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{12}", "*"),
)
"""What random names look like, and what they have in common; the first that fits counts."""

_KEY = ("group", "topic", "partition")


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """The table `abandoned_groups`."""
    state = _states(bronze, questions)
    offsets = _offsets(bronze, questions)
    silent_ms = sql.lit(questions.at_ms) - sql.greatest("last_commit_ms", "changed_ms")
    return (
        state.join(offsets, "group", "full")
        .where(sql.col("stands") | (sql.col("partitions") > 0))
        .join(_leaders(bronze, questions), "group", "left")
        .join(_kept(bronze, questions), "group", "left")
        .withColumn("partitions", sql.coalesce("partitions", sql.lit(0)))
        .withColumn("silent_ms", silent_ms)
        .withColumn("litter_family", _litter_family())
        .withColumn("reasons", _reasons(questions))
        .where(sql.size("reasons") > 0)
        .select(*schema.ABANDONED_GROUPS.names)
    )


def _states(bronze: Bronze, questions: Questions) -> DataFrame:
    """Each group's last record of itself; `stands` is false if that removed it."""
    last = group_generations.last_of_group(group_generations.make(bronze, questions))
    stands = sql.col("event") != "tombstone"
    changed_ms = sql.coalesce("state_timestamp_ms", "log_timestamp_ms")
    return last.select(
        "group",
        stands.alias("stands"),
        "members",
        changed_ms.alias("changed_ms"),
        sql.when(sql.col("members") == 0, changed_ms).alias("empty_since_ms"),
    )


def _offsets(bronze: Bronze, questions: Questions) -> DataFrame:
    """Sums over the offsets that each group holds."""
    begin_ms = questions.at_ms - questions.window_ms
    silent = sql.col("commit_timestamp_ms") <= begin_ms
    grows = silent & (sql.col("lag") > 0) & (sql.col("produced_per_second") > 0)
    produced = rates.make(bronze, questions).select(*_KEY, "produced_per_second")
    lags = standings(bronze, questions).where(sql.col("source") == GROUP)
    return (
        current_offsets.make(bronze, questions)
        .select(*_KEY, "commit_timestamp_ms")
        .join(lags.select(*_KEY, "lag", "state"), list(_KEY), "left")
        .join(produced, list(_KEY), "left")
        .groupBy("group")
        .agg(
            sql.count("*").cast("int").alias("partitions"),
            sql.max("commit_timestamp_ms").alias("last_commit_ms"),
            sql.sum("lag").alias("lag"),
            sql.min(sql.col("state") == "NO_TOPIC").alias("topic_gone"),
            sql.max(grows).alias("grows"),
        )
    )


def _leaders(bronze: Bronze, questions: Questions) -> DataFrame:
    """Client id and host of the last leader; of the last member where none leads (KIP-848)."""
    order = sql.struct("log_offset", "is_leader", "member_id")
    client = sql.struct("client_id", "client_host")
    return (
        group_members.make(bronze, questions)
        .groupBy("group")
        .agg(sql.max_by(client, order).alias("client"))
        .select(
            "group",
            sql.col("client.client_id").alias("last_client_id"),
            sql.col("client.client_host").alias("last_client_host"),
        )
    )


def _kept(bronze: Bronze, questions: Questions) -> DataFrame:
    """Bytes that compaction leaves: the last record of each key, unless it is a removal."""
    last = sql.struct("tombstone", "record_bytes")
    return (
        decoded_records(bronze, questions)
        .where(sql.col("group").isNotNull())
        .groupBy("group", "kind", "topic", "partition", "member_id")
        .agg(sql.max_by(last, "log_offset").alias("last"))
        .groupBy("group")
        .agg(
            sql.sum(
                sql.when(sql.col("last.tombstone"), 0)
                .otherwise(sql.col("last.record_bytes"))
                .cast("bigint")
            ).alias("log_bytes")
        )
    )


def _litter_family() -> Column:
    group = sql.col("group")
    fitting = (
        sql.when(group.rlike(pattern), sql.regexp_replace(group, pattern, family))
        for pattern, family in LITTER
    )
    return sql.coalesce(*fitting)


def _reasons(questions: Questions) -> Column:
    nobody = sql.coalesce("members", sql.lit(0)) == 0
    rules = {
        "empty_and_silent": nobody & (sql.col("silent_ms") >= questions.abandoned_after_ms),
        "topic_gone": sql.col("topic_gone"),
        "lag_grows_without_members": nobody & sql.col("grows"),
        "litter_name": nobody & sql.col("litter_family").isNotNull(),
    }
    return sql.array_compact(sql.array(*(sql.when(rule, name) for name, rule in rules.items())))
