"""Table `rebalances`: members and partition owners of a generation against the one before.

A generation, as first written, is compared with the previous generation as first written. A classic
group writes its record again within a generation when a static member returns. This record makes no
row; the next generation shows the member as `restarted`. After the removal of a group, all members
of its next generation count as joined. For the first generation in the log the previous one is
unknown, so all comparisons are null.

A member is identified by its instance id if it has one (KIP-345), else by its member id. A dynamic
member that left and one that joined at the same time with the same client id and host count as one
restarted member; several of them are paired in the order of their ids. If all clients on a host
share one client id (a library's default), this rule mistakes a departure and an unrelated arrival
for a restart.

`partitions`, `moved` and `stickiness` are null when an assignment cannot be read. A partition moves
when its owner changes; a partition without an owner before or after does not move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.inputs import HOUR_MS
from pipeline.tables import group_generations, group_members
from pipeline.tables.columns import PLACE, owned, utc_day
from pipeline.tables.kept import kept

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

_MEMBER = ("number", "who")
_PARTITION = ("number", "topic", "partition")
_CLIENT = ("number", "client_id", "client_host")
_NOBODY = pl.lit([], pl.List(pl.String))


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the table `rebalances`."""
    frame = _with_names(_compared(bronze, questions), bronze, questions)
    frame = _with_changes(_with_moves(frame, bronze, questions), bronze, questions)
    return (
        _storms(frame, questions)
        .join(_stories(bronze, questions), on="number", how="left")
        .with_columns(day=utc_day("at_ms"))
        .select(schema.REBALANCES.names)
    )


@kept
def _generations(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return generations as first written and the removals between them, each with its `number`.

    Consecutive generations of a group have consecutive numbers. One number is skipped between two
    groups, so that the first generation of a group never follows the last one of another group.
    """
    again = pl.col("generation").eq_missing(pl.col("generation").shift().over("group"))
    return (
        group_generations.make(bronze, questions)
        .filter(pl.col("group_type").is_in(["classic", "consumer", "streams"]))
        .sort("group", "log_offset", "log_partition")
        .with_columns(again=again & (pl.col("event") != "tombstone"))
        .filter(~pl.col("again"))
        .with_columns(number=pl.int_range(pl.len()) + pl.col("group").rle_id())
        .drop("again")
    )


@kept
def _people(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the members of every generation by its `number`; `who` identifies each member."""
    return (
        group_members.make(bronze, questions)
        .join(_generations(bronze, questions).select(*PLACE, "number"), on=PLACE)
        .with_columns(who=pl.coalesce("group_instance_id", "member_id"))
        .select(*_CLIENT, "who", "member_id", "is_leader", "assigned")
    )


def _before(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return `frame` with each generation's rows under the number of the next generation."""
    return frame.with_columns(pl.col("number") + 1)


@kept
def _came(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the members that were not in the previous generation."""
    people = _people(bronze, questions)
    return people.join(_before(people), on=_MEMBER, how="anti")


@kept
def _went(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return the members that left, under the number of the first generation without them."""
    people = _people(bronze, questions)
    return _before(people).join(people, on=_MEMBER, how="anti")


@kept
def _again(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `number`, `who`, `was`: restarted dynamic members, with their new and their old id."""
    now = _slots(_came(bronze, questions))
    then = _slots(_went(bronze, questions)).rename({"who": "was"})
    return now.join(then, on=[*_CLIENT, "slot"]).select(*_MEMBER, "was")


def _slots(people: pl.LazyFrame) -> pl.LazyFrame:
    """Return the dynamic members, numbered (`slot`) among those with the same client id and host.

    Static members are left out, as their instance id identifies them.
    """
    return (
        people.filter(pl.col("who") == pl.col("member_id"))
        .drop_nulls(["client_id", "client_host"])
        .sort("who")
        .select(*_CLIENT, "who", slot=pl.int_range(pl.len()).over(_CLIENT))
    )


def _compared(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return each generation together with the plain columns of the one before it (`*_before`).

    `readable` is true if all assignments can be read, `first` if the previous generation is
    unknown.
    """
    of_members = (
        _people(bronze, questions)
        .group_by("number")
        .agg(
            pl.col("assigned").is_not_null().all().alias("readable"),
            pl.col("who").filter("is_leader").max().alias("leading"),
        )
    )
    before = [
        pl.col(name).shift().over("group").alias(f"{name}_before")
        for name in ("generation", "members", "leader", "protocol", "readable")
    ]
    # The record that creates a group is not a rebalance.
    comes_to_be = (pl.col("generation") == 0) & (pl.col("members") == 0)
    return (
        _generations(bronze, questions)
        .join(of_members, on="number", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("leading", "leader").alias("leader"),
            # A removed group has no members, so no assignment is unreadable.
            pl.col("members").fill_null(0),
            pl.col("readable").fill_null(True),
        )
        .with_columns(before)
        .filter((pl.col("event") != "tombstone") & ~comes_to_be)
        .with_columns(first=pl.col("members_before").is_null(), at_ms="log_timestamp_ms")
    )


def _with_names(frame: pl.LazyFrame, bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `frame` with sorted lists of the members that joined, left and restarted."""
    people, again = _people(bronze, questions), _again(bronze, questions)
    came, went = _came(bronze, questions), _went(bronze, questions)
    then = _before(people).select(*_MEMBER, was="member_id")
    static_back = people.join(then, on=_MEMBER).filter(
        (pl.col("who") != pl.col("member_id")) & (pl.col("was") != pl.col("member_id"))
    )
    columns = {
        "joined": came.join(again, on=_MEMBER, how="anti"),
        "left": went.join(again, left_on=_MEMBER, right_on=["number", "was"], how="anti"),
        "restarted": pl.concat([again.select(_MEMBER), static_back.select(_MEMBER)]),
    }
    for name, who in columns.items():
        names = who.group_by("number").agg(pl.col("who").unique().sort().alias(name))
        frame = frame.join(names, on="number", how="left").with_columns(
            pl.when(~pl.col("first")).then(pl.coalesce(name, _NOBODY)).alias(name)
        )
    return frame


def _with_moves(frame: pl.LazyFrame, bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `frame` with the moved partitions; for first generations only `partitions`."""
    known = pl.col("readable") & pl.col("readable_before")
    counted = pl.when("first").then("readable").otherwise(known)
    moved = pl.col("both") - pl.col("same")
    return (
        frame.drop("partitions")
        .join(_hands(bronze, questions), on="number", how="left")
        .with_columns(
            pl.col("partitions", "both", "same", "kept", "pairs").fill_null(0).cast(pl.Int32)
        )
        .with_columns(
            pl.when(counted).then("partitions").alias("partitions"),
            pl.when(known).then(moved).alias("moved"),
            pl.when(known).then(_share(pl.col("kept"), "pairs")).alias("stickiness"),
            pl.when(known).then(_share(moved, "partitions")).alias("moved_share"),
        )
    )


def _share(some: pl.Expr, of_all: str) -> pl.Expr:
    """Return `some` / `of_all`; null if `of_all` is 0."""
    return pl.when(pl.col(of_all) > 0).then(some / pl.col(of_all))


def _hands(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return counts by `number` of how partitions changed owner since the previous generation.

    A restarted member counts as the same owner. Columns: `partitions` that have or had an owner;
    `both`, those that had and have one; `same`, those that kept it; `pairs` of owner and partition
    in either generation; `kept`, the pairs in both.
    """
    owners = owned(_people(bronze, questions), *_MEMBER)
    now = owners.join(_again(bronze, questions), on=_MEMBER, how="left").select(
        *_PARTITION, pl.coalesce("was", "who").alias("who"), pl.lit(True).alias("is_now")
    )
    then = _before(owners).select(*_PARTITION, "who", is_now=False)
    had, has = pl.col("had"), pl.col("has")
    return (
        pl.concat([now, then])
        .group_by(*_PARTITION, "who")
        .agg(had=(~pl.col("is_now")).any(), has=pl.col("is_now").any())
        .group_by(_PARTITION)
        .agg(both=had.any() & has.any(), kept=(had & has).sum(), pairs=pl.len())
        .group_by("number")
        .agg(
            pl.len().alias("partitions"),
            (pl.col("kept") > 0).sum().alias("same"),
            pl.sum("both", "kept", "pairs"),
        )
    )


def _with_changes(frame: pl.LazyFrame, bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return `frame` with `leader_changed` and `protocol_changed`."""
    again = _again(bronze, questions)
    leader = pl.coalesce("was", "leader")
    return frame.join(
        again, left_on=["number", "leader"], right_on=_MEMBER, how="left"
    ).with_columns(
        leader_changed=leader != pl.col("leader_before"),
        protocol_changed=pl.col("protocol") != pl.col("protocol_before"),
    )


def _storms(frame: pl.LazyFrame, questions: Questions) -> pl.LazyFrame:
    """Return `frame` with `storm` and `per_hour`, the generations of the group in the last hour.

    `storm` is true if the generation lies in a span of `storm_window_ms` with at least
    `storm_generations` generations.
    """
    # Polars' windows exclude their far end. Times are whole milliseconds, so a window that is one
    # millisecond longer includes the far end.
    span = f"{questions.storm_window_ms + 1}i"
    ones = pl.repeat(1, pl.len())
    until_here = ones.rolling_sum_by("at_ms", window_size=span)
    most = pl.col("until_here").rolling_max_by(-pl.col("at_ms"), window_size=span)
    per_hour = ones.rolling_sum_by("at_ms", window_size=f"{HOUR_MS}i")
    return (
        frame.with_columns(until_here=until_here.over("group"))
        .with_columns(storm=most.over("group") >= questions.storm_generations)
        .with_columns(per_hour=per_hour.over("group").cast(pl.Float64))
    )


def _stories(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """Return trigger, reason and duration by `number`, from `__group_events`.

    A removed and recreated group counts its generations from 1 again, so several events may have
    the same generation: the event that ended nearest to the record counts.
    """
    events = bronze.group_events
    if questions.past:
        events = events.filter(pl.col("ended_ms") <= questions.at_ms)
    ended_ms = pl.col("ended_ms")
    return (
        _generations(bronze, questions)
        .join(events, on=["group", "generation"])
        .sort((ended_ms - pl.col("log_timestamp_ms")).abs(), "event_offset", nulls_last=True)
        .unique("number", keep="first")
        .select("number", "trigger", "reason", duration_ms=ended_ms - pl.col("started_ms"))
    )
