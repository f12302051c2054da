"""From one generation of a group to the next: who came, who went, what moved.

A generation is compared, as it was made, with the one before as that was made. A classic group
that writes its record again within a generation (a static member came back) makes no row; the
return shows in the next one, as `restarted`. After a group was removed, its next generation has
nothing before it: everyone joined. Of the first generation that the log holds nothing is known of
before, so all comparisons are null.

A member is its instance id if it has one (KIP-345), else its member id. A dynamic member that left
and one that came at the same time with the same client id and host are one that restarted; if
there are more of them, as many pairs as possible, in the order of their ids. Clients that all
carry one client id on one host (a library's default) are taken for each other by this rule, when
one really leaves as another comes.

`partitions`, `moved` and `stickiness` are null when an assignment cannot be read. A partition
moves when it has another owner than before; one that nobody had, or nobody has now, does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from pipeline import schema
from pipeline.inputs import HOUR_MS
from pipeline.tables import group_generations, group_members
from pipeline.tables.known import utc_day

if TYPE_CHECKING:
    from pipeline.inputs import Bronze, Questions

_PLACE = ("group", "log_partition", "log_offset")
_PARTITION = ("number", "topic", "partition")
_CLIENT = ("number", "client_id", "client_host")
_NOBODY = pl.lit([], pl.List(pl.String))


def make(bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """The table `rebalances`."""
    generations = _numbered(group_generations.make(bronze, questions))
    people = _people(generations, group_members.make(bronze, questions))
    pairs = _restarted_pairs(people)
    frame = _compared(generations, people)
    frame = _with_names(frame, people, pairs)
    frame = _with_moves(frame, people, pairs)
    frame = _with_changes(frame, pairs)
    return (
        _explained(_storms(frame, questions), bronze, questions)
        .with_columns(day=utc_day("at_ms"))
        .select(schema.REBALANCES.names)
    )


def _numbered(generations: pl.LazyFrame) -> pl.LazyFrame:
    """Generations as they were made, removals between them, and the `number` of each.

    The next one of the group has the next number. A number stays free between two groups: what
    comes after the last generation of one is not the first of another.
    """
    again = pl.col("generation").eq_missing(pl.col("generation").shift().over("group"))
    return (
        generations.filter(pl.col("group_type").is_in(["classic", "consumer"]))
        .sort("group", "log_offset", "log_partition")
        .with_columns(again=again & (pl.col("event") != "tombstone"))
        .filter(~pl.col("again"))
        .with_columns(number=pl.int_range(pl.len()) + pl.col("group").rle_id())
    )


def _people(generations: pl.LazyFrame, members: pl.LazyFrame) -> pl.LazyFrame:
    """The members of every generation, by the generation's `number`, and `who` each is."""
    who = pl.coalesce("group_instance_id", "member_id")
    return members.join(generations.select(*_PLACE, "number"), on=_PLACE).select(
        "number",
        "member_id",
        "client_id",
        "client_host",
        "is_leader",
        "assigned",
        who=who,
    )


def _a_number_on(frame: pl.LazyFrame) -> pl.LazyFrame:
    """What was of each generation, for the number of the next one: what there was before it."""
    return frame.with_columns(pl.col("number") + 1)


def _compared(generations: pl.LazyFrame, people: pl.LazyFrame) -> pl.LazyFrame:
    """Each generation, and of the one before it what single columns tell.

    `readable` says that all assignments can be read, `first` that nothing is known of before.
    """
    of_members = people.group_by("number").agg(
        pl.col("assigned").is_not_null().all().alias("readable"),
        pl.col("who").filter("is_leader").max().alias("leading"),
    )
    before = [
        pl.col(name).shift().over("group").alias(f"{name}_before")
        for name in ("generation", "members", "leader", "protocol", "readable")
    ]
    # The record that a group comes to be with is no rebalance.
    comes_to_be = (pl.col("generation") == 0) & (pl.col("members") == 0)
    return (
        generations.join(of_members, on="number", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("leading", "leader").alias("leader"),
            # Who is removed leaves nobody and nothing behind, and that can be read.
            pl.col("members").fill_null(0),
            pl.col("readable").fill_null(True),
        )
        .with_columns(before)
        .filter((pl.col("event") != "tombstone") & ~comes_to_be)
        .with_columns(first=pl.col("members_before").is_null(), at_ms="log_timestamp_ms")
    )


def _who_changed(people: pl.LazyFrame) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """Those who came with a generation, and those who went with it."""
    before = _a_number_on(people)
    came = people.join(before, on=["number", "who"], how="anti")
    went = before.join(people, on=["number", "who"], how="anti")
    return came, went


def _restarted_pairs(people: pl.LazyFrame) -> pl.LazyFrame:
    """`number`, `who`, `was`: dynamic members that restarted, who they are and who they were."""
    came, went = _who_changed(people)
    gone = _slots(went).rename({"who": "was"})
    return _slots(came).join(gone, on=[*_CLIENT, "slot"]).select("number", "who", "was")


def _slots(changed: pl.LazyFrame) -> pl.LazyFrame:
    """For each dynamic member: client id, host, and the how many-th of them it is (`slot`).

    A static member is nobody's double.
    """
    return (
        changed.filter(pl.col("who") == pl.col("member_id"))
        .drop_nulls(["client_id", "client_host"])
        .sort("who")
        .select(*_CLIENT, "who", slot=pl.int_range(pl.len()).over(_CLIENT))
    )


def _with_names(frame: pl.LazyFrame, people: pl.LazyFrame, pairs: pl.LazyFrame) -> pl.LazyFrame:
    """Who joined, left and restarted, in the order of their names."""
    came, went = _who_changed(people)
    before = _a_number_on(people).select("number", "who", was="member_id")
    static_back = people.join(before, on=["number", "who"]).filter(
        (pl.col("who") != pl.col("member_id")) & (pl.col("was") != pl.col("member_id"))
    )
    found = {
        "joined": came.join(pairs, on=["number", "who"], how="anti"),
        "left": went.join(pairs, left_on=["number", "who"], right_on=["number", "was"], how="anti"),
        "restarted": pl.concat([one.select("number", "who") for one in (pairs, static_back)]),
    }
    for name, who in found.items():
        names = who.group_by("number").agg(pl.col("who").unique().sort().alias(name))
        frame = frame.join(names, on="number", how="left").with_columns(
            pl.when(~pl.col("first")).then(pl.coalesce(name, _NOBODY)).alias(name)
        )
    return frame


def _with_moves(frame: pl.LazyFrame, people: pl.LazyFrame, pairs: pl.LazyFrame) -> pl.LazyFrame:
    """What changed hands; of a first generation only how many partitions there are."""
    known = pl.col("readable") & pl.col("readable_before")
    counts = ("places", "both", "same", "kept", "holds")
    return (
        frame.join(_hands(people, pairs), on="number", how="left")
        .with_columns(pl.col(counts).fill_null(0).cast(pl.Int32))
        .with_columns(
            partitions=pl.when(pl.when("first").then("readable").otherwise(known)).then("places"),
            moved=pl.when(known).then(pl.col("both") - pl.col("same")),
            stickiness=pl.when(known & (pl.col("holds") > 0)).then(
                pl.col("kept") / pl.col("holds")
            ),
        )
        .with_columns(
            moved_share=pl.when(pl.col("partitions") > 0).then(
                pl.col("moved") / pl.col("partitions")
            )
        )
    )


def _hands(people: pl.LazyFrame, pairs: pl.LazyFrame) -> pl.LazyFrame:
    """By `number`, from one generation to the next: a restarted member is the owner that it was.

    Columns: `places`, the partitions that somebody had or has; of them those that had an owner and
    have one (`both`), and those that kept one (`same`); `holds`, the pairs of owner and partition
    before or now, and of them those that stayed (`kept`).
    """
    owned = _owned(people)
    now = owned.join(pairs, on=["number", "who"], how="left").with_columns(
        who=pl.coalesce("was", "who"), is_now=True
    )
    before = _a_number_on(owned).with_columns(is_now=False)
    was, has = (~pl.col("is_now")).any(), pl.col("is_now").any()
    return (
        pl.concat([now.select(*_PARTITION, "who", "is_now"), before])
        .group_by(*_PARTITION, "who")
        .agg(was=was, has=has)
        .group_by(_PARTITION)
        .agg(
            both=pl.col("was").any() & pl.col("has").any(),
            kept=(pl.col("was") & pl.col("has")).sum(),
            holds=pl.len(),
        )
        .group_by("number")
        .agg(
            pl.len().alias("places"),
            pl.sum("both"),
            (pl.col("kept") > 0).sum().alias("same"),
            pl.sum("kept"),
            pl.sum("holds"),
        )
    )


def _owned(people: pl.LazyFrame) -> pl.LazyFrame:
    """`number`, `topic`, `partition`, `who`: a row a partition that a member was given."""
    return (
        people.select("number", "who", "assigned")
        .explode("assigned", keep_nulls=False)
        .unnest("assigned")
        .explode("partitions", keep_nulls=False)
        .select("number", "topic", "who", partition="partitions")
        .select(*_PARTITION, "who")
    )


def _with_changes(frame: pl.LazyFrame, pairs: pl.LazyFrame) -> pl.LazyFrame:
    """Whether another member leads, and whether the assignor is another one."""
    leads = pairs.select("number", leader="who", led="was")
    return frame.join(leads, on=["number", "leader"], how="left").with_columns(
        leader_changed=pl.coalesce("led", "leader") != pl.col("leader_before"),
        protocol_changed=pl.col("protocol") != pl.col("protocol_before"),
    )


def _storms(frame: pl.LazyFrame, questions: Questions) -> pl.LazyFrame:
    """`storm`: part of some stretch of that length with that many; `per_hour`: of the last hour."""
    span = f"{questions.storm_window_ms + 1}i"
    one = pl.repeat(1, pl.len())
    most = pl.col("until_here").rolling_max_by(-pl.col("at_ms"), window_size=span)
    return frame.with_columns(
        until_here=one.rolling_sum_by("at_ms", window_size=span).over("group"),
        per_hour=one.rolling_sum_by("at_ms", window_size=f"{HOUR_MS}i")
        .over("group")
        .cast(pl.Float64),
    ).with_columns(storm=most.over("group") >= questions.storm_generations)


def _explained(frame: pl.LazyFrame, bronze: Bronze, questions: Questions) -> pl.LazyFrame:
    """With trigger, reason and duration from `__group_events`.

    A group that was removed and came again counts its generations from 1 again: of several events
    of a generation that one counts that ended nearest to the record.
    """
    events = bronze.group_events
    if questions.past:
        events = events.filter(pl.col("ended_ms") <= questions.at_ms)
    told = frame.select("number", "group", "generation", "at_ms").join(
        events, on=["group", "generation"]
    )
    away_ms = (pl.col("ended_ms") - pl.col("at_ms")).abs()
    duration_ms = pl.col("ended_ms") - pl.col("started_ms")
    nearest = (
        told.sort(away_ms, "event_offset", nulls_last=True)
        .unique("number", keep="first")
        .select("number", "trigger", "reason", duration_ms.alias("duration_ms"))
    )
    return frame.join(nearest, on="number", how="left")
