"""Tasks of streams groups: active, standby, revoked, taken over; and requests of other types."""

from __future__ import annotations

from typing import Any

from tests.conformance import group_settings, share_looks, streams
from tests.conformance.producers import error
from tests.conformance.shares import ShareMember
from tests.conformance.stage import Area, Stage
from tests.conformance.streams import (
    StreamsMember,
    Topology,
    members,
    simple,
    subtopology,
    topology,
)

AREA = Area("streams_tasks")


def _with_state(t: Stage, *sources: str) -> Topology:
    """Return one subtopology with a changelog."""
    log = streams.internal(t, "log")
    return topology(subtopology("0", sources, changelogs=[log]))


@AREA.scenario
def given_up_step_by_step(t: Stage) -> None:
    """A second member joins: what does each member get until both members have tasks?"""
    a = StreamsMember(t, "A", simple(t.tx)).joined()
    b = StreamsMember(t, "B", simple(t.tx))
    b.join()
    b.owning("waits")
    a.heartbeat("says nothing of its tasks")
    answer = a.owning("keeps what it should not")
    assert answer is not None
    (kept,) = a.owned["active"]["0"]
    t.rec("tasks of A", len(a.owned["active"]["0"]))
    a.heartbeat("has given one up", owns={"active": {"0": [kept]}})
    b.owning("gets it")
    streams.spread(t)


@AREA.each(names=["AB", "ABC", "ABCD"], partitions=[1, 2, 3])
def spread_over_members(t: Stage, names: str, partitions: int) -> None:
    """How do members {names} share {partitions} tasks, also after A leaves?"""
    topic = {1: t.t1, 2: t.tx, 3: t.t3}[partitions]
    joined = members(t, names, simple(topic))
    streams.spread(t)
    joined[0].leave()
    joined[1].settled(*joined[2:])
    streams.spread(t, "after A has left")


@AREA.scenario
def several_subtopologies(t: Stage) -> None:
    """How do two members share the tasks of three subtopologies?"""
    parts = [subtopology("0", [t.t1]), subtopology("1", [t.tx]), subtopology("2", [t.t3])]
    members(t, "AB", topology(*parts))
    streams.spread(t)


@AREA.each(replicas=["0", "1", "2"], names=["A", "AB", "ABC"])
def standbys(t: Stage, replicas: str, names: str) -> None:
    """Where are {replicas} standby replicas of a stateful subtopology, with members {names}?"""
    share_looks.configure(t, {"streams.num.standby.replicas": replicas})
    members(t, names, _with_state(t, t.tx))
    streams.spread(t)


@AREA.scenario
def standbys_without_a_state(t: Stage) -> None:
    """Stateless tasks have no standby tasks."""
    share_looks.configure(t, {"streams.num.standby.replicas": "1"})
    members(t, "AB", simple(t.tx))
    streams.spread(t)


@AREA.scenario
def standbys_in_one_process(t: Stage) -> None:
    """Members of one process get no standby tasks of each other's active tasks."""
    share_looks.configure(t, {"streams.num.standby.replicas": "1"})
    members(t, "AB", _with_state(t, t.tx), processes="PP")
    streams.spread(t)


@AREA.scenario
def standbys_that_are_switched_on(t: Stage) -> None:
    """The config of standby replicas changes from 0 to 1 and back."""
    a, b = members(t, "AB", _with_state(t, t.t1))
    epoch = streams.described_group(t)["group_epoch"]
    for replicas in ("1", "0"):
        share_looks.configure(t, {"streams.num.standby.replicas": replicas})
        t.sleep(0.1)
        a.settled(b)
        streams.spread(t, f"{replicas} replicas")
        later = streams.described_group(t)["group_epoch"]
        t.rec("epochs later", later - epoch)


@AREA.scenario
def standby_takes_over(t: Stage) -> None:
    """The member with the active task leaves, and the one with the standby task takes over."""
    share_looks.configure(t, {"streams.num.standby.replicas": "1"})
    joined = members(t, "AB", _with_state(t, t.t1))
    (first,) = [one for one in joined if one.owned["active"]]
    (second,) = [one for one in joined if one.owned["standby"]]
    t.rec("different members", first is not second)
    t.setup(first.leave)
    second.settled()
    t.rec("tasks", second.owned)


@AREA.scenario
def tasks_of_a_member_that_comes_back(t: Stage) -> None:
    """A member leaves and joins with a new id in the same process: each has one task again."""
    a, b = members(t, "AB", simple(t.tx))
    t.setup(b.leave)
    a.settled()
    t.rec("tasks of A", a.owned["active"])
    back = StreamsMember(t, "C", simple(t.tx), process="B")
    t.setup(back.join)
    a.settled(back)
    t.rec("counts", [len(one.owned["active"]["0"]) for one in (a, back)])


@AREA.scenario
def tasks_that_it_does_not_have(t: Stage) -> None:
    """A member reports the other member's tasks as owned."""
    a, b = members(t, "AB", simple(t.tx))
    a.heartbeat("owns all", owns={"active": {"0": [0, 1]}})
    streams.spread(t)
    b.owning()
    a.owning()
    streams.spread(t)


@AREA.scenario
def standby_tasks_that_it_does_not_have(t: Stage) -> None:
    """A member reports a standby task of its own active task as owned, then no tasks."""
    (a,) = members(t, "A", _with_state(t, t.t1))
    a.heartbeat("standby", owns={"active": {"0": [0]}, "standby": {"0": [0]}})
    a.heartbeat("nothing", owns={})
    a.owning()
    streams.described(t)


_CONFIGS = {
    "streams.session.timeout.ms": ["499", "500", "501", "60000", "60001"],
    "streams.heartbeat.interval.ms": ["99", "100", "15000", "15001"],
    "streams.num.standby.replicas": ["-1", "0", "2", "3"],
    "streams.initial.rebalance.delay.ms": ["-1", "0", "100000"],
    "streams.assignment.interval.ms": ["-1", "0", "15000", "15001"],
}


@AREA.each(name=list(_CONFIGS))
def values_of_a_config(t: Stage, name: str) -> None:
    """Which values of the group config {name} are valid, and how are they described?"""
    for value in _CONFIGS[name]:
        t.rec(f"set '{value}'", share_looks.alter_configs(t, {name: value}))
    t.sleep(0.2)
    t.rec("shown", list(share_looks.described_configs(t, [name])[name]))


@AREA.each(state=["unknown", "stable", "not ready", "empty"])
def described_and_listed(t: Stage, state: str) -> None:
    """What do all descriptions, lists and deletions return for a group that is {state}?"""
    _reach(t, state)
    streams.described(t)
    for api, field in (("DescribeGroups", "groups"), ("ConsumerGroupDescribe", "group_ids")):
        version = 6 if api == "DescribeGroups" else 1
        answer = t.raw(api, version, {field: [t.g]})["groups"][0]
        t.rec(api, [error(answer["error_code"]), answer["group_state"]])
    for label, filters in (
        ("all", {}),
        ("type streams", {"types_filter": ["Streams"]}),
        ("type consumer", {"types_filter": ["consumer"]}),
        ("state stable", {"states_filter": ["stable"]}),
        ("state NotReady", {"states_filter": ["notready"]}),
    ):
        answer = t.raw("ListGroups", 5, filters)
        groups = [one for one in answer["groups"] if one["group_id"] == t.g]
        shown = [[one["group_state"], one["protocol_type"], one["group_type"]] for one in groups]
        t.rec(label, shown)
    t.delete_groups()
    streams.described(t)


@AREA.each(state=["stable", "empty"])
def requests_of_other_types(t: Stage, state: str) -> None:
    """What do members of other types get for a streams group that is {state}?"""
    a = _reach(t, state)
    join = {
        "group_id": t.g,
        "member_id": "",
        "session_timeout_ms": 9000,
        "rebalance_timeout_ms": 9000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    t.rec("JoinGroup", error(t.raw("JoinGroup", 3, join)["error_code"]))
    consumer = {
        "group_id": t.g,
        "member_id": "consumer",
        "member_epoch": 0,
        "rebalance_timeout_ms": 9000,
        "subscribed_topic_names": [t.t1],
        "topic_partitions": [],
    }
    answer = t.raw("ConsumerGroupHeartbeat", 1, consumer)
    t.rec("ConsumerGroupHeartbeat", error(answer["error_code"]))
    ShareMember(t, "S").heartbeat("of a share member", t.t1)
    share_looks.described(t, "ShareGroupDescribe")
    heartbeat = {"group_id": t.g, "generation_id": 1, "member_id": a.id}
    t.rec("Heartbeat", error(t.raw("Heartbeat", 3, heartbeat)["error_code"]))


@AREA.each(other=["classic", "classic empty", "consumer", "share", "offsets"])
def streams_members_in_groups_of_other_types(t: Stage, other: str) -> None:
    """What does a streams member get for a group that is {other}?"""
    if other == "classic":
        t.stable("C")
    elif other == "classic empty":
        t.reach("empty", "C")
    elif other == "share":
        t.setup(ShareMember(t, "S").heartbeat, "", t.t1)
    elif other == "consumer":
        body = {
            "group_id": t.g,
            "member_id": "consumer",
            "member_epoch": 0,
            "rebalance_timeout_ms": 9000,
            "subscribed_topic_names": [t.t1],
            "topic_partitions": [],
        }
        assert t.raw("ConsumerGroupHeartbeat", 1, body)["error_code"] == 0
    else:
        _commit(t, {"generation_id": -1})
    a = StreamsMember(t, "A", simple(t.t1))
    a.join()
    a.heartbeat("goes on", member_epoch=2)
    streams.described(t)
    share_looks.listed(t)


def _commit(t: Stage, who: dict[str, Any]) -> str:
    partition = {"partition_index": 0, "committed_offset": 1}
    topics = [{"name": t.t1, "partitions": [partition]}]
    body = {"group_id": t.g, "topics": topics}
    schema = {"generation_id": "generation_id_or_member_epoch"}
    body |= {schema.get(key, key): value for key, value in who.items()}
    answer = t.raw("OffsetCommit", 9, body)
    return error(answer["topics"][0]["partitions"][0]["error_code"])


@AREA.each(epoch=["right", "older", "newer", "none", "unknown member"])
def commits(t: Stage, epoch: str) -> None:
    """A streams member sends OffsetCommit and OffsetFetch: {epoch}."""
    (a,) = members(t, "A", simple(t.t1))
    t.setup(a.join, rack_id="r")
    a.settled()
    number = {"right": a.epoch, "older": a.epoch - 1, "newer": a.epoch + 1}.get(epoch, -1)
    member = {"none": "", "unknown member": "nobody"}.get(epoch, a.id)
    if epoch == "unknown member":
        number = a.epoch
    t.rec("OffsetCommit", _commit(t, {"generation_id": number, "member_id": member}))
    group = {"group_id": t.g, "topics": None, "member_id": member or None, "member_epoch": number}
    answer = t.raw("OffsetFetch", 9, {"groups": [group]})["groups"][0]
    offsets = [one["committed_offset"] for topic in answer["topics"] for one in topic["partitions"]]
    t.rec("OffsetFetch", [error(answer["error_code"]), offsets])
    t.delete_offsets((t.t1, 0), label="OffsetDelete")


def _reach(t: Stage, state: str) -> StreamsMember:
    a = StreamsMember(t, "A", simple(t.t1 if state != "not ready" else f"{t.g}-none"))
    if state != "unknown":
        t.setup(a.join)
    if state == "empty":
        t.setup(a.leave)
    return a


def _offset(number: int) -> list[dict[str, Any]]:
    return [{"subtopology_id": "0", "partition": 0, "offset": number}]


def _held(t: Stage, label: str) -> None:
    """Record the tasks of each member by kind."""
    shown = {
        t.sub(one["member_id"]): [
            sum(len(part["partitions"]) for part in one["assignment"][f"{kind}_tasks"])
            for kind in streams.KINDS
        ]
        for one in streams.described_group(t)["members"]
    }
    t.rec(label, dict(sorted(shown.items())))


@AREA.each(furthest=["B", "C"])
def state_decides(t: Stage, furthest: str) -> None:
    """A leaving member's task goes to the member that reports the largest offset: {furthest}."""
    a, b, c = members(t, "ABC", _with_state(t, t.t1))
    first = next(one for one in (a, b, c) if one.owned["active"])
    second, third = (one for one in (a, b, c) if one is not first)
    for one in (second, third):
        is_furthest = (one is second) is (furthest == "B")
        t.setup(lambda one=one, far=is_furthest: one.owning(task_offsets=_offset(9 if far else 5)))
    t.setup(first.leave)
    second.settled(third)
    winner = second if furthest == "B" else third
    t.rec("has the task", [len(one.owned["active"]) for one in (winner,)])


@AREA.scenario
def no_warm_up(t: Stage) -> None:
    """Warm-up replicas and rack tags are configured, and a task's state is far behind."""
    group_settings.alter(
        t,
        "configs",
        ("streams.num.warmup.replicas", group_settings.SET, "2"),
        ("streams.num.standby.replicas", group_settings.SET, "1"),
        ("streams.rack.aware.assignment.tags", group_settings.SET, "zone"),
    )
    wanted = _with_state(t, t.t1)
    a = StreamsMember(t, "A", wanted)
    zone: dict[str, Any] = {
        "one": [{"key": "zone", "value": "1"}],
        "two": [{"key": "zone", "value": "2"}],
    }
    a.join(client_tags=zone["one"])
    t.setup(a.settled)
    b, c = StreamsMember(t, "B", wanted), StreamsMember(t, "C", wanted)
    ends: dict[str, Any] = {"task_end_offsets": _offset(1_000_000)}
    t.setup(lambda: b.join(client_tags=zone["one"], task_offsets=_offset(9), **ends))
    t.setup(lambda: c.join(client_tags=zone["two"], task_offsets=_offset(5), **ends))
    a.settled(b, c)
    _held(t, "active, standby and warm-up tasks")
