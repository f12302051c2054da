"""ConsumerGroupHeartbeat on the wire: several at once, odd bytes, answers in order."""

from __future__ import annotations

import struct
from typing import Any

from tests.conformance import wire
from tests.conformance.connection import Closed, Pending
from tests.conformance.consumer_members import (
    ConsumerMember,
    listed,
    look,
    members,
    shown,
    silently,
    stable,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_wires", "d")


def send(t: Stage, member: ConsumerMember, **fields: Any) -> Pending:
    """Send a member's heartbeat on A's connection and return it, without waiting."""
    body = {"group_id": t.g, "member_id": member.id, "member_epoch": member.epoch, **fields}
    return t.send(member.connection, "ConsumerGroupHeartbeat", 1, body)


def first(member: ConsumerMember) -> dict[str, Any]:
    """Return the fields of a first heartbeat."""
    return {**member.joining, "member_epoch": 0, "topic_partitions": []}


def answers(t: Stage, **pendings: Pending) -> None:
    """Record answers in short form, in the given order."""
    silently(t, t.got, *pendings.values())
    for label, pending in pendings.items():
        raw = pending.raw
        t.rec(label, shown(t, raw) if isinstance(raw, dict) else raw)


@AREA.scenario
def join_and_heartbeats_in_a_row(t: Stage) -> None:
    """A join and two heartbeats are sent at once, and answered in order."""
    a = ConsumerMember(t, "A")
    join = send(t, a, **first(a))
    beat = send(t, a, member_epoch=2)
    wrong = send(t, a, member_epoch=3)
    leave = send(t, a, member_epoch=-1)
    after = send(t, a, member_epoch=2)
    answers(t, join=join, beat=beat, wrong=wrong, leave=leave, after=after)
    look(t)


@AREA.scenario
def members_on_one_connection(t: Stage) -> None:
    """Three members join at once on one connection."""
    group = members(t, "ABC")
    for member in group[1:]:
        member.connection = group[0].connection
    a, b, c = [send(t, member, **first(member)) for member in group]
    answers(t, a=a, b=b, c=c)
    look(t)


@AREA.scenario
def join_sent_twice_at_once(t: Stage) -> None:
    """The same join is sent twice at once."""
    a = ConsumerMember(t, "A")
    answers(t, one=send(t, a, **first(a)), two=send(t, a, **first(a)))
    look(t)


@AREA.scenario
def revocation_in_a_row(t: Stage) -> None:
    """All heartbeats of a revocation are sent at once."""
    a, b = members(t, "AB")
    stable(t, a)
    b.connection = a.connection
    kept = [{"topic_id": one, "partitions": [0, 1]} for one in _t3(t)]
    pendings = {
        "B joins": send(t, b, **first(b)),
        "A is asked": send(t, a),
        "A has revoked": send(t, a, topic_partitions=kept),
        "B is given": send(t, b, member_epoch=3),
    }
    answers(t, **pendings)
    look(t)


def _t3(t: Stage) -> list[bytes]:
    return [one for one, symbol in t.env.topic_ids.items() if symbol == "<id:t3>"]


@AREA.scenario
def commit_and_leave_in_a_row(t: Stage) -> None:
    """A commit, a leave and a commit of one member are sent at once on one connection."""
    a = ConsumerMember(t, "A").joined()
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    body = {
        "group_id": t.g,
        "generation_id_or_member_epoch": a.epoch,
        "member_id": a.id,
        "topics": [{"name": t.t3, "partitions": [partition]}],
    }
    before = t.send(a.connection, "OffsetCommit", 9, body)
    leave = send(t, a, member_epoch=-1)
    after = t.send(a.connection, "OffsetCommit", 9, body)
    silently(t, t.got, before, leave, after)
    for label, pending in (("before", before), ("after", after)):
        t.rec(label, t.norm(pending.raw))
    t.offs()


@AREA.scenario
def connection_closes(t: Stage) -> None:
    """A member's connection closes: the member stays, and continues on another connection."""
    a = ConsumerMember(t, "A").joined()
    a.connection.close()
    a.connection = t.conn()
    a.beat()
    look(t)


@AREA.scenario
def join_of_a_closed_connection(t: Stage) -> None:
    """A join is sent and the connection closed at once: the member still joins."""
    a = ConsumerMember(t, "A")
    send(t, a, **first(a))
    t.nap(0.2)
    a.connection.close()
    t.nap(0.1)
    look(t)


ODD: dict[str, dict[str, Any]] = {
    "unknown tags": {"_tags": {7: b"x", 9000: b""}},
    "tags of tag 0": {"_tags": {0: b"\x00"}},
}


@AREA.each(odd=list(ODD))
def odd_tags(t: Stage, odd: str) -> None:
    """A heartbeat with {odd} is accepted."""
    a = ConsumerMember(t, "A")
    a.join(**ODD[odd])
    look(t)


def _frame(t: Stage, member: ConsumerMember, change: str) -> bytes:
    body = {"group_id": t.g, "member_id": member.id, "member_epoch": 0, **first(member)}
    frame: bytes = wire.enc_request("ConsumerGroupHeartbeat", 1, 1, "conf", body)
    return {
        "cut off": frame[:-4],
        "bytes left over": frame + b"more",
        "empty": frame[: frame.index(b"conf") + 5],
        "a topic count beyond the end": frame.replace(
            b"\x02" + bytes([len(t.t3) + 1]) + t.t3.encode(),
            b"\xff\xff\xff\xff\x07" + bytes([len(t.t3) + 1]) + t.t3.encode(),
        ),
        "a name that is no text": frame.replace(t.t3.encode(), b"\xff" * len(t.t3)),
        "a name with a zero byte": frame.replace(t.t3.encode(), b"\x00" * len(t.t3)),
        "version in the body": struct.pack(">hhi", 68, 1, 1) + b"\xff\xff\x00",
    }[change]


ODD_FRAMES = [
    "cut off",
    "bytes left over",
    "empty",
    "a topic count beyond the end",
    "a name that is no text",
    "a name with a zero byte",
    "version in the body",
]


@AREA.each(change=ODD_FRAMES)
def odd_frames(t: Stage, change: str) -> None:
    """A heartbeat's frame is changed by this case: {change}."""
    a = ConsumerMember(t, "A")
    frame = _frame(t, a, change)
    a.connection.send_frame(frame)
    try:
        got = a.connection.recv_frame(0.6)
    except Closed:
        t.rec("answer", "CLOSED")
    else:
        if got is None:
            t.rec("answer", "silent")
        else:
            _, answer = wire.dec_response("ConsumerGroupHeartbeat", 1, got)
            t.rec("answer", shown(t, answer))
    listed(t)
