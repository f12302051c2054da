"""Members and epochs of KIP-848, share and streams groups, replayed from their records.

Such a group has no single record with all its members. It has one record per epoch (types 3, 11 and
17), one per member (5, 10, 19) and one per member's current assignment (8, 14, 22); the last record
of a key counts. Columns that a type of group does not have are null: members of share groups have
no instance id and no timeouts, members of streams groups have tasks in place of topics and
partitions.

A member counts for an epoch if its record is present when the epoch's record is written: a
heartbeat that adds or removes a member writes the member's record before the epoch's. Members move
to an epoch one after the other, so a member's assignment in an epoch is the last one that the
member reported before the next epoch began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.decode.kinds import ASSIGNMENTS, EPOCHS, MEMBERS, TARGETS
from pipeline.schema.arrow import polars_schema
from pipeline.tables.columns import assigned_count, decoded_records
from pipeline.tables.kept import kept
from pipeline.tables.readers import topic_names

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

_END = 2**63 - 1
_SAID = pl.Struct(
    {
        "instanceId": pl.String,
        "clientId": pl.String,
        "clientHost": pl.String,
        "subscribedTopicNames": pl.List(pl.String),
        "rebalanceTimeoutMs": pl.Int32,
        "classicMemberMetadata": pl.Struct({"sessionTimeoutMs": pl.Int32}),
    }
)
_REPORTED = pl.Struct(
    {
        "assignedPartitions": pl.List(
            pl.Struct(
                {
                    "topicId": pl.String,
                    "partitions": pl.List(pl.Int32),
                    "assignmentEpochs": pl.List(pl.Int32),
                }
            )
        )
    }
)
_COMPUTED = pl.Struct({"assignmentEpoch": pl.Int32, "assignmentTimestamp": pl.Int64})


def member_counts(records: pl.LazyFrame) -> pl.LazyFrame:
    """Return (group, log_partition, log_offset, members) of every epoch's record.

    `records` are decoded records. A member's record adds one to the count if the member was not
    present; its removal subtracts one.
    """
    present = ~pl.col("tombstone") & pl.col("kind").is_in(MEMBERS)
    was_present = present.shift(fill_value=False).over("group", "kind", "member_id")
    return (
        _in_order(records)
        .with_columns(change=present.cast(pl.Int32) - was_present.cast(pl.Int32))
        .with_columns(members=pl.col("change").cum_sum().over("group"))
        .filter(pl.col("kind").is_in(EPOCHS))
        .select("group", "log_partition", "log_offset", "members")
    )


def assignment_times(records: pl.LazyFrame) -> pl.LazyFrame:
    """Return (group, log_partition, log_offset, assigned_ms) of epochs with an assignment.

    `records` are decoded records. The assignment is computed after the epoch, and may skip epochs.
    A removed and recreated group counts its epochs from the beginning.
    """
    ends = pl.col("tombstone") & pl.col("kind").is_in(EPOCHS)
    lives = (
        records.filter(pl.col("kind").is_in([*EPOCHS, *TARGETS]) & pl.col("group").is_not_null())
        .sort("log_offset", "log_partition")
        .with_columns(life=ends.cum_sum().over("group"))
        .filter(~pl.col("tombstone"))
    )
    computed = (
        lives.filter(pl.col("kind").is_in(TARGETS))
        .select("group", "life", value=_value(_COMPUTED))
        .unnest("value")
        .group_by("group", "life", pl.col("assignmentEpoch").alias("generation"))
        .agg(pl.col("assignmentTimestamp").last().alias("assigned_ms"))
    )
    return (
        lives.filter(pl.col("kind").is_in(EPOCHS))
        .join(computed, on=["group", "life", "generation"])
        .select("group", "log_partition", "log_offset", "assigned_ms")
    )


@kept
def members(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return every member of every epoch, with the columns of `group_members`."""
    records = decoded_records(bronze, questions)
    numbered = _numbered(records)
    of_epoch = _memberships(numbered).join(_epochs(numbered), on=["group", "number"])
    assignments = _assignments(records, topic_names(bronze, questions))
    wanted = polars_schema(schema.GROUP_MEMBERS)
    return (
        _with_assignments(of_epoch, assignments)
        .with_columns(assigned_count=assigned_count(), is_leader=False, problem=None)
        .select(pl.col(name).cast(wanted[name]) for name in wanted)
    )


def _in_order(records: pl.LazyFrame) -> pl.LazyFrame:
    """Return the records of epochs and members in log order."""
    return records.filter(
        pl.col("kind").is_in([*EPOCHS, *MEMBERS]) & pl.col("group").is_not_null()
    ).sort("log_offset", "log_partition")


def _numbered(records: pl.LazyFrame) -> pl.LazyFrame:
    """Return the records of epochs and members; `number` is the group's count of epochs so far."""
    number = pl.col("kind").is_in(EPOCHS).cum_sum().over("group").cast(pl.Int64)
    return _in_order(records).with_columns(number=number)


def _epochs(numbered: pl.LazyFrame) -> pl.LazyFrame:
    """Return every epoch; `next_offset` is that of the next epoch or of the group's removal."""
    next_offset = pl.col("log_offset").shift(-1, fill_value=_END).over("group")
    return (
        numbered.filter(pl.col("kind").is_in(EPOCHS))
        .with_columns(next_offset=next_offset)
        .filter(~pl.col("tombstone"))
        .select("group", "number", "generation", "log_partition", "log_offset", "next_offset")
    )


def _memberships(numbered: pl.LazyFrame) -> pl.LazyFrame:
    """Return the fields of members' records, once for the `number` of each epoch they apply to."""
    until = pl.col("number").shift(-1).over("group", "kind", "member_id")
    last = pl.col("number").max().over("group")
    value = pl.col("value").struct
    classic = value.field("classicMemberMetadata").struct
    return (
        numbered.with_columns(until=pl.coalesce(until, last))
        .filter(pl.col("kind").is_in(MEMBERS) & ~pl.col("tombstone"))
        .with_columns(value=_value(_SAID))
        .select(
            "group",
            "member_id",
            value.field("instanceId").alias("group_instance_id"),
            value.field("clientId").alias("client_id"),
            value.field("clientHost").alias("client_host"),
            classic.field("sessionTimeoutMs").alias("session_timeout_ms"),
            value.field("rebalanceTimeoutMs").alias("rebalance_timeout_ms"),
            value.field("subscribedTopicNames").alias("subscribed_topics"),
            # A record applies to all epochs until the member's next record.
            pl.int_ranges(pl.col("number") + 1, pl.col("until") + 1).alias("number"),
        )
        .explode("number")
    )


def _assignments(records: pl.LazyFrame, names: pl.LazyFrame) -> pl.LazyFrame:
    """Return the partitions that members reported to own, with topic names in place of ids.

    `names` maps ids to names. An id without a name stays in place of the name, so that its
    partitions still count.
    """
    name = names.group_by("topic_id").agg(pl.max("topic"))
    topic = pl.coalesce("topic", "topicId").alias("topic")
    assigned = pl.struct(topic, "partitions").filter(pl.col("topicId").is_not_null())
    has_epochs = pl.col("assignmentEpochs").is_not_null()
    epochs = pl.struct(topic, pl.col("assignmentEpochs").alias("epochs")).filter(has_epochs)
    return (
        records.filter(pl.col("kind").is_in(ASSIGNMENTS) & ~pl.col("tombstone"))
        .select("group", "member_id", pl.col("log_offset").alias("at"), value=_value(_REPORTED))
        .unnest("value")
        .filter(pl.col("assignedPartitions").is_not_null())
        # A member without partitions keeps one row, with a null topic.
        .explode("assignedPartitions", empty_as_null=True)
        .unnest("assignedPartitions")
        .join(name, left_on="topicId", right_on="topic_id", how="left", maintain_order="left")
        .group_by("group", "member_id", "at", maintain_order=True)
        .agg(
            assigned.alias("assigned"),
            pl.when(has_epochs.any()).then(epochs.implode()).alias("assignment_epochs"),
        )
    )


def _value(value: pl.Struct) -> pl.Expr:
    """Return the decoded value of a record, with the fields of `value`."""
    return pl.col("details").str.json_decode(pl.Struct({"value": value})).struct.field("value")


def _with_assignments(of_epoch: pl.LazyFrame, assignments: pl.LazyFrame) -> pl.LazyFrame:
    """Return `of_epoch` with the last assignment that each member reported before `next_offset`."""
    return of_epoch.sort("next_offset").join_asof(
        assignments.sort("at"),
        left_on="next_offset",
        right_on="at",
        by=["group", "member_id"],
        # The record at `next_offset` is the record of the next group epoch, not an assignment.
        allow_exact_matches=False,
        check_sortedness=False,
    )
