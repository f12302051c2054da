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

from pyspark.sql import Column, Window
from pyspark.sql import functions as sql

from pipeline import schema
from pipeline.inputs import HOUR_MS
from pipeline.tables import group_generations, group_members

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.inputs import Bronze, Questions

_PLACE = ("group", "log_partition", "log_offset")
_CLIENT = "struct<client_id: string, client_host: string, who: string, member_id: string>"
_PAIR = "struct<who: string, topic: string, partition: int>"
_BEFORE = ("generation", "people", "pairs", "protocol", "leader", "members", "event")


def make(bronze: Bronze, questions: Questions) -> DataFrame:
    """The table `rebalances`."""
    made = _generations(
        group_generations.make(bronze, questions), group_members.make(bronze, questions)
    )
    return (
        _explained(_storms(_compared(made), questions), bronze, questions)
        .withColumn("day", sql.to_date(sql.timestamp_millis("at_ms")))
        .select(*schema.REBALANCES.names)
    )


def _generations(generations: DataFrame, members: DataFrame) -> DataFrame:
    """Generations as they were made, removals between them; members as arrays beside them."""
    who = sql.coalesce("group_instance_id", "member_id")
    owned = sql.flatten(
        sql.transform(
            "assigned",
            lambda one: sql.transform(
                one["partitions"],
                lambda number: sql.struct(
                    who.alias("who"), one["topic"].alias("topic"), number.alias("partition")
                ),
            ),
        )
    )
    of_record = members.groupBy(*_PLACE).agg(
        sql.sort_array(
            sql.collect_list(sql.struct("client_id", "client_host", who.alias("who"), "member_id"))
        ).alias("people"),
        sql.flatten(sql.collect_list(owned)).alias("pairs"),
        (sql.count("assigned") == sql.count("*")).alias("readable"),
        sql.max(sql.when(sql.col("is_leader"), who)).alias("leading"),
    )
    by_offset = Window.partitionBy("group").orderBy("log_offset", "log_partition")
    known = sql.col("group_type").isin("classic", "consumer")
    again = (sql.col("event") != "tombstone") & sql.col("generation").eqNullSafe(
        sql.lag("generation").over(by_offset)
    )
    nobody = sql.col("members") == 0
    return (
        generations.where(known)
        .withColumn("again", again)
        .where(~sql.col("again"))
        .join(of_record, list(_PLACE), "left")
        .withColumn("people", sql.coalesce("people", sql.array().cast(f"array<{_CLIENT}>")))
        .withColumn(
            "pairs",
            sql.when(sql.col("readable"), sql.col("pairs")).when(
                nobody, sql.array().cast(f"array<{_PAIR}>")
            ),
        )
        .withColumn("leader", sql.coalesce("leading", "leader"))
    )


def _compared(made: DataFrame) -> DataFrame:
    """Each generation beside the one before it."""
    by_offset = Window.partitionBy("group").orderBy("log_offset", "log_partition")
    frame = made
    for name in _BEFORE:
        frame = frame.withColumn(f"{name}_before", sql.lag(name).over(by_offset))
    frame = frame.where(sql.col("event") != "tombstone").where(
        # The record that a group comes to be with is no rebalance.
        ~((sql.col("generation") == 0) & (sql.col("members") == 0))
    )
    removed = sql.col("event_before") == "tombstone"
    nobody = sql.when(removed, sql.array().cast(f"array<{_CLIENT}>"))
    nothing = sql.when(removed, sql.array().cast(f"array<{_PAIR}>"))
    frame = (
        frame.withColumn("people_before", sql.coalesce(nobody, "people_before"))
        .withColumn("pairs_before", sql.coalesce(nothing, "pairs_before"))
        .withColumn("members_before", sql.size("people_before"))
        .withColumn(
            "members_before",
            sql.when(sql.col("people_before").isNotNull(), sql.col("members_before")),
        )
        .withColumn("at_ms", sql.col("log_timestamp_ms"))
    )
    return _moved(_people(frame))


def _people(frame: DataFrame) -> DataFrame:
    """Who came, went and came back; `alias` tells who a restarted dynamic member was."""
    names_before = sql.transform("people_before", lambda one: one["who"])
    names = sql.transform("people", lambda one: one["who"])
    frame = (
        frame.withColumn(
            "gone", sql.filter("people_before", lambda one: ~sql.array_contains(names, one["who"]))
        )
        .withColumn(
            "come", sql.filter("people", lambda one: ~sql.array_contains(names_before, one["who"]))
        )
        .withColumn("gone_slots", _slots("gone"))
        .withColumn("come_slots", _slots("come"))
    )
    alias = sql.filter(
        sql.transform(
            "come",
            lambda one, index: sql.struct(
                one["who"].alias("now"), _at("gone", _position("gone_slots", "come_slots", index))
            ),
        ),
        lambda one: one["before"].isNotNull(),
    )
    frame = frame.withColumn("alias", alias)
    back = sql.transform("alias", lambda one: one["now"])
    back_before = sql.transform("alias", lambda one: one["before"])
    ids_before = sql.map_from_arrays(
        sql.array_distinct(names_before),
        sql.transform("people_before", lambda one: one["member_id"]),
    )
    static_back = sql.filter(
        "people",
        lambda one: (
            (one["who"] != one["member_id"])
            & (sql.try_element_at(ids_before, one["who"]) != one["member_id"])
        ),
    )
    restarted = sql.concat(back, sql.transform(static_back, lambda one: one["who"]))
    come = sql.transform("come", lambda one: one["who"])
    gone = sql.transform("gone", lambda one: one["who"])
    known = sql.col("people_before").isNotNull()
    return (
        frame.withColumn("joined", sql.when(known, sql.array_sort(sql.array_except(come, back))))
        .withColumn("left", sql.when(known, sql.array_sort(sql.array_except(gone, back_before))))
        .withColumn("restarted", sql.when(known, sql.array_sort(restarted)))
    )


def _slots(name: str) -> Column:
    """For each dynamic member of a sorted array: client id, host, and the how many-th of them."""
    clients = sql.transform(name, lambda one: _client(one))
    return sql.transform(
        name,
        lambda one, index: sql.when(
            (one["who"] == one["member_id"]) & _client(one).isNotNull(),
            sql.concat_ws(
                "\n",
                _client(one),
                (index - sql.array_position(clients, _client(one))).cast("string"),
            ),
        ),
    )


def _client(one: Column) -> Column:
    """Client id and host; null unless both are known. A static member is nobody's double."""
    return sql.when(
        one["who"] == one["member_id"],
        sql.concat(one["client_id"], sql.lit("\n"), one["client_host"]),
    )


def _position(slots: str, other_slots: str, index: Column) -> Column:
    return sql.array_position(slots, sql.get(other_slots, index))


def _at(name: str, position: Column) -> Column:
    found = sql.when(position > 0, sql.get(name, (position - 1).cast("int"))["who"])
    return found.alias("before")


def _moved(frame: DataFrame) -> DataFrame:
    """What changed hands: a restarted member is the owner that it was."""
    alias = sql.map_from_entries("alias")
    same = sql.transform(
        "pairs",
        lambda pair: sql.struct(
            sql.coalesce(sql.try_element_at(alias, pair["who"]), pair["who"]).alias("who"),
            pair["topic"].alias("topic"),
            pair["partition"].alias("partition"),
        ),
    )
    aliased = sql.when(sql.size("alias") > 0, same).otherwise(sql.col("pairs"))
    leader = sql.coalesce(sql.try_element_at(alias, sql.col("leader")), sql.col("leader"))
    both = sql.size(sql.array_intersect("places_before", "places"))
    kept = sql.array_intersect("holds_before", "holds")
    all_places = sql.size(sql.array_union("places_before", "places"))
    all_pairs = sql.size(sql.array_union("holds_before", "holds"))
    known = sql.col("pairs").isNotNull() & sql.col("pairs_before").isNotNull()
    first = sql.col("people_before").isNull()
    return (
        frame.withColumn("owned", sql.when(first, sql.col("pairs")).otherwise(aliased))
        .withColumn("places", _places("owned"))
        .withColumn("places_before", _places("pairs_before"))
        .withColumn("holds", _holds("owned"))
        .withColumn("holds_before", _holds("pairs_before"))
        .withColumn(
            "partitions",
            sql.when(first & sql.col("pairs").isNotNull(), sql.size("places")).when(
                known, all_places
            ),
        )
        .withColumn("kept", sql.when(known, sql.size(kept)))
        .withColumn("moved", sql.when(known, both - sql.size(sql.array_distinct(_places_of(kept)))))
        .withColumn("moved_share", sql.try_divide("moved", "partitions"))
        .withColumn("stickiness", sql.try_divide("kept", sql.when(known, all_pairs)))
        .withColumn("leader_changed", leader != sql.col("leader_before"))
        .withColumn("protocol_changed", sql.col("protocol") != sql.col("protocol_before"))
    )


def _places(name: str) -> Column:
    """The partitions of pairs, as texts: sets of texts are hashed, of structs they would be
    compared each with each."""
    return sql.array_distinct(sql.transform(name, _place))


def _holds(name: str) -> Column:
    """Pairs as texts, the partition first: no topic has a line end in its name."""
    return sql.transform(name, lambda pair: sql.concat(_place(pair), sql.lit("\n"), pair["who"]))


def _place(pair: Column) -> Column:
    return sql.concat(pair["topic"], sql.lit("\n"), pair["partition"].cast("string"))


def _places_of(holds: Column) -> Column:
    return sql.transform(holds, lambda one: sql.substring_index(one, "\n", 2))


def _storms(frame: DataFrame, questions: Questions) -> DataFrame:
    """`storm`: part of some stretch of that length with that many; `per_hour`: of the last hour."""
    by_time = Window.partitionBy("group").orderBy("at_ms")
    span_ms = questions.storm_window_ms
    return (
        frame.withColumn("until_here", sql.count("*").over(by_time.rangeBetween(-span_ms, 0)))
        .withColumn("most", sql.max("until_here").over(by_time.rangeBetween(0, span_ms)))
        .withColumn("storm", sql.col("most") >= questions.storm_generations)
        .withColumn(
            "per_hour",
            sql.count("*").over(by_time.rangeBetween(1 - HOUR_MS, 0)).cast("double"),
        )
    )


def _explained(frame: DataFrame, bronze: Bronze, questions: Questions) -> DataFrame:
    """With trigger, reason and duration from `__group_events`.

    A group that was removed and came again counts its generations from 1 again: of several events
    of a generation that one counts that ended nearest to the record.
    """
    events = bronze.group_events.where(sql.col("generation").isNotNull())
    if questions.past:
        events = events.where(sql.col("ended_ms") <= questions.at_ms)
    told = events.select(
        "group",
        "generation",
        "trigger",
        "reason",
        "event_offset",
        "ended_ms",
        (sql.col("ended_ms") - sql.col("started_ms")).alias("duration_ms"),
    )
    nearest = Window.partitionBy(*_PLACE).orderBy(
        sql.abs(sql.col("ended_ms") - sql.col("at_ms")).asc_nulls_last(), "event_offset"
    )
    return (
        frame.join(told, ["group", "generation"], "left")
        .withColumn("rank", sql.row_number().over(nearest))
        .where(sql.col("rank") == 1)
    )
