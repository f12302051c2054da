"""Topologies of streams groups: missing, internal and invalid topics, and changed topologies."""

from __future__ import annotations

from typing import Any

from tests.conformance import streams
from tests.conformance.producers import error
from tests.conformance.stage import Area, Stage
from tests.conformance.streams import StreamsMember, simple, subtopology, topology

AREA = Area("streams_topology")


@AREA.scenario
def missing_source(t: Stage) -> None:
    """A missing source topic is created, and the group continues."""
    name = streams.internal(t, "later")
    a = StreamsMember(t, "A", simple(t.t1, name))
    a.join()
    streams.described(t)
    streams.described_topology(t)
    streams.topic(t, 2, suffix="later")
    a.joined(active=2)
    streams.described(t)
    streams.described_topology(t)


@AREA.scenario
def missing_sources(t: Stage) -> None:
    """Several source topics of two subtopologies are missing."""
    names = [streams.internal(t, f"none{number}") for number in range(6)]
    parts = [subtopology("0", names[:4]), subtopology("1", [t.t1, *names[3:]])]
    a = StreamsMember(t, "A", topology(*parts))
    a.join()
    a.owning()
    streams.described(t)


@AREA.each(what=["changelog", "repartition", "both"])
def internal_topics(t: Stage, what: str) -> None:
    """The broker creates internal topics: {what}."""
    log, again = streams.internal(t, "log"), streams.internal(t, "again")
    changelogs = [log] if what != "repartition" else []
    first = subtopology("0", [t.t3], changelogs=changelogs)
    parts = [first]
    if what != "changelog":
        first["repartition_sink_topics"] = [again]
        parts.append(subtopology("1", repartitions=[again]))
    a = StreamsMember(t, "A", topology(*parts))
    a.join()
    streams.described(t)
    streams.described_topology(t)
    made = changelogs + ([again] if what != "changelog" else [])
    streams.until_there(t, *made)
    a.settled()
    streams.described(t)
    streams.described_topology(t)
    streams.partitions(t, *made)


@AREA.each(partitions=[0, 1, 5])
def partitions_of_a_repartition_topic(t: Stage, partitions: int) -> None:
    """Two source topics feed a repartition topic with {partitions} requested partitions."""
    again, log = streams.internal(t, "again"), streams.internal(t, "log")
    wanted = {"name": again, "partitions": partitions}
    parts = [
        subtopology("0", [t.t1, t.t3], sinks=[again]),
        subtopology("1", repartitions=[wanted], changelogs=[log]),
    ]
    a = StreamsMember(t, "A", topology(*parts))
    a.join()
    streams.until_there(t, again, log)
    a.settled()
    streams.described(t)
    streams.partitions(t, again, log)


@AREA.scenario
def chain_of_repartition_topics(t: Stage) -> None:
    """Chained repartition topics pass on their partition count."""
    first, second = streams.internal(t, "first"), streams.internal(t, "second")
    parts = [
        subtopology("2", repartitions=[second]),
        subtopology("1", repartitions=[first], sinks=[second]),
        subtopology("0", [t.tx], sinks=[first]),
    ]
    a = StreamsMember(t, "A", topology(*parts))
    a.join()
    streams.until_there(t, first, second)
    a.settled()
    streams.described(t)
    streams.partitions(t, first, second)


@AREA.scenario
def repartition_topic_that_nobody_writes(t: Stage) -> None:
    """A repartition topic has neither a subtopology that writes to it nor a partition count."""
    again = streams.internal(t, "again")
    a = StreamsMember(t, "A", topology(subtopology("0", [t.t1], repartitions=[again])))
    a.join()
    streams.described(t)


@AREA.scenario
def repartition_topics_in_a_circle(t: Stage) -> None:
    """Two repartition topics depend on each other."""
    first, second = streams.internal(t, "first"), streams.internal(t, "second")
    parts = [
        subtopology("0", repartitions=[first], sinks=[second]),
        subtopology("1", repartitions=[second], sinks=[first]),
    ]
    a = StreamsMember(t, "A", topology(*parts))
    a.join()
    streams.described(t)


@AREA.each(
    kind=["sources", "sources that differ", "repartition", "fixed repartition", "both fixed"]
)
def copartitions(t: Stage, kind: str) -> None:
    """Topics must have the same number of partitions: {kind}."""
    again, other = streams.internal(t, "again"), streams.internal(t, "other")
    sinks = subtopology("0", [t.t1], sinks=[again, other])
    groups: list[dict[str, Any]]
    if kind.startswith("sources"):
        names = [t.t3, t.tx] if "differ" in kind else [t.t3]
        groups = [{"source_topics": list(range(len(names)))}]
        parts = [subtopology("1", names, copartitions=groups)]
    elif kind == "both fixed":
        groups = [{"repartition_source_topics": [0, 1]}]
        topics: list[str | dict[str, Any]] = [
            {"name": again, "partitions": 2},
            {"name": other, "partitions": 3},
        ]
        parts = [sinks, subtopology("1", repartitions=topics, copartitions=groups)]
    else:
        fixed = 2 if kind == "fixed repartition" else 0
        groups = [{"source_topics": [0], "repartition_source_topics": [0]}]
        topic = {"name": again, "partitions": fixed}
        parts = [
            {**sinks, "repartition_sink_topics": [again]},
            subtopology("1", [t.t3], repartitions=[topic], copartitions=groups),
        ]
    a = StreamsMember(t, "A", topology(*parts))
    a.join()
    streams.described(t)
    if kind == "repartition":
        streams.until_there(t, again)
        a.settled()
        streams.partitions(t, again)
        streams.described(t)


@AREA.each(count=[1, 3])
def internal_topic_that_is_there(t: Stage, count: int) -> None:
    """The changelog for 3 partitions already exists with {count} partitions."""
    log = streams.topic(t, count, suffix="log")
    a = StreamsMember(t, "A", topology(subtopology("0", [t.t3], changelogs=[log])))
    a.join()
    streams.described(t)


@AREA.scenario
def configs_of_internal_topics(t: Stage) -> None:
    """Which configs and replication do internal topics get, as created and as described?"""
    log = streams.internal(t, "log")
    pairs = [
        {"key": "cleanup.policy", "value": "compact"},
        {"key": "segment.bytes", "value": "1048576"},
    ]
    wanted = {"name": log, "replication_factor": 1, "topic_configs": pairs}
    a = StreamsMember(t, "A", topology(subtopology("0", [t.t1], changelogs=[wanted])))
    a.join()
    streams.described_topology(t)
    streams.until_there(t, log)
    resource = {"resource_type": 2, "resource_name": log, "configuration_keys": None}
    answer = t.raw("DescribeConfigs", 4, {"resources": [resource]})["results"][0]
    own = {one["name"]: one["value"] for one in answer["configs"] if one["config_source"] == 1}
    t.rec("configs", dict(sorted(own.items())))


@AREA.each(wrong=["replication", "config"])
def internal_topics_that_cannot_be_made(t: Stage, wrong: str) -> None:
    """The controller refuses an internal topic for its {wrong}, and members get the reason."""
    log = streams.internal(t, "log")
    wanted: dict[str, Any] = {"name": log}
    if wrong == "replication":
        wanted["replication_factor"] = 9
    else:
        wanted["topic_configs"] = [{"key": "cleanup.policy", "value": "nonsense"}]
    a = StreamsMember(t, "A", topology(subtopology("0", [t.t1], changelogs=[wanted])))
    a.join()
    for _ in range(60):
        status = t.setup(a.owning)["status"]
        if "failed" in status[0]["status_detail"]:
            t.rec("detail", streams.plain(t, status[0]["status_detail"]))
            break
        t.nap(0.05)
    streams.described(t)


@AREA.each(
    wrong=[
        "changelog with partitions",
        "internal name",
        "bad name",
        "regex",
        "no parts",
        "no topics",
    ]
)
def topologies_that_are_refused(t: Stage, wrong: str) -> None:
    """A topology is refused for: {wrong}."""
    log = streams.internal(t, "log")
    part = {
        "changelog with partitions": subtopology(
            "0", [t.t1], changelogs=[{"name": log, "partitions": 2}]
        ),
        "internal name": subtopology("0", ["__consumer_offsets"]),
        "bad name": subtopology("0", ["bad name"]),
        "regex": subtopology("0", [t.t1], source_topic_regex=["a.*"]),
        "no topics": subtopology("0"),
    }.get(wrong)
    a = StreamsMember(t, "A", topology(*([part] if part else [])))
    answer = a.join()
    t.rec("text", streams.plain(t, answer["error_message"]))
    streams.described(t)


@AREA.each(change=["the same", "other topics", "other order", "more parts", "older", "newer"])
def second_topology(t: Stage, change: str) -> None:
    """A second member sends a topology that is: {change}."""
    parts = [subtopology("0", [t.t1, t.tx]), subtopology("1", [t.t3])]
    a = StreamsMember(t, "A", topology(*parts, epoch=3)).joined()
    wanted = {
        "the same": topology(*parts, epoch=3),
        "other topics": topology(subtopology("0", [t.t1]), parts[1], epoch=3),
        "other order": topology(parts[1], subtopology("0", [t.tx, t.t1]), epoch=3),
        "more parts": topology(*parts, subtopology("2", [t.t1]), epoch=3),
        "older": topology(parts[0], epoch=2),
        "newer": topology(*parts, epoch=4),
    }[change]
    b = StreamsMember(t, "B", wanted)
    answer = b.join()
    t.rec("text", streams.plain(t, answer["error_message"]))
    a.owning()
    b.owning()
    answer = streams.described_group(t)
    t.rec("epoch of the group's", answer["topology"]["epoch"])
    epochs = sorted(one["topology_epoch"] for one in answer["members"])
    t.rec("epochs of the members'", epochs)


@AREA.scenario
def topology_of_an_empty_group(t: Stage) -> None:
    """All members have left, and a newcomer sends another topology."""
    a = StreamsMember(t, "A", simple(t.t1)).joined()
    t.setup(a.leave)
    b = StreamsMember(t, "B", simple(t.t3, epoch=1))
    b.join("of a newer epoch")
    b = StreamsMember(t, "C", simple(t.t3))
    b.join("of the same epoch")
    streams.described(t)
    streams.described_topology(t)


@AREA.scenario
def more_partitions(t: Stage) -> None:
    """The source topic gets more partitions, which gives more tasks."""
    topic = streams.topic(t, 1)
    a = StreamsMember(t, "A", simple(topic)).joined()
    wanted = {"name": topic, "count": 3, "assignments": None}
    body = {"topics": [wanted], "timeout_ms": 9000, "validate_only": False}
    assert t.raw("CreatePartitions", 3, body)["results"][0]["error_code"] == 0
    _until_tasks(t, a, 3)
    streams.described(t)


@AREA.scenario
def more_partitions_than_the_changelog(t: Stage) -> None:
    """The source topic gets more partitions than its changelog has."""
    topic = streams.topic(t, 1)
    log = streams.internal(t, "log")
    a = StreamsMember(t, "A", topology(subtopology("0", [topic], changelogs=[log]))).joined()
    wanted = {"name": topic, "count": 2, "assignments": None}
    body = {"topics": [wanted], "timeout_ms": 9000, "validate_only": False}
    assert t.raw("CreatePartitions", 3, body)["results"][0]["error_code"] == 0
    for _ in range(60):
        if streams.described_group(t)["group_state"] != "Stable":
            break
        t.setup(a.owning)
        t.nap(0.05)
    a.owning()
    streams.described(t)


@AREA.scenario
def deleted_source(t: Stage) -> None:
    """A source topic is deleted: the group is not ready, and its member has no tasks."""
    topic = streams.topic(t, 2)
    a = StreamsMember(t, "A", simple(topic, t.t1)).joined()
    t.delete_topic(topic)
    for _ in range(60):
        t.setup(a.owning)
        if streams.described_group(t)["group_state"] == "NotReady":
            break
        t.nap(0.05)
    a.owning()
    streams.described(t)


@AREA.scenario
def deleted_changelog(t: Stage) -> None:
    """A changelog is deleted, and the broker recreates it."""
    topic = streams.topic(t, 1)
    log = streams.internal(t, "log")
    a = StreamsMember(t, "A", topology(subtopology("0", [topic], changelogs=[log]))).joined()
    t.delete_topic(log)
    for _ in range(100):
        t.setup(a.owning)
        answer = streams.described_group(t)
        if answer["group_epoch"] > 3 and answer["group_state"] == "Stable":
            break
        t.nap(0.05)
    streams.partitions(t, log)


@AREA.each(what=["twice in one", "in two parts", "source and changelog"])
def topics_named_twice(t: Stage, what: str) -> None:
    """A topology names a topic {what}."""
    parts = {
        "twice in one": [subtopology("0", [t.t1, t.t1])],
        "in two parts": [subtopology("0", [t.t1]), subtopology("1", [t.t1])],
        "source and changelog": [subtopology("0", [t.t1], changelogs=[t.t1])],
    }[what]
    a = StreamsMember(t, "A", topology(*parts))
    a.join()
    streams.described(t)


@AREA.scenario
def parts_named_twice(t: Stage) -> None:
    """Two subtopologies have the same name."""
    a = StreamsMember(t, "A", topology(subtopology("0", [t.t1]), subtopology("0", [t.t3])))
    answer = a.join()
    t.rec("error", error(answer["error_code"]))
    streams.described(t)


def _until_tasks(t: Stage, member: StreamsMember, count: int) -> None:
    for _ in range(60):
        t.setup(member.owning)
        if sum(len(indexes) for indexes in member.owned["active"].values()) == count:
            return
        t.nap(0.05)
    t.rec("tasks", f"still not {count}")
