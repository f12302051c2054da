"""Share groups: descriptions, lists, deletion, configs, and requests of other group types."""

from __future__ import annotations

import base64
from typing import Any

from tests.conformance import share_looks as looks
from tests.conformance import wire
from tests.conformance.producers import error
from tests.conformance.share_setups import EARLIEST, join, reader
from tests.conformance.shares import ACCEPT, ShareMember, produce
from tests.conformance.stage import Area, Stage

AREA = Area("share_admin")

_CONFIGS = (
    "share.session.timeout.ms",
    "share.heartbeat.interval.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.renew.acknowledge.enable",
    "share.assignment.interval.ms",
)
_VALUES = {
    "share.session.timeout.ms": ["499", "500", "60000", "60001", "100", "x", ""],
    "share.heartbeat.interval.ms": ["99", "100", "15000", "15001", "-1"],
    "share.record.lock.duration.ms": ["999", "1000", "60000", "60001", "x"],
    "share.delivery.count.limit": ["1", "2", "10", "11"],
    "share.partition.max.record.locks": ["99", "100", "4000", "4001"],
    "share.auto.offset.reset": [
        "earliest",
        "latest",
        "EARLIEST",
        "none",
        "by_duration:PT1H",
        "by_duration:-PT1H",
        "by_duration:1h",
        "by_duration",
        "",
    ],
    "share.isolation.level": ["read_committed", "READ_COMMITTED", "serializable", ""],
    "share.renew.acknowledge.enable": ["true", "false", "TRUE", "yes", ""],
    "share.assignment.interval.ms": ["-1", "0", "15000", "15001"],
    "share.no.such.config": ["1"],
}


@AREA.each(name=list(_VALUES))
def values_of_a_config(t: Stage, name: str) -> None:
    """Which values of the group config {name} are valid?"""
    for value in _VALUES[name]:
        t.rec(f"set '{value}'", looks.alter_configs(t, {name: value}))


@AREA.scenario
def configs_described(t: Stage) -> None:
    """Which share group configs does DescribeConfigs return, before and after one is set?"""
    t.rec("all", _configs(t))
    t.rec("set", looks.alter_configs(t, {"share.delivery.count.limit": "7"}))
    t.nap(0.1)
    t.rec("after that", _configs(t))
    t.rec("deleted", looks.alter_configs(t, {"share.delivery.count.limit": None}, operation=1))
    t.nap(0.1)
    t.rec("after that", _configs(t, "share.delivery.count.limit"))


@AREA.scenario
def configs_that_do_not_fit_each_other(t: Stage) -> None:
    """A session timeout must exceed the heartbeat interval, set at once or one after the other."""
    session, interval = "share.session.timeout.ms", "share.heartbeat.interval.ms"
    for configs in (
        {session: "600", interval: "600"},
        {session: "600", interval: "599"},
        {interval: "700"},
        {session: "599"},
        {session: "800"},
        {interval: "700"},
    ):
        t.rec(f"set {configs}", looks.alter_configs(t, configs))
        t.nap(0.05)
    t.sleep(0.2)
    t.rec("shown", _configs(t, session, interval))


@AREA.each(operation=["delete", "append", "subtract", "unknown"])
def operations_on_configs(t: Stage, operation: str) -> None:
    """{operation} changes a group config that is set, and one that is not."""
    number = {"delete": 1, "append": 2, "subtract": 3, "unknown": 9}[operation]
    looks.configure(t, {"share.delivery.count.limit": "3"})
    for name in ("share.delivery.count.limit", "share.isolation.level"):
        value = None if operation == "delete" else "1"
        t.rec(f"{operation} {name}", looks.alter_configs(t, {name: value}, operation=number))
    t.nap(0.1)
    t.rec("shown", _configs(t, "share.delivery.count.limit", "share.isolation.level"))


@AREA.scenario
def configs_validated_only(t: Stage) -> None:
    """Changes of a config are only validated, or are sent for the empty group name."""
    name = "share.delivery.count.limit"
    for value in ("3", "1"):
        t.rec(f"validate {value}", looks.alter_configs(t, {name: value}, validate_only=True))
    t.rec("shown", _configs(t, name))
    t.rec("empty group", looks.alter_configs(t, {name: "3"}, group=""))
    t.rec("null value", looks.alter_configs(t, {name: None}))


@AREA.scenario
def configs_of_a_deleted_group(t: Stage) -> None:
    """A group's configs stay when the group is deleted."""
    looks.configure(t, {"share.delivery.count.limit": "3"})
    a = ShareMember(t, "A").joined(t.t1)
    t.setup(a.leave)
    t.delete_groups()
    t.rec("shown", _configs(t, "share.delivery.count.limit"))


@AREA.each(state=["unknown", "stable", "empty"])
def described_and_listed(t: Stage, state: str) -> None:
    """What do ShareGroupDescribe, DescribeGroups and ListGroups return for a {state} group?"""
    _reach(t, state)
    looks.described(t)
    answer = t.raw("DescribeGroups", 6, {"groups": [t.g]})["groups"][0]
    t.rec("DescribeGroups", [error(answer["error_code"]), answer["group_state"]])
    consumer = t.raw("ConsumerGroupDescribe", 1, {"group_ids": [t.g]})["groups"][0]
    t.rec("ConsumerGroupDescribe", [error(consumer["error_code"]), consumer["group_state"]])
    for label, filters in (
        ("all", {}),
        ("type share", {"types_filter": ["share"]}),
        ("type SHARE", {"types_filter": ["SHARE"]}),
        ("type consumer", {"types_filter": ["consumer"]}),
        ("state stable", {"states_filter": ["stable"]}),
        ("state Empty", {"states_filter": ["Empty"]}),
        ("state Dead", {"states_filter": ["Dead"]}),
    ):
        answer = t.raw("ListGroups", 5, filters)
        groups = [one for one in answer["groups"] if one["group_id"] == t.g]
        t.rec(label, [[one["group_state"], one["group_type"]] for one in groups])


@AREA.scenario
def several_groups_described(t: Stage) -> None:
    """One request names a group twice, an unknown group, another group type and an empty name."""
    ShareMember(t, "A").joined(t.t1)
    classic, none = t.group("classic"), t.group("none")
    body = {
        "group_id": classic,
        "member_id": "",
        "session_timeout_ms": 9000,
        "rebalance_timeout_ms": 9000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    t.raw("JoinGroup", 3, body)
    names = [t.g, none, classic, "", t.g]
    answer = t.raw("ShareGroupDescribe", 1, {"group_ids": names})
    for one in sorted(answer["groups"], key=lambda one: str(t.sub(one["group_id"]))):
        text = one["error_message"]
        for name in (t.g, none, classic):
            text = text and text.replace(f"Group {name} ", f"Group {t.sub(name)} ")
        t.rec(t.sub(one["group_id"]), [looks.shown_group(t, one), text])


@AREA.each(asked=[False, True])
def authorized_operations(t: Stage, asked: bool) -> None:
    """Which authorized operations does a share group show, if requested: {asked}?"""
    ShareMember(t, "A").joined(t.t1)
    body = {"group_ids": [t.g, t.group("none")], "include_authorized_operations": asked}
    answer = t.raw("ShareGroupDescribe", 1, body)
    operations = {t.sub(one["group_id"]): one["authorized_operations"] for one in answer["groups"]}
    t.rec("operations", dict(sorted(operations.items())))


@AREA.each(state=["unknown", "stable", "empty", "with offsets"])
def deleted(t: Stage, state: str) -> None:
    """DeleteGroups is sent for a share group that is {state}; then the group is used again."""
    if state == "with offsets":
        place, a = reader(t, (2, 2))
        a.fetch(place, max_records=1)
        a.acknowledge([(0, 1, ACCEPT)])
        a.disconnect()
        t.setup(a.leave)
    else:
        looks.configure(t, EARLIEST)
        place = (looks.topic(t), 0)
        a = _reach(t, state, place[0])
    t.delete_groups()
    looks.described(t)
    looks.listed(t)
    looks.offsets(t)
    looks.stored(t, place)
    t.delete_groups(label="again")
    if state in ("empty", "with offsets"):
        a.epoch = 0
        a.joined(place[0])
        looks.described(t)
        a.nothing(place)
        looks.stored(t, place)


@AREA.scenario
def deleted_with_others(t: Stage) -> None:
    """One request deletes groups with members, empty and unknown groups, and a group twice."""
    ShareMember(t, "A").joined(t.t1)
    other = t.group("empty")
    b = ShareMember(t, "B", group=other).joined(t.t1)
    t.setup(b.leave)
    names = [t.g, other, t.group("none"), other]
    answer = t.raw("DeleteGroups", 2, {"groups_names": names})
    results = [[t.sub(one["group_id"]), error(one["error_code"])] for one in answer["results"]]
    t.rec("deleted", sorted(results))
    looks.listed(t, "the empty one", other)


@AREA.scenario
def deleted_while_a_session_is_open(t: Stage) -> None:
    """A group without members is deleted while a share session continues to fetch."""
    place, a = reader(t, (2, 2))
    a.fetch(place, max_records=1)
    t.setup(a.leave)
    t.delete_groups()
    a.acknowledge([(0, 1, ACCEPT)])
    a.nothing()
    looks.offsets(t)


def _classic_join(t: Stage) -> Any:
    body = {
        "group_id": t.g,
        "member_id": "",
        "session_timeout_ms": 9000,
        "rebalance_timeout_ms": 9000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    return t.raw("JoinGroup", 3, body)


def _consumer_heartbeat(t: Stage) -> Any:
    body = {
        "group_id": t.g,
        "member_id": "consumer",
        "member_epoch": 0,
        "rebalance_timeout_ms": 9000,
        "subscribed_topic_names": [t.t1],
        "topic_partitions": [],
    }
    return t.raw("ConsumerGroupHeartbeat", 1, body)


def _commit(t: Stage) -> Any:
    partition = {"partition_index": 0, "committed_offset": 1}
    topics = [{"name": t.t1, "partitions": [partition]}]
    return t.raw("OffsetCommit", 9, {"group_id": t.g, "topics": topics})


@AREA.each(state=["stable", "empty"])
def requests_of_other_types(t: Stage, state: str) -> None:
    """What do classic members and consumers get for a share group that is {state}?"""
    _reach(t, state)
    t.rec("JoinGroup", error(_classic_join(t)["error_code"]))
    t.rec("ConsumerGroupHeartbeat", error(_consumer_heartbeat(t)["error_code"]))
    for api, version, body in (
        ("SyncGroup", 3, {"generation_id": 1, "member_id": "x"}),
        ("Heartbeat", 3, {"generation_id": 1, "member_id": "x"}),
    ):
        answer = t.raw(api, version, {"group_id": t.g, **body})
        t.rec(api, error(answer["error_code"]))
    body = {"group_id": t.g, "members": [{"member_id": "x"}]}
    t.rec("LeaveGroup", error(t.raw("LeaveGroup", 3, body)["error_code"]))
    committed = _commit(t)["topics"][0]["partitions"][0]["error_code"]
    t.rec("OffsetCommit", error(committed))
    answer = t.raw("OffsetFetch", 8, {"groups": [{"group_id": t.g, "topics": None}]})
    t.rec("OffsetFetch", [error(answer["groups"][0]["error_code"]), answer["groups"][0]["topics"]])
    t.delete_offsets((t.t1, 0), label="OffsetDelete")
    looks.described(t)
    looks.listed(t)


@AREA.each(other=["classic", "classic empty", "consumer", "offsets"])
def share_members_in_groups_of_other_types(t: Stage, other: str) -> None:
    """What does a share member get for a group that is {other}?"""
    if other == "classic":
        t.stable("C")
    elif other == "classic empty":
        t.reach("empty", "C")
    elif other == "consumer":
        assert not _consumer_heartbeat(t)["error_code"]
    else:
        _commit(t)
    a = ShareMember(t, "A")
    a.heartbeat("joins", t.t1)
    a.heartbeat("goes on", member_epoch=2)
    a.leave()
    looks.described(t)
    looks.listed(t)


@AREA.scenario
def coordinator_keys(t: Stage) -> None:
    """FindCoordinator has valid and invalid keys of share partitions, several at once."""
    topic = looks.topic(t)
    name = base64.urlsafe_b64encode(t.own_topics[topic]).decode().rstrip("=")
    unknown = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
    keys = {
        "right": f"{t.g}:{name}:0",
        "unknown partition": f"{t.g}:{name}:77",
        "unknown topic": f"{t.g}:{unknown}:0",
        "empty": "",
        "topic by name": f"{t.g}:{topic}:0",
        "four parts": f"{t.g}:{name}:0:1",
        "no number": f"{t.g}:{name}:",
    }
    for version in (5, 6):
        body = {"key_type": 2, "coordinator_keys": list(keys.values())}
        answer = t.raw("FindCoordinator", version, body)
        codes = {one["key"]: error(one["error_code"]) for one in answer["coordinators"]}
        t.rec(f"v{version}", {note: codes.get(key, "missing") for note, key in keys.items()})


@AREA.scenario
def topics_of_the_state(t: Stage) -> None:
    """The share-group state topic is internal and compacted, with the configured partitions."""
    ShareMember(t, "A").joined(t.t1)
    name = "__share_group_state"
    topic = t.raw("Metadata", 12, {"topics": [{"name": name, "topic_id": bytes(16)}]})["topics"][0]
    t.rec("metadata", [topic["error_code"], topic["is_internal"], len(topic["partitions"])])
    resource = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
    configs = t.raw("DescribeConfigs", 4, {"resources": [resource]})["results"][0]["configs"]
    own = {one["name"]: one["value"] for one in configs if one["config_source"] == 1}
    t.rec("configs", dict(sorted(own.items())))


@AREA.scenario
def member_goes_while_others_read(t: Stage) -> None:
    """Of three members one leaves and one expires: the third finally gets everything."""
    place, a = reader(t, (2, 2, 2))
    b, c = join(t, "BC", place[0])
    for one in (a, b, c):
        one.fetch(place, max_records=1)
    b.leave()
    b.disconnect()
    a.close()
    c.fetch()
    c.acknowledge([(0, 5, ACCEPT)])
    looks.stored(t, place)


def _reach(t: Stage, state: str, topic: str | None = None) -> ShareMember:
    a = ShareMember(t, "A")
    if state != "unknown":
        a.joined(topic or t.t1)
    if state == "empty":
        t.setup(a.leave)
    return a


def _configs(t: Stage, *names: str) -> dict[str, list[Any]]:
    found = looks.described_configs(t, names or _CONFIGS)
    return {name: list(found[name]) for name in sorted(found)}


_APIS = (
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "ShareFetch",
    "ShareAcknowledge",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
    "DescribeShareGroupOffsets",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
)


@AREA.scenario
def advertised_versions(t: Stage) -> None:
    """Which versions of share and streams group APIs does ApiVersions return?"""
    answer = t.raw("ApiVersions", 4, {"client_software_name": "n", "client_software_version": "1"})
    ranges = {
        one["api_key"]: [one["min_version"], one["max_version"]] for one in answer["api_keys"]
    }
    t.rec("ranges", {api: ranges.get(wire.KEY[api]) for api in _APIS})
    for field in ("supported_features", "finalized_features"):
        shown = {one["name"]: one for one in answer[field]}
        for name in ("share.version", "streams.version"):
            one = {key: value for key, value in shown.get(name, {}).items() if key != "name"}
            t.rec(f"{field} {name}", one)


@AREA.each(api=list(_APIS))
def unknown_versions(t: Stage, api: str) -> None:
    """{api} is sent with the versions just below and above the advertised range."""
    least, most = wire.SCHEMAS[api]["valid"]
    body = {"group_id": t.g} if "group_id" in _fields(api) else {}
    for version in (least - 1, most + 1):
        t.rec(f"v{version}", t.quiet(api, version, body, t.conn()))


def _fields(api: str) -> list[str]:
    return [one["n"] for one in wire.SCHEMAS[api]["req"]]


@AREA.scenario
def topic_made_anew(t: Stage) -> None:
    """A topic is recreated with the same name, and the group reads the new topic."""
    place, a = reader(t, (2, 2))
    a.fetch(place, max_records=1)
    a.acknowledge([(0, 1, ACCEPT)])
    old = t.own_topics[place[0]]
    t.delete_topic(place[0])
    looks.topic(t)
    a.heartbeat("hears of it", place[0])
    a.joined(place[0])
    produce(t, place, 3)
    a.session = 0
    a.fetch(place, note="of the new one")
    t.rec("another id", old != t.own_topics[place[0]])
    looks.offsets(t)
