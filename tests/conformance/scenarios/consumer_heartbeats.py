"""ConsumerGroupHeartbeat: valid values of each field, in the first heartbeat and in later ones."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer_members import (
    ConsumerMember,
    error,
    look,
    look_closely,
    settle,
    silently,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_heartbeats", "d")


def text(t: Stage, label: str, **fields: Any) -> None:
    """Record the error message of a heartbeat of the group."""
    body = {"group_id": t.g, "member_id": "A", "rebalance_timeout_ms": 9000, **fields}
    answer = t.raw("ConsumerGroupHeartbeat", 1, body)
    message = answer["error_message"] or ""
    t.rec(label, [error(answer["error_code"]), message.replace(t.g, "<g>")])


@AREA.each("first_{version}_offsets_topic", version=[0, 1])
def first_with_offsets_topic(t: Stage, version: int) -> None:
    """What does a first heartbeat v{version} that subscribes to __consumer_offsets return?"""
    # Do not record the whole response, because the partitions of __consumer_offsets depend on the
    # broker's settings.
    a = ConsumerMember(t, "A", ["__consumer_offsets", t.t1], version=version)
    answer = silently(t, a.join)
    t.rec("A joins", [error(answer["error_code"]), answer["member_epoch"], len(a.owned)])


@AREA.each(version=[0, 1])
def whole_answers(t: Stage, version: int) -> None:
    """Which fields do answers to a join, a heartbeat, a leave and refused requests have?"""
    a = ConsumerMember(t, "A", instance_id="i-A", version=version)
    for label, call in (("join", a.join), ("beat", a.beat), ("full", a.full)):
        whole(t, label, silently(t, call))
    whole(t, "away", silently(t, a.leave_for_a_while))
    whole(t, "back", silently(t, a.join))
    whole(t, "no group id", silently(t, a.beat, group_id=""))
    whole(t, "unknown member", silently(t, a.beat, member_id="member-z"))
    whole(t, "fenced", silently(t, a.beat, member_epoch=99))
    whole(t, "unsupported assignor", silently(t, a.beat, server_assignor="sticky"))
    whole(t, "leave", silently(t, a.leave))
    whole(t, "gone", silently(t, a.beat))


def whole(t: Stage, label: str, answer: Any) -> None:
    """Record a whole answer, and whether it has a message."""
    shown = t.norm(answer)
    shown["has a message"] = answer["error_message"] is not None
    t.rec(label, shown)


@AREA.each(version=[0, 1])
def members_with_given_ids(t: Stage, version: int) -> None:
    """Two members send no id (v{version}): in version 0 the broker generates ids."""
    a, b = (ConsumerMember(t, name, member_id="", version=version) for name in "AB")
    for member in (a, b):
        answer = member.join()
        if answer["error_code"]:
            return
        t.rec("id", [len(member.id), member.id == answer["member_id"]])
        member.ack()
    t.rec("different", a.id != b.id)
    a.join("joins without id once more", member_id="")
    settle(t, a, b)
    t.rec("partitions", sorted([a.count, b.count]))


@AREA.scenario
def client_without_a_name(t: Stage) -> None:
    """The client id comes from the request header; it may be null, and it may change."""
    a = ConsumerMember(t, "A")
    body = {"group_id": t.g, "member_id": a.id, **a.joining, "topic_partitions": []}
    for client_id in (None, "", "first", "second"):
        pending = t.send(
            a.connection, "ConsumerGroupHeartbeat", 1, body | {"member_epoch": 0}, "join", client_id
        )
        silently(t, t.got, pending)
        t.rec(f"joins as {client_id}", error(pending.raw["error_code"]))
        look_closely(t)
    look(t)
