"""Records as bytes and as log fields; changes of ownership."""

from __future__ import annotations

import json

import pytest

from coordinator_server.rebalances.ownership import (
    Identity,
    LoggedMember,
    assigned,
    members_of,
    moves,
    subscribed,
)
from coordinator_server.rebalances.record import MAX_VALUE_BYTES, encode_record, log_fields
from coordinator_server.steps import run_all
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
)
from protocol.offsets_log import GroupMetadataValue, RecordedMember
from tests.unit.core.groups.classic.explained import ExplainedGroup, assignment
from tests.unit.rebalances.schema import faults


def test_a_record_as_json() -> None:
    """A reader gets the written record, whatever characters a client has sent."""
    group = ExplainedGroup()
    group.member("A").join(reason="bye \ud800 \u00fc \n")
    group.broker.advance(0)
    group.broker.unload()
    (record,) = group.written()
    value = encode_record(record)
    assert value.isascii()
    assert json.loads(value)["reason"] == "bye \ud800 \u00fc \n"


def test_members_are_json_whatever_they_call_themselves() -> None:
    """Names that need JSON escapes, and static members, are preserved."""
    group = ExplainedGroup()
    (member,) = group.settled({'"\u00fc\\': (0,)}, instance_id='"\n')
    group.broker.advance(5)
    member.join()
    group.assign({member: (0, 1)})
    (entry,) = group.record()["members"]
    assert entry["member"] == entry["member_before"] == member.id
    assert entry["instance"] == '"\n'
    assert (entry["partitions_before"], entry["partitions"]) == ({"t": [0]}, {"t": [0, 1]})


def test_a_record_that_is_too_long_leaves_its_lists_out() -> None:
    """A record that is too long has counts, times and the schema, but no lists."""
    group = ExplainedGroup(max_size=3_000)
    names = [f"{number}-{'x' * 200}" for number in range(2_000)]
    members = group.completing(*names)
    group.assign({one: (index,) for index, one in enumerate(members)})
    record = group.written()[-1]
    value = encode_record(record)
    assert len(value) < 10_000 < MAX_VALUE_BYTES
    short = json.loads(value)
    assert faults(short) == []
    assert short["shortened"]
    assert short["members"] == []
    assert short["partitions"] == record.fields["partitions"]


def test_the_log_is_told_in_short() -> None:
    """Log fields without a value are left out."""
    group = ExplainedGroup()
    a, b = group.settled({"A": (0,), "B": (1,)})
    b.leave("closing")
    group.broker.advance(20)
    a.join()
    group.assign({a: (0, 1)})
    assert log_fields(group.written()[-1]) == {
        "group": "g",
        "generation": 2,
        "outcome": "stable",
        "trigger": "member left",
        "member": b.id,
        "client_host": "/127.0.0.1",
        "reason": "closing",
        "members_before": 2,
        "rejoined": 1,
        "joined": 0,
        "dropped": 0,
        "moved": 1,
        "initial_delay_ms": 0,
        "join_ms": 20,
        "sync_ms": 0,
    }


def test_the_log_is_told_of_a_rebalance_without_a_culprit() -> None:
    """The log fields of a rebalance without a culprit have no member.

    After an unload the log fields have no partition counts.
    """
    group = ExplainedGroup()
    group.settled({"A": (0,), "B": (1,)})
    group.broker.settings = group.broker.settings._replace(max_size=1)
    group.broker.crash()
    group.broker.unload()
    fields = log_fields(group.written()[-1])
    assert fields["trigger"] == "over capacity after load"
    assert not fields.keys() & {"member", "moved", "reason", "instance", "client_host", "error"}


def owners(**shares: str) -> dict[Identity, LoggedMember]:
    """Return members with partitions of `t`: a="0 1"."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        members=[
            RecordedMember(
                member_id=name, assignment=assignment(t=[int(index) for index in share.split()])
            )
            for name, share in shares.items()
        ],
    )
    return run_all(members_of(value))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {}, (0, 0, 0, 0)),
        ({}, {"a": "0 1"}, (0, 2, 0, 0)),
        ({"a": "0 1"}, {}, (0, 0, 2, 0)),
        ({"a": "0 1", "b": "2"}, {"a": "0", "b": "1 2"}, (1, 0, 0, 2)),
        ({"a": "0 1"}, {"b": "1 2"}, (1, 1, 1, 0)),
        # A faulty assignor gives partition 0 to two members.
        ({"a": "0", "b": "0"}, {"a": "0", "b": "0"}, (0, 0, 0, 1)),
        ({"a": "0", "b": "0"}, {"a": "0", "b": ""}, (1, 0, 0, 0)),
    ],
)
def test_what_became_of_partitions(
    before: dict[str, str], after: dict[str, str], expected: tuple[int, int, int, int]
) -> None:
    """Each partition is counted once: as moved, added, revoked or kept."""
    assert run_all(moves(owners(**before), owners(**after))) == expected


def test_assignments_are_put_in_order() -> None:
    """Topics and partitions are sorted and unique, whatever the assignor's order."""
    parts = [("b", [3, 1]), ("a", [0]), ("b", [1, 2]), ("c", [])]
    data = encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                TopicPartition(topic=topic, partitions=indexes) for topic, indexes in parts
            ]
        )
    )
    read = assigned(data)
    assert read is not None
    assert read.by_topic == {"a": [0], "b": [1, 2, 3]}
    assert read.pairs == (("a", 0), ("b", 1), ("b", 2), ("b", 3))
    assert read.json == '{"a":[0],"b":[1,2,3]}'


@pytest.mark.parametrize("data", [b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\1\0\5abc"])
def test_junk_is_no_error(data: bytes) -> None:
    """Unreadable assignments and subscriptions are not errors."""
    assert assigned(data) is None
    assert subscribed(data) == frozenset()


def test_members_by_identity() -> None:
    """A static member is identified by its instance id, even if that looks like a member id."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        members=[
            RecordedMember(member_id="m", assignment=assignment(t=(0,))),
            RecordedMember(member_id="n", group_instance_id="m", assignment=assignment(t=(1,))),
        ],
    )
    members = run_all(members_of(value))
    pairs = [member.assignment and member.assignment.pairs for member in members.values()]
    assert pairs == [(("t", 0),), (("t", 1),)]
    assert run_all(members_of(None)) == {}
