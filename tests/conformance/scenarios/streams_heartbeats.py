"""StreamsGroupHeartbeat: fields, epochs, sessions, endpoints, application shutdown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tests.conformance import share_looks, streams
from tests.conformance.producers import error
from tests.conformance.stage import Area, Stage
from tests.conformance.streams import StreamsMember, members, simple

AREA = Area("streams_heartbeats")

_TASK = [{"subtopology_id": "0", "partitions": [0]}]
_OFFSET = [{"subtopology_id": "0", "partition": 0, "offset": 5}]
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "no topology": {"topology": None},
    "no rebalance timeout": {"rebalance_timeout_ms": -1},
    "rebalance timeout 0": {"rebalance_timeout_ms": 0},
    "active tasks": {"active_tasks": _TASK},
    "standby tasks": {"standby_tasks": _TASK},
    "warmup tasks": {"warmup_tasks": _TASK},
    "active tasks only": {"active_tasks": [], "standby_tasks": None, "warmup_tasks": None},
    "no tasks": {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None},
    "an instance": {"instance_id": "i"},
    "empty instance": {"instance_id": ""},
    "a rack": {"rack_id": "r"},
    "empty rack": {"rack_id": ""},
    "empty group": {"group_id": ""},
    "empty member": {"member_id": ""},
    "long member": {"member_id": "m" * 40},
    "no process": {"process_id": None},
    "task offsets": {"task_offsets": _OFFSET},
    "task end offsets": {"task_end_offsets": _OFFSET},
    "leaving for a while": {"member_epoch": -2},
    "epoch -3": {"member_epoch": -3},
}
_LATER: Mapping[str, Mapping[str, Any]] = {
    **{name: fields for name, fields in _FIELDS.items() if name not in ("no topology", "no tasks")},
    "a topology": {"topology": {"epoch": 0, "subtopologies": []}},
    "another process": {"process_id": "another"},
    "another rebalance timeout": {"rebalance_timeout_ms": 5000},
    "a tag": {"client_tags": [{"key": "zone", "value": "a"}]},
    "unknown subtopology": {
        "active_tasks": [{"subtopology_id": "9", "partitions": [0]}],
        "standby_tasks": [],
        "warmup_tasks": [],
    },
    "unknown task": {
        "active_tasks": [{"subtopology_id": "0", "partitions": [77]}],
        "standby_tasks": [],
        "warmup_tasks": [],
    },
}


@AREA.each(field=list(_FIELDS))
def first_request(t: Stage, field: str) -> None:
    """Which group results from a first heartbeat with {field}?"""
    a = StreamsMember(t, "A", simple(t.t1))
    a.join(field, **_FIELDS[field])
    streams.described(t)


@AREA.each(field=list(_LATER))
def later_request(t: Stage, field: str) -> None:
    """Which group results from a member's heartbeat with {field}?"""
    a = StreamsMember(t, "A", simple(t.t1)).joined()
    a.heartbeat(field, **_LATER[field])
    streams.described(t)


@AREA.scenario
def first_steps(t: Stage) -> None:
    """Which epochs and tasks does a member get from joining to leaving, without internal topics?"""
    a = StreamsMember(t, "A", simple(t.t3))
    a.join()
    streams.described(t)
    a.owning()
    a.heartbeat("says nothing of its tasks")
    streams.described(t)
    share_looks.listed(t)
    a.leave()
    streams.described(t)
    share_looks.listed(t)


@AREA.scenario
def whole_answers(t: Stage) -> None:
    """Which fields does the answer to a join, a normal heartbeat, a leave and an error have?"""
    a = StreamsMember(t, "A", simple(t.t1))

    def told(note: str, answer: Any) -> None:
        member_id = answer["member_id"]
        text = streams.plain(t, answer["error_message"])
        names = {"member_id": member_id and t.sub(member_id), "error_message": text}
        t.rec(note, {**answer, **names})

    told("joins", t.setup(a.join))
    told("goes on", t.setup(a.owning))
    told("unknown epoch", t.setup(a.heartbeat, member_epoch=77))
    told("leaves", t.setup(a.leave))
    told("after that", t.setup(a.owning))


@AREA.scenario
def whole_description(t: Stage) -> None:
    """How is a member described if its heartbeat sets every field?"""
    a = StreamsMember(t, "A", simple(t.t1))
    endpoint = {"host": "here", "port": 65535}
    tags = [{"key": "zone", "value": "z1"}, {"key": "rack", "value": "r1"}]
    t.setup(a.join, user_endpoint=endpoint, client_tags=tags, rack_id="r")
    answer = streams.described_group(t)
    (one,) = answer.pop("members")
    one["client_tags"].sort(key=str)
    t.rec("member", {**one, "member_id": t.sub(one["member_id"]), "client_host": "a host"})
    answer["topology"]["subtopologies"][0]["source_topics"] = ["<t1>"]
    t.rec("group", {**answer, "group_id": t.sub(answer["group_id"])})


@AREA.each(epoch=["two behind", "previous", "previous with tasks of others", "current", "ahead"])
def epochs(t: Stage, epoch: str) -> None:
    """A member at epoch 4, whose earlier epochs were 3 and 2, sends an epoch that is: {epoch}."""
    a, b = members(t, "AB", simple(t.t3))
    c = StreamsMember(t, "C", simple(t.t3))
    t.setup(c.join)
    a.settled(b, c)
    t.rec("epochs", sorted([a.epoch, b.epoch, c.epoch]))
    latest = a.epoch
    sent = {"two behind": latest - 2, "current": latest, "ahead": latest + 1}.get(epoch, latest - 1)
    owns = {"active": {"0": [0, 1, 2]}} if "others" in epoch else a.owned
    a.heartbeat(epoch, member_epoch=sent, owns=owns)
    a.epoch = latest
    a.owning("with the right one")


@AREA.scenario
def joins_again(t: Stage) -> None:
    """A member sends epoch 0 again while it has tasks."""
    a = StreamsMember(t, "A", simple(t.t3)).joined()
    a.join("again")
    streams.described(t)
    a.join("again with another process", process_id="another")
    streams.described(t)


@AREA.scenario
def leaves_twice(t: Stage) -> None:
    """A member leaves, leaves again, and then sends a normal heartbeat."""
    a = StreamsMember(t, "A", simple(t.t1)).joined()
    a.leave()
    a.leave("again")
    a.heartbeat("goes on", member_epoch=2)
    streams.described(t)
    a.join("joins anew")
    streams.described(t)


@AREA.scenario
def sessions_that_time_out(t: Stage) -> None:
    """A member without heartbeats expires, and the other member gets its tasks."""
    share_looks.configure(t, {"streams.session.timeout.ms": "1500"})
    a, b = members(t, "AB", simple(t.t3))
    for _ in range(60):
        t.setup(a.owning)
        if len(streams.described_group(t)["members"]) == 1:
            break
        t.nap(0.05)
    a.settled()
    streams.described(t)
    b.owning("comes back")


@AREA.scenario
def rebalance_timeout(t: Stage) -> None:
    """A member that does not revoke its tasks in time is removed."""
    a = StreamsMember(t, "A", simple(t.t3))
    t.setup(a.join, rebalance_timeout_ms=700)
    b = StreamsMember(t, "B", simple(t.t3))
    b.join()
    a.owning("is told to let go")
    owned = {"active": {"0": [0, 1, 2]}}
    a.heartbeat("still has all", owns=owned)
    for _ in range(60):
        if len(streams.described_group(t)["members"]) == 1:
            break
        t.nap(0.05)
    a.heartbeat("too late", owns=owned)
    b.owning("gets all")
    streams.described(t)


@AREA.scenario
def fifth_member(t: Stage) -> None:
    """group.streams.max.size is 4: a fifth member is refused until another one leaves."""
    joined = [StreamsMember(t, name, simple(t.t1)) for name in "ABCD"]
    for one in joined:
        t.setup(one.join)
    late = StreamsMember(t, "E", simple(t.t1))
    late.join()
    joined[3].leave()
    late.join()


@AREA.scenario
def member_joins_again_in_a_full_group(t: Stage) -> None:
    """A member of a full group sends epoch 0 again."""
    joined = [StreamsMember(t, name, simple(t.t1)) for name in "ABCD"]
    for one in joined:
        t.setup(one.join)
    joined[0].join("again")
    joined[1].owning("goes on")


@AREA.scenario
def interval_in_the_answer(t: Stage) -> None:
    """Answers have the broker's heartbeat interval, then the group's."""
    a = StreamsMember(t, "A", simple(t.t1))
    t.rec("the broker's", t.setup(a.join)["heartbeat_interval_ms"])
    share_looks.configure(t, {"streams.heartbeat.interval.ms": "1234"})
    t.sleep(0.1)
    t.rec("the group's", t.setup(a.owning)["heartbeat_interval_ms"])


@AREA.scenario
def initial_delay(t: Stage) -> None:
    """With streams.initial.rebalance.delay.ms=1000 all members get tasks after the delay."""
    share_looks.configure(t, {"streams.initial.rebalance.delay.ms": "1000"})
    a = StreamsMember(t, "A", simple(t.t3))
    a.join()
    b = StreamsMember(t, "B", simple(t.t3))
    b.join()
    streams.described(t)
    a.owning()
    t.nap(1.3)
    streams.described(t, "after the delay")
    a.settled(b)
    streams.spread(t)
    c = StreamsMember(t, "C", simple(t.t3))
    c.join("later")


@AREA.scenario
def interval_of_assignments(t: Stage) -> None:
    """With streams.assignment.interval.ms=1000 a second member waits for its tasks."""
    share_looks.configure(t, {"streams.assignment.interval.ms": "1000"})
    a = StreamsMember(t, "A", simple(t.t3))
    a.join()
    b = StreamsMember(t, "B", simple(t.t3))
    b.join()
    streams.described(t)
    b.owning("soon")
    t.nap(1.2)
    b.owning("later")
    a.settled(b)
    streams.spread(t)


@AREA.scenario
def shutdown_of_the_application(t: Stage) -> None:
    """A member requests the application's shutdown, which all members see until they leave."""
    a, b = members(t, "AB", simple(t.t3))
    b.heartbeat("asks for it", shutdown_application=True)
    a.owning()
    b.owning()
    b.leave()
    a.owning()
    c = StreamsMember(t, "C", simple(t.t3))
    c.join()
    a.leave()
    c.owning()
    c.leave()
    c.join("joins the empty group")


@AREA.scenario
def shutdown_of_a_member_that_leaves(t: Stage) -> None:
    """A leaving member requests the application's shutdown."""
    a, b = members(t, "AB", simple(t.t3))
    b.heartbeat("asks and leaves", shutdown_application=True, member_epoch=-1)
    a.owning()


@AREA.scenario
def endpoints(t: Stage) -> None:
    """When is the endpoint of a member returned with its partitions, and to whom?"""
    a = StreamsMember(t, "A", simple(t.t1))
    a.join(user_endpoint={"host": "here", "port": 9999})
    a.owning("with its epoch")
    b = StreamsMember(t, "B", simple(t.t1))
    b.join("without one")
    b.owning("with its epoch")
    b.endpoint_epoch = 0
    b.owning("with epoch 0")
    a.leave()
    b.owning("after A has left")


@AREA.scenario
def endpoints_with_a_state(t: Stage) -> None:
    """Endpoints are returned with the partitions of active tasks and of standby tasks."""
    share_looks.configure(t, {"streams.num.standby.replicas": "1"})
    log = streams.internal(t, "log")
    wanted = streams.topology(streams.subtopology("0", [t.t1], changelogs=[log]))
    a = StreamsMember(t, "A", wanted).joined()
    b = StreamsMember(t, "B", wanted)
    t.setup(b.join, user_endpoint={"host": "there", "port": 1})
    a.settled(b)
    a.endpoint_epoch = 0
    answer = t.setup(a.owning)
    for one in answer["partitions_by_user_endpoint"]:
        for kind in ("active_partitions", "standby_partitions"):
            told = sorted([t.sub(x["topic"]), x["partitions"]] for x in one[kind])
            t.rec(f"{kind} of {one['user_endpoint']['host']}", told)


@AREA.each(version=[2])
def unknown_version(t: Stage, version: int) -> None:
    """StreamsGroupHeartbeat and StreamsGroupDescribe have the unsupported version {version}."""
    for api, body in (
        ("StreamsGroupHeartbeat", {"group_id": t.g, "member_id": "m"}),
        ("StreamsGroupDescribe", {"group_ids": [t.g]}),
    ):
        t.rec(api, t.quiet(api, version, body, t.conn()))


@AREA.scenario
def texts(t: Stage) -> None:
    """Which error messages do refused heartbeats get?"""
    a = StreamsMember(t, "A", simple(t.t1))

    def text(note: str, answer: Any) -> None:
        said = streams.plain(t, answer["error_message"])
        t.rec(note, [error(answer["error_code"]), said])

    for note, fields in _FIELDS.items():
        answer = t.setup(a.join, **fields)
        if answer["error_code"]:
            text(f"first: {note}", answer)
    a.epoch = 2
    t.setup(a.join)
    for note, fields in _LATER.items():
        answer = t.setup(a.heartbeat, **fields)
        if answer["error_code"]:
            text(f"later: {note}", answer)
    text("ahead", t.setup(a.heartbeat, member_epoch=99))
    text("behind", t.setup(a.heartbeat, member_epoch=1))


@AREA.scenario
def static_members(t: Stage) -> None:
    """A static member leaves temporarily, returns under another id, and leaves for good."""
    a = StreamsMember(t, "A", simple(t.t3)).joined()
    s = StreamsMember(t, "S", simple(t.t3))
    s.join(instance_id="i")
    a.settled(s)
    x = StreamsMember(t, "X", simple(t.t3), process=s.process)
    x.join("while S is there", instance_id="i")
    s.heartbeat("unknown instance", instance_id="j")
    s.heartbeat("leaves for a while", member_epoch=-2, instance_id="i")
    streams.described(t)
    x.heartbeat("without a join", instance_id="i", member_epoch=1)
    x.join("instead of S", instance_id="i")
    streams.described(t)
    s.heartbeat("is back", instance_id="i", member_epoch=1)
    x.heartbeat("names no instance")
    x.heartbeat("leaves", member_epoch=-1, instance_id="i")
    streams.described(t)


@AREA.each(change=["process_id", "rack_id", "user_endpoint", "rebalance_timeout_ms"])
def static_member_returns_otherwise(t: Stage, change: str) -> None:
    """Does the group epoch rise if a static member returns with another {change}?"""
    s = StreamsMember(t, "S", simple(t.t3))
    s.join(instance_id="i")
    s.heartbeat("leaves for a while", member_epoch=-2, instance_id="i")
    values: dict[str, Any] = {
        "rebalance_timeout_ms": 7000,
        "user_endpoint": {"host": "h", "port": 1},
    }
    x = StreamsMember(t, "X", simple(t.t3), process=s.process)
    changes: dict[str, Any] = {change: values.get(change, "other")}
    x.join(instance_id="i", **changes)
    streams.described(t)


@AREA.scenario
def newest_versions(t: Stage) -> None:
    """StreamsGroupHeartbeat and StreamsGroupDescribe v1 are used; the topology is described."""
    a = StreamsMember(t, "A", simple(t.t1)).joined()
    body: dict[str, Any] = {"group_id": t.g, "member_id": a.id, "member_epoch": a.epoch}
    for label, changes in (("known", {}), ("unknown", {"member_id": "x"})):
        answer = t.raw("StreamsGroupHeartbeat", 1, body | changes)
        shown = ("error_code", "task_offset_interval_ms", "acceptable_recovery_lag")
        t.rec(label, [answer[name] for name in (*shown, "topology_description_required")])
    for is_included in (False, True):
        wanted = {"group_ids": [t.g, "absent"], "include_topology_description": is_included}
        groups = t.raw("StreamsGroupDescribe", 1, wanted)["groups"]
        for one in sorted(groups, key=lambda one: one["error_code"]):
            shown = ("error_code", "topology_description", "topology_description_status")
            t.rec(f"described {is_included}", [one[name] for name in (*shown, "assignor_name")])
    graph = {"subtopologies": [{"subtopology_id": "0", "nodes": []}], "global_stores": []}
    for label, group, member in (("known", t.g, a.id), ("empty", "", ""), ("unknown", "x", "y")):
        asked = {"group_id": group, "member_id": member, "topology_description": graph}
        answer = t.raw("StreamsGroupTopologyDescriptionUpdate", 0, asked | {"topology_epoch": 0})
        t.rec(f"update {label}", [answer["error_code"], answer["error_message"]])


def _offsets(*tasks: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [
        {"subtopology_id": subtopology_id, "partition": partition, "offset": offset}
        for subtopology_id, partition, offset in tasks
    ]


@AREA.scenario
def reported_offsets(t: Stage) -> None:
    """Which reported task offsets does a description have, and when are they forgotten?"""
    a, b = (StreamsMember(t, name, simple(t.t3)) for name in "AB")

    look = partial(_look_at_offsets, t)
    a.join("with offsets", task_offsets=_offsets(("0", 0, 1)), task_end_offsets=[])
    look("of a new group")
    b.join("with offsets", task_offsets=_offsets(("0", 1, 5)))
    look("of a new member")
    a.owning(
        task_offsets=_offsets(("0", 0, 7), ("none", 9, -1)), task_end_offsets=_offsets(("0", 0, 9))
    )
    look("both")
    a.owning("only ends", task_end_offsets=_offsets(("0", 0, 10)))
    look("ends changed")
    a.owning("nothing")
    look("kept")
    a.owning("a task twice", task_offsets=_offsets(("0", 0, 7), ("0", 0, 8)))
    a.owning("no offsets", task_offsets=[])
    look("none")
    b.heartbeat("of a wrong epoch", member_epoch=77, task_offsets=_offsets(("0", 1, 6)))
    look("after a refusal")
    b.leave()
    b.join("again")
    look("joined again")


@AREA.each(fails=["a list twice", "no such part", "no such task", "offsets twice"])
def offsets_of_a_heartbeat_that_fails(t: Stage, fails: str) -> None:
    """Are reported offsets kept if the heartbeat is refused for {fails}?"""
    a, b = (StreamsMember(t, name, simple(t.t3)) for name in "AB")
    t.setup(a.joined)
    t.setup(b.join)
    listed = {
        "a list twice": [{"subtopology_id": "0", "partitions": [one]} for one in (0, 1)],
        "no such part": [{"subtopology_id": "none", "partitions": [0]}],
        "no such task": [{"subtopology_id": "0", "partitions": [9]}],
    }.get(fails, [])
    tasks: dict[str, Any] = {"active_tasks": listed, "standby_tasks": [], "warmup_tasks": []}
    ends = _offsets(*[("0", 0, 9)] * (2 if fails == "offsets twice" else 1))
    a.heartbeat("fails", **tasks, task_offsets=_offsets(("0", 0, 7)), task_end_offsets=ends)
    _look_at_offsets(t, "after it")


def _look_at_offsets(t: Stage, label: str) -> None:
    """Record the described offsets of each member."""
    shown = {
        t.sub(member["member_id"]): [
            sorted([one["subtopology_id"], one["partition"], one["offset"]] for one in offsets)
            for offsets in (member["task_offsets"], member["task_end_offsets"])
        ]
        for member in streams.described_group(t)["members"]
    }
    t.rec(label, dict(sorted(shown.items())))
