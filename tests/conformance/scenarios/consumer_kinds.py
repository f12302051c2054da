"""Requests of one group type to groups of another: consumer, share and classic."""

from __future__ import annotations

from typing import Any

from tests.conformance.classic_members import ClassicMember
from tests.conformance.consumer_members import ConsumerMember, error, listed, look, silently
from tests.conformance.consumer_offsets import commit, fetch
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_kinds", "d")


def share_heartbeat(t: Stage, label: str, epoch: int, **fields: Any) -> None:
    """Send ShareGroupHeartbeat of S and record the error."""
    body = {
        "group_id": t.g,
        "member_id": "member-s",
        "member_epoch": epoch,
        "subscribed_topic_names": [t.t3],
        **fields,
    }
    answer = t.raw("ShareGroupHeartbeat", 1, body)
    t.rec(label, error(answer["error_code"]))


@AREA.each(state=["Stable", "Empty"])
def share_member_of_a_consumer_group(t: Stage, state: str) -> None:
    """A share member joins, beats and leaves in a consumer group that is {state}."""
    a = ConsumerMember(t, "A").joined()
    if state == "Empty":
        a.leave()
    for label, epoch in (("joins", 0), ("beats", 2), ("leaves", -1)):
        share_heartbeat(t, label, epoch)
    answer = t.raw("ShareGroupDescribe", 1, {"group_ids": [t.g]})
    t.rec("described", error(answer["groups"][0]["error_code"]))
    listed(t)


@AREA.each(state=["Stable", "Empty"])
def consumer_of_a_share_group(t: Stage, state: str) -> None:
    """A consumer joins, beats and leaves in a share group that is {state}."""
    share_heartbeat(t, "S joins", 0)
    if state == "Empty":
        share_heartbeat(t, "S leaves", -1)
    a = ConsumerMember(t, "A")
    a.join()
    a.beat(member_epoch=2)
    a.leave()
    look(t)
    m = ClassicMember(t, "M")
    m.join_now()
    m.beat()
    m.sync_now()
    m.leave()
    commit(t, "nobody commits", (t.t3, 0, 1))
    fetch(t, "fetch")
    listed(t)


@AREA.scenario
def share_member_of_a_classic_group(t: Stage) -> None:
    """A share member sends requests to a Stable classic group, and to an empty one."""
    m = ClassicMember(t, "M")
    m.join_now()
    m.sync_now(shares={"M": {}})
    share_heartbeat(t, "S joins", 0)
    m.leave()
    share_heartbeat(t, "S joins the empty one", 0)
    listed(t)


@AREA.each(state=["none", "Empty", "Stable"])
def described_as_another_kind(t: Stage, state: str) -> None:
    """ShareGroupDescribe and StreamsGroupDescribe name a consumer group that is {state}."""
    a = ConsumerMember(t, "A")
    if state != "none":
        silently(t, a.join)
    if state == "Empty":
        silently(t, a.leave)
    for api, version in (("ShareGroupDescribe", 1), ("StreamsGroupDescribe", 0)):
        answer = t.raw(api, version, {"group_ids": [t.g]})["groups"][0]
        message = answer["error_message"] is not None
        t.rec(api, [error(answer["error_code"]), answer["group_state"], message])


@AREA.scenario
def deleted_and_of_another_kind(t: Stage) -> None:
    """A deleted consumer group's name is free for a share group, then for a consumer group."""
    a = ConsumerMember(t, "A").joined()
    a.leave()
    t.delete_groups()
    share_heartbeat(t, "S joins", 0)
    listed(t)
    share_heartbeat(t, "S leaves", -1)
    a.join("joins again")
    listed(t)


@AREA.scenario
def listed_by_type(t: Stage) -> None:
    """Which groups does ListGroups return for each type?"""
    share, simple = t.group("share"), t.group("simple")
    silently(t, ConsumerMember(t, "A").join)
    share_heartbeat(t, "S joins", 0, group_id=share)
    silently(t, t.commit, [(t.t3, 0, 1)], group=simple)
    names = {t.g: "consumer group", share: "share group", simple: "simple group"}
    for types in ([], ["consumer"], ["share"], ["classic"], ["share", "consumer"]):
        answer = t.raw("ListGroups", 5, {"types_filter": types})
        found = [names[one["group_id"]] for one in answer["groups"] if one["group_id"] in names]
        t.rec(f"of {types}", sorted(found))
