"""Table `abandoned_groups`: groups that seem unused, with reasons; others have no row.

* `empty_and_silent`: the group has no member, and for `abandoned_after_ms` neither a commit nor a
  change of state.
* `topic_gone`: the group has committed offsets, and none of their topics is known any more.
* `lag_grows_without_members`: the group has no member, and records were written within the window
  to a partition on which the group did not commit in this time.
* `litter_name`: the group has no member, and a name with a random part, as tools generate for a
  single use. `litter_family` is the name without the random part, such as `console-consumer-*`.

A removed group without offsets is gone, not abandoned. Standalone consumers have offsets but never
had members: `members` is null, and counts as 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.tables import current_offsets, group_generations, group_members, rates
from pipeline.tables.columns import KEY, decoded_records
from pipeline.tables.positions import GROUP
from pipeline.tables.standings import standings

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

_HEX = "[0-9a-fA-F]"
LITTER = (
    (r"^console-consumer-[0-9]+$", "console-consumer-*"),
    (r"^perf-consumer-[0-9]+$", "perf-consumer-*"),
    (r"^spark-kafka-(source|relation)-.+$", "spark-kafka-${1}-*"),
    # A uuid with or without dashes, anywhere in the name.
    (rf"{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}|{_HEX}{{32}}", "*"),
)
"""Patterns of generated group names, and the family of each; the first match counts."""


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `abandoned_groups`."""
    silent_ms = questions.at_ms - pl.max_horizontal("last_commit_ms", "changed_ms")
    return (
        _states(bronze, questions)
        .join(_offsets(bronze, questions), on="group", how="full", coalesce=True)
        .filter(pl.col("exists") | (pl.col("partitions") > 0))
        .join(_leaders(bronze, questions), on="group", how="left")
        .join(_kept(bronze, questions), on="group", how="left")
        .with_columns(
            pl.col("partitions").fill_null(0),
            silent_ms=silent_ms,
            litter_family=_litter_family(),
        )
        .with_columns(reasons=_reasons(questions))
        .filter(pl.col("reasons").list.len() > 0)
        .select(schema.ABANDONED_GROUPS.names)
    )


def _states(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return each group's last generation; `exists` is false if the group was removed."""
    last = group_generations.last_of_group(group_generations.make(bronze, questions))
    changed_ms = pl.coalesce("state_timestamp_ms", "log_timestamp_ms")
    return last.select(
        "group",
        "members",
        exists=pl.col("event") != "tombstone",
        changed_ms=changed_ms,
        empty_since_ms=pl.when(pl.col("members") == 0).then(changed_ms),
    )


def _offsets(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return sums over the committed offsets of each group."""
    lag = pl.col("lag")
    silent = pl.col("commit_timestamp_ms") <= questions.at_ms - questions.window_ms
    grows = silent & (lag > 0) & (pl.col("produced_per_second") > 0)
    produced = rates.make(bronze, questions).select(*KEY, "produced_per_second")
    lags = standings(bronze, questions).filter(pl.col("source") == GROUP)
    return (
        current_offsets.make(bronze, questions)
        .select(*KEY, "commit_timestamp_ms")
        .join(lags.select(*KEY, "lag", "state"), on=KEY, how="left")
        .join(produced, on=KEY, how="left")
        .group_by("group")
        .agg(
            partitions=pl.len().cast(pl.Int32),
            last_commit_ms=pl.col("commit_timestamp_ms").max(),
            lag=pl.when(lag.count() > 0).then(lag.sum()),
            topic_gone=(pl.col("state") == "NO_TOPIC").min(),
            grows=grows.any(),
        )
    )


def _leaders(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return client id and host of the last leader, or of a last member if none led (KIP-848)."""
    at = pl.col("log_offset")
    return (
        group_members.make(bronze, questions)
        .filter(at == at.max().over("group"))
        .sort("is_leader", "member_id")
        .group_by("group", maintain_order=True)
        .agg(
            last_client_id=pl.col("client_id").last(), last_client_host=pl.col("client_host").last()
        )
    )


def _kept(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the bytes that compaction keeps: each key's last record, unless a tombstone."""
    last = pl.col("tombstone", "record_bytes").get(pl.col("log_offset").arg_max())
    return (
        decoded_records(bronze, questions)
        .filter(pl.col("group").is_not_null())
        .group_by("group", "kind", "topic", "partition", "member_id")
        .agg(last)
        .group_by("group")
        .agg(
            log_bytes=pl.when("tombstone")
            .then(0)
            .otherwise(pl.col("record_bytes").cast(pl.Int64))
            .sum()
        )
    )


def _litter_family() -> pl.Expr:
    group = pl.col("group")
    fitting = (
        pl.when(group.str.contains(pattern)).then(group.str.replace_all(pattern, family))
        for pattern, family in LITTER
    )
    return pl.coalesce(*fitting)


def _reasons(questions: Questions) -> pl.Expr:
    is_empty = pl.col("members").fill_null(0) == 0
    rules = {
        "empty_and_silent": is_empty & (pl.col("silent_ms") >= questions.abandoned_after_ms),
        "topic_gone": pl.col("topic_gone"),
        "lag_grows_without_members": is_empty & pl.col("grows"),
        "litter_name": is_empty & pl.col("litter_family").is_not_null(),
    }
    reasons = (pl.when(rule).then(pl.lit(name)) for name, rule in rules.items())
    return pl.concat_list(*reasons).list.drop_nulls()
