"""DescribeGroups, ListGroups, DeleteGroups and FindCoordinator: states, lists, exact fields."""

from __future__ import annotations

import base64
import re
from typing import Any

from tests.conformance.stage import Area, Stage

AREA = Area("admin")
STATES = ["unknown", "empty", "preparing", "completing", "stable"]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _listing(t: Stage, label: str, version: int = 5, **filters: list[str]) -> None:
    """Send ListGroups and record this scenario's groups."""
    answer = t.raw("ListGroups", version, filters)
    groups = [
        [
            t.sub(one["group_id"]),
            one["protocol_type"],
            one.get("group_state"),
            one.get("group_type"),
        ]
        for one in answer["groups"]
        if one["group_id"].startswith(t.g)
    ]
    t.rec(label, [answer["error_code"], sorted(groups)])


@AREA.each(state=STATES)
def described_and_listed(t: Stage, state: str) -> None:
    """What do DescribeGroups and ListGroups, with and without filters, return in {state}?"""
    t.reach(state, *t.static("A", "B"))
    for version in (0, 3, 4, 6):
        t.ask("DescribeGroups", version, {"groups": [t.g]})
    for version in (0, 3, 4, 5):
        _listing(t, f"ListGroups v{version}", version)
    for wanted in (
        "Empty",
        "PREPARINGREBALANCE",
        "completingRebalance",
        "stable",
        "Dead",
        "Nonsense",
    ):
        _listing(t, f"states {wanted}", states_filter=[wanted])
    for wanted in ("classic", "CLASSIC", "consumer", "share", "streams", "unknown", ""):
        _listing(t, f"types {wanted}", types_filter=[wanted])
    _listing(t, "both", states_filter=["stable", "empty"], types_filter=["consumer", "classic"])


@AREA.each(state=["empty", "preparing", "completing", "stable"])
def described_with_a_pending_id(t: Stage, state: str) -> None:
    """Descriptions of a group in {state} do not show a pending member id."""
    t.reach(state, "A")
    t.setup(t.member("X").join_now)
    t.state()


@AREA.each(version=[0, 5, 6])
def several_described_at_once(t: Stage, version: int) -> None:
    """What does one request of v{version} return for known and unknown groups, each named twice?"""
    t.reach("stable", "A")
    groups = [t.g, t.group("none"), t.g, t.group("none")]
    answer = t.raw("DescribeGroups", version, {"groups": groups})
    t.rec(
        "groups", sorted([t.sub(one["group_id"]), one["group_state"]] for one in answer["groups"])
    )


@AREA.each(version=[3, 5, 6])
def authorized_operations(t: Stage, version: int) -> None:
    """Which authorized operations are returned without an authorizer, if requested (v{version})?"""
    t.reach("stable", "A")
    groups = {"groups": [t.g, t.group("none")]}
    for asked in (False, True):
        body = groups | {"include_authorized_operations": asked}
        answer = t.raw("DescribeGroups", version, body)
        bits = sorted(one["authorized_operations"] for one in answer["groups"])
        t.rec(f"asked {asked}", bits)


@AREA.scenario
def error_messages_of_describe(t: Stage) -> None:
    """Which messages does DescribeGroups v6 return for a known and an unknown group?"""
    t.reach("stable", "A")
    answer = t.raw("DescribeGroups", 6, {"groups": [t.g, t.group("none")]})
    t.rec(
        "messages",
        sorted(
            [one["error_code"], (one["error_message"] or "-").replace(t.g, "<g>")]
            for one in answer["groups"]
        ),
    )


@AREA.scenario
def identities(t: Stage) -> None:
    """What form do member ids, client ids and hosts of dynamic and static members have?"""
    a = t.member("A", client_id="client one", v=3)
    b = t.member("B", client_id="client two", inst="instance-b")
    join = a.join()
    t.setup(t.got, join)
    second = b.join()
    t.until("PreparingRebalance")
    t.setup(t.got, a.join(), second)
    members = t.raw("DescribeGroups", 5, {"groups": [t.g]})["groups"][0]["members"]
    shown = [
        [UUID.sub("<uuid>", one["member_id"]), one["client_id"], one["client_host"]]
        for one in members
    ]
    t.rec("members", sorted(shown))


# DeleteGroups


@AREA.scenario
def deleted_with_pending_ids(t: Stage) -> None:
    """A group with only pending member ids is deleted; then a leave and a join use those ids."""
    t.reach("empty", "A")
    x, y = t.member("X"), t.member("Y")
    x.join_now()
    y.join_now()
    t.delete_groups()
    t.state()
    x.leave(note="id of a deleted group")
    y.join_now(note="id of a deleted group")
    t.state()


@AREA.scenario
def deleted_while_the_only_member_is_pending(t: Stage) -> None:
    """A group of a pending member id and committed offsets is deleted."""
    t.setup(t.commit, [(t.t1, 0, 1)])
    x = t.member("X")
    x.join_now()
    t.delete_groups()
    t.offs()
    x.join_now(note="with the id")
    x.id = ""
    x.join_now(note="anew")
    t.state()
    t.offs()


@AREA.scenario
def several_deleted_at_once(t: Stage) -> None:
    """Known, unknown, busy and repeated groups are deleted in one request."""
    busy, idle = t.group("busy"), t.group("idle")
    a = t.member("A", group=busy, v=3)
    t.setup(a.join_now)
    t.setup(t.commit, [(t.t1, 0, 1)], group=idle)
    t.reach("empty", "B")
    names = [t.g, busy, idle, t.group("none"), t.g, busy]
    answer = t.raw("DeleteGroups", 2, {"groups_names": names})
    t.rec(
        "results", sorted([t.sub(one["group_id"]), one["error_code"]] for one in answer["results"])
    )
    t.offs(group=idle)


@AREA.scenario
def requests_to_a_deleted_group(t: Stage) -> None:
    """What do a former member's requests return after its group is deleted and recreated?"""
    (a,) = t.reach("empty", "A")
    t.setup(t.commit, [(t.t1, 0, 1)])
    t.delete_groups()
    a.hb()
    a.sync_now()
    a.join_now()
    a.leave(v=3)
    a.commit([(t.t1, 0, 2)])
    a.commit([(t.t1, 0, 2)], v=9)
    t.delete_offsets((t.t1, 0))
    t.state()
    t.commit([(t.t1, 0, 3)], label="standalone")
    t.state()
    t.offs()


@AREA.scenario
def deleted_and_made_anew_at_once(t: Stage) -> None:
    """Delete, commit, delete and join are sent on one connection without waiting."""
    t.setup(t.commit, [(t.t1, 0, 1)])
    delete = {"groups_names": [t.g]}
    commit = {
        "group_id": t.g,
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": t.t1, "partitions": [{"partition_index": 0, "committed_offset": 2}]}],
    }
    a = t.member("A", v=3)
    t.got(
        t.send(t.ctl, "DeleteGroups", 1, delete),
        t.send(t.ctl, "OffsetCommit", 7, commit),
        t.send(t.ctl, "DeleteGroups", 1, delete, "DeleteGroups again"),
        t.send(t.ctl, "DeleteGroups", 1, delete, "DeleteGroups once more"),
        a.join(conn=t.ctl),
    )
    t.offs()
    t.state()


@AREA.each(version=[0, 2])
def empty_names_deleted(t: Stage, version: int) -> None:
    """What does DeleteGroups v{version} return for an unknown empty name, and for no name?"""
    t.ask("DeleteGroups", version, {"groups_names": [""]})
    t.ask("DeleteGroups", version, {"groups_names": []})


# FindCoordinator


def _find(t: Stage, version: int, label: str, **body: Any) -> None:
    """Send FindCoordinator and record every field of the answer; brokers have symbols."""
    answer = t.raw("FindCoordinator", version, body)
    if not isinstance(answer, dict):
        t.rec(label, answer)
        return
    shown = []
    for one in answer.get("coordinators", [answer]):
        node = (one["node_id"], one["host"], one["port"])
        known = node in t.env.brokers
        shown.append(
            [
                one["error_code"],
                one.get("error_message", "<absent>"),
                "a broker" if known else list(node),
            ]
        )
    t.rec(label, shown)


@AREA.each(version=range(7))
def coordinator_fields(t: Stage, version: int) -> None:
    """Which messages, hosts and ports does FindCoordinator v{version} return for each key type?"""
    for key_type in (0, 1, 2, 3, -1):
        for key in (t.g, ""):
            keys = {"key": key} if version < 4 else {"coordinator_keys": [key]}
            _find(t, version, f"type {key_type} key {key and '<g>'!r}", key_type=key_type, **keys)


@AREA.scenario
def no_coordinator_asked_for(t: Stage) -> None:
    """What does FindCoordinator return for no keys, and for a key named twice?"""
    for version in (4, 6):
        _find(t, version, f"none v{version}", coordinator_keys=[])
        _find(t, version, f"twice v{version}", coordinator_keys=[t.g, t.g])


@AREA.each(version=[5, 6])
def coordinator_of_a_share_group(t: Stage, version: int) -> None:
    """What does FindCoordinator v{version} return for valid and invalid keys of type share?"""
    topic = base64.urlsafe_b64encode(next(iter(t.env.topic_ids))).decode().rstrip("=")
    for label, key in (
        ("well-formed", f"{t.g}:{topic}:0"),
        ("negative partition", f"{t.g}:{topic}:-1"),
        ("no group", f":{topic}:0"),
        ("no partition", f"{t.g}:{topic}"),
        ("partition is no number", f"{t.g}:{topic}:x"),
        ("group with a colon", f"{t.g}:more:{topic}:0"),
    ):
        _find(t, version, label, coordinator_keys=[key], key_type=2)


@AREA.scenario
def cluster_and_node_ids(t: Stage) -> None:
    """What does ApiVersions 5 return for right, wrong and missing cluster and node ids?"""
    cluster = t.raw("Metadata", 9, {"topics": []})
    cluster_id, node_id = cluster["cluster_id"], cluster["brokers"][0]["node_id"]
    names = {"client_software_name": "conform", "client_software_version": "1.0"}
    for label, ids in (
        ("none", {}),
        ("this node", {"cluster_id": cluster_id, "node_id": node_id}),
        ("another node", {"cluster_id": cluster_id, "node_id": node_id + 1}),
        ("another cluster", {"cluster_id": "x", "node_id": node_id}),
        ("an empty cluster id", {"cluster_id": "", "node_id": node_id}),
        ("the cluster alone", {"cluster_id": cluster_id}),
        ("another cluster alone", {"cluster_id": "x"}),
        ("the node alone", {"node_id": node_id}),
        ("the node -1", {"cluster_id": cluster_id, "node_id": -1}),
    ):
        answer = t.raw("ApiVersions", 5, names | ids)
        t.rec(label, [answer["error_code"], bool(answer["api_keys"])])
    nameless = {"client_software_name": "", "client_software_version": "1", "cluster_id": "x"}
    t.rec("no name", t.raw("ApiVersions", 5, nameless)["error_code"])


@AREA.scenario
def deleted_with_messages(t: Stage) -> None:
    """Which messages does DeleteGroups 3 return for unknown, empty and stable groups?"""
    t.ask("DeleteGroups", 3, {"groups_names": [t.g]})
    t.commit([(t.t1, 0, 5)])
    t.ask("DeleteGroups", 3, {"groups_names": [t.g]})
    t.stable("A")
    t.ask("DeleteGroups", 3, {"groups_names": [t.g]})
