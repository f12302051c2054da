"""Records as bytes and as log fields; who owned what."""

from __future__ import annotations

import json

import pytest

from coordinator_server.rebalances.ownership import (
    Member,
    assigned,
    identity,
    members_of,
    moves,
    subscribed,
)
from coordinator_server.rebalances.record import MAX_VALUE_BYTES, encode_record, log_fields
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
)
from protocol.offsets_log import GroupMetadataValue, RecordedMember
from tests.unit.group.classic.explained import ExplainedGroup, assignment
from tests.unit.rebalances.schema import faults


def test_a_record_as_json() -> None:
    """What is written is what a reader gets, whatever characters a client has sent."""
    group = ExplainedGroup()
    group.member("A").join(reason="bye \ud800 \u00fc \n")
    group.broker.advance(0)
    group.broker.unload()
    record = group.record()
    value = encode_record(record)
    assert value.isascii()
    assert json.loads(value) == record
    assert record["reason"] == "bye \ud800 \u00fc \n"


def test_a_record_that_is_too_long_leaves_its_lists_out() -> None:
    """Counts and times stay, and the schema is kept."""
    group = ExplainedGroup(max_size=3_000)
    names = [f"{number}-{'x' * 200}" for number in range(2_000)]
    members = group.completing(*names)
    group.assign({one: (index,) for index, one in enumerate(members)})
    record = group.records()[-1]
    value = encode_record(record)
    assert len(value) < 10_000 < MAX_VALUE_BYTES
    short = json.loads(value)
    assert faults(short) == []
    assert short["shortened"]
    assert short["members"] == []
    assert short["partitions"] == record["partitions"]
    assert not record["shortened"]


def test_the_log_is_told_in_short() -> None:
    """Fields without a value are left out."""
    group = ExplainedGroup()
    a, b = group.settled({"A": (0,), "B": (1,)})
    b.leave("closing")
    group.broker.advance(20)
    a.join()
    group.assign({a: (0, 1)})
    assert log_fields(group.record()) == {
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
    """Nobody is to blame, and where it was let go no partition is counted."""
    group = ExplainedGroup()
    group.settled({"A": (0,), "B": (1,)})
    group.broker.settings = group.broker.settings._replace(max_size=1)
    group.broker.crash()
    group.broker.unload()
    fields = log_fields(group.records()[-1])
    assert fields["trigger"] == "over capacity after load"
    assert not fields.keys() & {"member", "moved", "reason", "instance", "client_host", "error"}


def owners(**shares: str) -> dict[tuple[str, str], Member]:
    """Members with partitions of `t`: a="0 1"."""
    return {
        identity(name, None): Member(
            RecordedMember(member_id=name), {"t": [int(index) for index in share.split()]}
        )
        for name, share in shares.items()
    }


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {}, (0, 0, 0, 0)),
        ({}, {"a": "0 1"}, (0, 2, 0, 0)),
        ({"a": "0 1"}, {}, (0, 0, 2, 0)),
        ({"a": "0 1", "b": "2"}, {"a": "0", "b": "1 2"}, (1, 0, 0, 2)),
        ({"a": "0 1"}, {"b": "1 2"}, (1, 1, 1, 0)),
        # A careless assignor gives partition 0 to two members.
        ({"a": "0", "b": "0"}, {"a": "0", "b": "0"}, (0, 0, 0, 1)),
        ({"a": "0", "b": "0"}, {"a": "0", "b": ""}, (1, 0, 0, 0)),
    ],
)
def test_what_became_of_partitions(
    before: dict[str, str], after: dict[str, str], expected: tuple[int, int, int, int]
) -> None:
    """Moved, added, revoked and stayed; each partition is counted once."""
    assert moves(owners(**before), owners(**after)) == expected


def test_assignments_are_put_in_order() -> None:
    """Topics and partitions in order, each once, however the assignor has put them."""
    parts = [("b", [3, 1]), ("a", [0]), ("b", [1, 2]), ("c", [])]
    data = encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                TopicPartition(topic=topic, partitions=indexes) for topic, indexes in parts
            ]
        )
    )
    assert assigned(data) == {"a": [0], "b": [1, 2, 3]}
    assert list(assigned(data) or ()) == ["a", "b"]


@pytest.mark.parametrize("data", [b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\1\0\5abc"])
def test_junk_is_no_error(data: bytes) -> None:
    """Bytes that are no assignment or subscription cannot be read, and that is all."""
    assert assigned(data) is None
    assert subscribed(data) == frozenset()


def test_members_by_identity() -> None:
    """A static member is known by its instance id, even if that looks like a member id."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        members=[
            RecordedMember(member_id="m", assignment=assignment(t=(0,))),
            RecordedMember(member_id="n", group_instance_id="m", assignment=assignment(t=(1,))),
        ],
    )
    members = members_of(value)
    assert [one.partitions for one in members.values()] == [{"t": [0]}, {"t": [1]}]
    assert members_of(None) == {}
