"""Consumer groups in APIs that describe, list and find groups."""

from __future__ import annotations

from typing import Any

from tests.conformance.consumer_members import (
    ConsumerMember,
    error,
    look_closely,
    members,
    reach,
    silently,
    stable,
    statics,
)
from tests.conformance.stage import Area, Stage

AREA = Area("consumer_describe", "d")

STATES = ["none", "Empty", "Stable", "Reconciling", "Assigning", "classic", "simple"]


def in_state(t: Stage, state: str) -> None:
    """Bring the scenario's group into the state."""
    if state == "classic":
        t.reach("stable", "M")
    elif state == "simple":
        silently(t, t.commit, [(t.t3, 0, 1)])
    elif state != "none":
        reach(t, state, *members(t, "AB"))


@AREA.each(state=STATES, version=[0, 1])
def consumer_group_describe(t: Stage, state: str, version: int) -> None:
    """Which fields does ConsumerGroupDescribe {version} return for a group that is {state}?"""
    in_state(t, state)
    whole(t, "whole", version, t.g)


def whole(t: Stage, label: str, version: int, *groups: str, **fields: Any) -> None:
    """Record the whole ConsumerGroupDescribe answer, and whether there is a message."""
    answer = t.raw("ConsumerGroupDescribe", version, {"group_ids": list(groups), **fields})
    shown = t.norm(answer)["groups"]
    for one, raw in zip(shown, answer["groups"], strict=True):
        one["has a message"] = raw["error_message"] is not None
        one["operations"] = raw["authorized_operations"]
        for member in one["members"]:
            for which in ("assignment", "target_assignment"):
                for topic in member[which]["topic_partitions"]:
                    topic["topic_name"] = t.sub(topic["topic_name"])
    t.rec(label, shown)


@AREA.each(state=STATES, version=[0, 5, 6])
def describe_groups(t: Stage, state: str, version: int) -> None:
    """What does DescribeGroups {version} return for a consumer group that is {state}?"""
    in_state(t, state)
    answer = t.raw("DescribeGroups", version, {"groups": [t.g]})["groups"][0]
    shown = t.norm(answer)
    shown["members"] = len(shown["members"])
    shown["has a message"] = answer.get("error_message") is not None
    t.rec("shown", shown)


FILTERS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "Stable": {"states_filter": ["Stable"]},
    "stable": {"states_filter": ["stable"]},
    "STABLE": {"states_filter": [" STABLE "]},
    "Empty": {"states_filter": ["Empty"]},
    "Assigning": {"states_filter": ["Assigning"]},
    "reconciling": {"states_filter": ["reconciling"]},
    "PreparingRebalance": {"states_filter": ["PreparingRebalance"]},
    "two states": {"states_filter": ["Empty", "Assigning"]},
    "unknown state": {"states_filter": ["nope"]},
    "consumer": {"types_filter": ["consumer"]},
    "Consumer": {"types_filter": ["Consumer"]},
    "classic": {"types_filter": ["classic"]},
    "share": {"types_filter": ["share"]},
    "two types": {"types_filter": ["classic", "consumer"]},
    "unknown type": {"types_filter": ["nope"]},
    "stable consumer": {"states_filter": ["Stable"], "types_filter": ["consumer"]},
    "stable classic": {"states_filter": ["Stable"], "types_filter": ["classic"]},
}


@AREA.each(state=["Empty", "Stable", "Reconciling", "Assigning", "classic", "simple"])
def filters_of_list_groups(t: Stage, state: str) -> None:
    """With which filters does ListGroups list a group that is {state}?"""
    in_state(t, state)
    for name, fields in FILTERS.items():
        answer = t.raw("ListGroups", 5, fields)
        found = any(one["group_id"] == t.g for one in answer["groups"])
        t.rec(name, [error(answer["error_code"]), found])


@AREA.each(version=[0, 1, 2, 3, 4, 5])
def list_groups(t: Stage, version: int) -> None:
    """Which fields does ListGroups {version} have for a stable consumer group?"""
    in_state(t, "Stable")
    answer = t.raw("ListGroups", version, {})
    t.rec("listed", [t.norm(one) for one in answer["groups"] if one["group_id"] == t.g])
    if version == 4:
        answer = t.raw("ListGroups", version, {"states_filter": ["Stable"]})
        t.rec("stable", sum(one["group_id"] == t.g for one in answer["groups"]))


@AREA.each(version=[0, 1])
def several_groups(t: Stage, version: int) -> None:
    """ConsumerGroupDescribe {version} names known, unknown, classic, empty and repeated groups."""
    other, classic = t.group("other"), t.group("classic")
    stable(t, ConsumerMember(t, "A"))
    stable(t, ConsumerMember(t, "B", group=other))
    silently(t, t.commit, [(t.t3, 0, 1)], group=classic)
    body = {"group_ids": [t.g, t.group("unknown"), other, classic, "", t.g]}
    answer = t.raw("ConsumerGroupDescribe", version, body)
    shown = [[t.sub(one["group_id"]), error(one["error_code"])] for one in answer["groups"]]
    t.rec("errors", sorted(shown))


@AREA.each(version=[0, 1], state=["Stable", "none"])
def authorized_operations(t: Stage, version: int, state: str) -> None:
    """Which authorized operations does ConsumerGroupDescribe {version} return for state {state}?"""
    in_state(t, state)
    whole(t, "with", version, t.g, include_authorized_operations=True)
    whole(t, "without", version, t.g)


@AREA.scenario
def members_in_all_colours(t: Stage) -> None:
    """How are dynamic, static, regex and v0 members described, with and without racks?"""
    a = ConsumerMember(t, "A", [t.t1, t.t3], rack_id="r1")
    b = ConsumerMember(t, "B", [t.t3], instance_id="i-B")
    c = ConsumerMember(t, "C", [t.tx], regex="no-such-.*", rack_id="r2")
    d = ConsumerMember(t, "D", [], version=0)
    for member in (a, b, c, d):
        silently(t, member.join)
    look_closely(t)


@AREA.scenario
def whole_while_reconciling(t: Stage) -> None:
    """Which fields are returned while A must revoke partitions for B, and B waits?"""
    a, b = statics(t, "AB", rack_id="r1")
    stable(t, a)
    silently(t, b.join)
    silently(t, a.beat)
    whole(t, "whole", 1, t.g)


@AREA.each(version=[0, 1])
def deleted_topics_are_left_out(t: Stage, version: int) -> None:
    """ConsumerGroupDescribe {version} omits deleted topics."""
    topic = t.topic(1, "gone")
    t.coordinator_learns()
    stable(t, ConsumerMember(t, "A", [topic, t.t1]))
    t.delete_topic(topic)
    t.coordinator_learns()
    whole(t, "whole", version, t.g)


@AREA.scenario
def found_like_any_group(t: Stage) -> None:
    """What do FindCoordinator and classic requests of non-members return for a consumer group?"""
    in_state(t, "Stable")
    answer = t.raw("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": [t.g]})
    t.rec("found", error(answer["coordinators"][0]["error_code"]))
    m = t.member("M")
    m.id, m.gen = "no-such-member", 3
    m.hb()
    m.sync_now()
    m.leave(v=3)
    m.leave(v=1)
    m.commit([(t.t3, 0, 1)])
