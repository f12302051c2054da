"""Tables `group_generations` and `group_members`, classic and KIP-848, row by row."""

from __future__ import annotations

from datetime import date
from typing import Any

from pipeline import schema
from pipeline.decode.kinds import KINDS
from pipeline.decode.others import decode_other
from pipeline.inputs import Questions
from pipeline.tables import dead_letters, group_generations, group_members
from protocol import share_group_records as share
from protocol import streams_group_records as streams
from protocol.json_form import uuid_to_text
from protocol.offsets_log import encode_key, encode_value, type_of_key
from protocol.schema import Message
from tests.pipeline.frames import bronze, rows_of
from tests.pipeline.tables.log_rows import (
    commit,
    epoch,
    generation,
    member,
    modern_assignment,
    modern_member,
    partitions,
    removal,
    target,
)

DAY = date(1970, 1, 1)
NOW = Questions(at_ms=1_000_000)


def recorded(at_ms: int, offset: int, key: Message, value: Message) -> dict[str, Any]:
    """Return a row of the offsets log, decoded from the bytes of a record."""
    number = type_of_key(key)
    return {
        "kind": KINDS[number],
        "record_type": number,
        "tombstone": False,
        "log_partition": 0,
        "log_offset": offset,
        "log_timestamp_ms": at_ms,
        **decode_other(number, encode_key(key), encode_value(value, 0)),
    }


CLASSIC = [
    generation("a", 1000, 1, 1, member("m1", {"t": [0, 1], "u": [0]}), member("m2", {"t": [2]})),
    # With an unreadable assignment, the number of partitions is unknown, but the member count is
    # known.
    generation("a", 2000, 2, 2, member("m1", None, problem="truncated"), member("m2", {"t": [0]})),
    generation("a", 3000, 3, 3, state_timestamp_ms=2999),
    removal("a", 4000, 4),
    # An undecodable record is not a generation.
    {
        "kind": "group_metadata", "group": "a", "record_type": 2, "log_partition": 0,
        "log_offset": 5, "log_timestamp_ms": 5000, "problem": "version 9", "key_hex": "00",
        "value_hex": "0009", "tombstone": False,
    },
]  # fmt: skip

MODERN = [
    commit("k", 1, 10, "orders-0", 5, topic_id="ORDERS-ID"),
    modern_member("k", 1000, 11, "x", "orders"),
    epoch("k", 1000, 12, 1),
    modern_assignment("k", 1000, 13, "x", 1, {"ORDERS-ID": [0, 1]}),
    modern_member("k", 2000, 14, "y", "orders", "lost"),
    epoch("k", 2000, 15, 2),
    # Member `x` gives up partition 1 before member `y` gets it.
    modern_assignment("k", 2000, 16, "x", 2, {"ORDERS-ID": [0]}, {"ORDERS-ID": [1]}),
    modern_assignment(
        "k",
        2100,
        17,
        "y",
        2,
        {"ORDERS-ID": [1], "UNKNOWN-ID": [0]},
        {"ORDERS-ID": [2], "UNKNOWN-ID": [2]},
    ),
    # A second record of member `y` does not add a member.
    modern_member("k", 2200, 18, "y", "orders"),
    removal("k", 3000, 19, "consumer_group_current_member_assignment", member_id="y"),
    removal("k", 3000, 20, "consumer_group_member_metadata", member_id="y"),
    epoch("k", 3000, 21, 3),
    removal("k", 4000, 22, "consumer_group_member_metadata", member_id="x"),
    epoch("k", 4000, 23, 4),
    removal("k", 5000, 24, "consumer_group_metadata"),
]

# Epochs 1 and 3 have assignments, epoch 2 has none. The recreated group starts at epoch 1 again. As
# before Kafka 4.3, the first target has no timestamp.
COMPUTED = [
    epoch("l", 1000, 40, 1),
    target("l", 1100, 41, 1),
    epoch("l", 2000, 42, 2),
    epoch("l", 3000, 43, 3),
    target("l", 3100, 44, 3, assignmentTimestamp=3090),
    removal("l", 4000, 45, "consumer_group_target_assignment_metadata"),
    removal("l", 4000, 46, "consumer_group_metadata"),
    epoch("l", 5000, 47, 1),
    target("l", 5100, 48, 1, assignmentTimestamp=5090),
]

SHARE = [
    recorded(
        1000,
        30,
        share.ShareGroupMemberMetadataKey(group_id="s", member_id="x"),
        share.ShareGroupMemberMetadataValue(
            client_id="c", client_host="/h", subscribed_topic_names=["orders"]
        ),
    ),
    recorded(
        1000,
        31,
        share.ShareGroupMetadataKey(group_id="s"),
        share.ShareGroupMetadataValue(epoch=2, metadata_hash=0),
    ),
    recorded(
        1000,
        32,
        share.ShareGroupCurrentMemberAssignmentKey(group_id="s", member_id="x"),
        share.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=2,
            previous_member_epoch=0,
            state=0,
            assigned_partitions=[share.ShareTopicPartitions(topic_id=b"i" * 16, partitions=[0, 1])],
        ),
    ),
]
ID = uuid_to_text(b"i" * 16)

STREAMS = [
    recorded(
        1000,
        40,
        streams.StreamsGroupMemberMetadataKey(group_id="t", member_id="y"),
        streams.StreamsGroupMemberMetadataValue(
            instance_id=None,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=60_000,
            process_id="p",
        ),
    ),
    recorded(
        1000,
        41,
        streams.StreamsGroupMetadataKey(group_id="t"),
        streams.StreamsGroupMetadataValue(epoch=3, metadata_hash=0),
    ),
    recorded(
        1000,
        42,
        streams.StreamsGroupTargetAssignmentMetadataKey(group_id="t"),
        streams.StreamsGroupTargetAssignmentMetadataValue(
            assignment_epoch=3, assignment_timestamp=990
        ),
    ),
    recorded(
        1000,
        43,
        streams.StreamsGroupCurrentMemberAssignmentKey(group_id="t", member_id="y"),
        streams.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=3,
            previous_member_epoch=0,
            state=1,
            active_tasks=[streams.CurrentTaskIds(subtopology_id="0", partitions=[0])],
        ),
    ),
    recorded(
        1000,
        44,
        streams.StreamsGroupTopologyKey(group_id="t"),
        streams.StreamsGroupTopologyValue(epoch=7),
    ),
]


def classic_row(
    number: int | None, event: str, at_ms: int, offset: int, members: int | None, sum_: int | None
) -> tuple[Any, ...]:
    """Return a row of group `a`; tombstones and empty generations lack some values."""
    gone, empty = event == "tombstone", event == "empty"
    return (
        "a", "classic", event, number, None if gone else "consumer",
        None if gone or empty else "range", None if gone or empty else "m1", members, sum_,
        None if gone else at_ms - empty, None, 0, offset, at_ms, DAY,
    )  # fmt: skip


def test_every_generation_is_a_row() -> None:
    """Generations, empty generations and removals have a row each.

    An unreadable assignment makes `partitions` null, without an error.
    """
    log = [*CLASSIC, *MODERN, *SHARE, *STREAMS]
    made = group_generations.make(bronze(offsets_log=log), NOW)
    nothing = (None, None, None)

    def modern_row(
        number: int | None, event: str, offset: int, members: int | None, owned: int | None
    ) -> tuple[Any, ...]:
        at_ms = 1000 * (number or 5)
        return (
            "k", "consumer", event, number, *nothing, members, owned, None, None, 0, offset, at_ms,
            DAY,
        )  # fmt: skip

    assert rows_of(made, schema.GROUP_GENERATIONS) == [
        classic_row(1, "generation", 1000, 1, 2, 4),
        classic_row(2, "generation", 2000, 2, 2, None),
        classic_row(3, "empty", 3000, 3, 0, 0),
        classic_row(None, "tombstone", 4000, 4, None, None),
        modern_row(1, "generation", 12, 1, 2),
        modern_row(2, "generation", 15, 2, 3),
        modern_row(3, "generation", 21, 1, 1),
        modern_row(4, "empty", 23, 0, 0),
        modern_row(None, "tombstone", 24, None, None),
        ("s", "share", "generation", 2, *nothing, 1, 2, None, None, 0, 31, 1000, DAY),
        # Members of streams groups have tasks instead of partitions, so the number of partitions
        # is unknown.
        ("t", "streams", "generation", 3, *nothing, 1, None, None, 990, 0, 41, 1000, DAY),
    ]


def test_when_an_epoch_was_assigned() -> None:
    """`assigned_ms` is the time of the epoch's target assignment since the group was created."""
    made = group_generations.make(bronze(offsets_log=COMPUTED), NOW)
    index = schema.GROUP_GENERATIONS.names.index("assigned_ms")
    times = [row[index] for row in rows_of(made, schema.GROUP_GENERATIONS)]
    assert times == [None, None, 3090, None, 5090]


def test_every_member_is_a_row() -> None:
    """Members of every generation and epoch have a row each, with subscription and assignment."""
    made = group_members.make(bronze(offsets_log=[*CLASSIC, *MODERN]), NOW)

    def classic(
        number: int, name: str, assigned: dict[str, list[int]] | None, problem: str | None = None
    ) -> tuple[Any, ...]:
        topics, count = None, None
        if assigned is not None:
            topics, count = sorted(assigned), sum(map(len, assigned.values()))
        return (
            "a", number, name, None, f"client-{name}", "/10.0.0.1", name == "m1", 45_000, 60_000,
            topics, partitions(assigned), count, None, 0, number, problem,
        )  # fmt: skip

    def modern(
        number: int,
        name: str,
        offset: int,
        topics: list[str],
        assigned: dict[str, list[int]],
        epochs: dict[str, list[int]] | None = None,
    ) -> tuple[Any, ...]:
        count = sum(map(len, assigned.values()))
        shown = epochs and [{"topic": name, "epochs": list_} for name, list_ in epochs.items()]
        return (
            "k", number, name, None, f"client-{name}", "/10.0.0.1", False, None, 60_000, topics,
            partitions(assigned), count, shown, 0, offset, None,
        )  # fmt: skip

    assert rows_of(made, schema.GROUP_MEMBERS) == [
        classic(1, "m1", {"t": [0, 1], "u": [0]}),
        classic(1, "m2", {"t": [2]}),
        classic(2, "m1", None, "truncated"),
        classic(2, "m2", {"t": [0]}),
        modern(1, "x", 12, ["orders"], {"orders": [0, 1]}),
        modern(2, "x", 15, ["orders"], {"orders": [0]}, {"orders": [1]}),
        # No commit names this topic, so only its topic id is known.
        modern(
            2,
            "y",
            15,
            ["orders", "lost"],
            {"orders": [1], "UNKNOWN-ID": [0]},
            {"orders": [2], "UNKNOWN-ID": [2]},
        ),
        modern(3, "x", 21, ["orders"], {"orders": [0]}, {"orders": [1]}),
    ]


def test_members_of_share_and_streams_groups() -> None:
    """Columns that share or streams members do not have are null."""
    made = group_members.make(bronze(offsets_log=[*SHARE, *STREAMS]), NOW)
    assigned = [{"topic": ID, "partitions": [0, 1]}]
    assert rows_of(made, schema.GROUP_MEMBERS) == [
        (
            "s", 2, "x", None, "c", "/h", False, None, None, ["orders"], assigned, 2, None, 0, 31,
            None,
        ),
        (
            "t", 3, "y", None, "c", "/h", False, None, 60_000, None, None, None, None, 0, 41,
            None,
        ),
    ]  # fmt: skip


def test_what_came_later_does_not_count_in_the_past() -> None:
    """For a past instant, later records have no row."""
    then = bronze(offsets_log=[*CLASSIC, *MODERN])
    made = group_generations.make(then, Questions(at_ms=2000, past=True))
    assert rows_of(made, schema.GROUP_GENERATIONS, "group", "log_offset") == [
        ("a", 1),
        ("a", 2),
        ("k", 12),
        ("k", 15),
    ]


def test_what_cannot_be_decoded_is_kept_with_its_reason() -> None:
    """A dead letter has the record in hex and the reason, and no decoded column."""
    made = dead_letters.make(bronze(offsets_log=CLASSIC), NOW)
    assert rows_of(made, schema.DEAD_LETTERS) == [(0, 5, 5000, 2, "version 9", "00", "0009")]
