"""Reassignments and leader elections sent to a single broker."""

from __future__ import annotations

from typing import Any

from tests.conformance import leaders
from tests.conformance.leaders import PREFERRED, UNCLEAN
from tests.conformance.stage import Area, Stage

AREA = Area("leader_admin")


@AREA.each(version=[0, 1])
def reassigned(t: Stage, version: int) -> None:
    """AlterPartitionReassignments v{version} moves a partition to the only broker."""
    name = t.topic(2)
    leaders.alter(t, name, {0: [1], 1: [1]}, version=version)
    leaders.alter(t, name, [(0, [1]), (0, [1])], "twice", version=version)
    leaders.described(t, name)


@AREA.each(version=[0, 1])
def wrong_replicas(t: Stage, version: int) -> None:
    """AlterPartitionReassignments v{version} names no, unknown, or repeated brokers."""
    name = t.topic(1)
    for replicas in ([], [2], [1, 2], [2, 1], [1, 1], [-1], [5, 3, 1, 1], [1, 1, 0], [1, -5, 7]):
        leaders.alter(t, name, {0: replicas}, str(replicas), version=version)


@AREA.each(version=[0, 1])
def unknown_partitions(t: Stage, version: int) -> None:
    """AlterPartitionReassignments v{version} names unknown and known partitions."""
    name = t.topic(1)
    for replicas in ([1], [], [7], None):
        targets = [(0, [1]), (1, replicas), (-1, replicas)]
        leaders.alter(t, name, targets, f"{replicas}", version=version)
    wanted = [{"partition_index": 0, "replicas": [1]}]
    topics: list[dict[str, Any]] = [
        {"name": "no-such-topic", "partitions": wanted},
        {"name": name, "partitions": []},
        {"name": "no/topic", "partitions": wanted},
        {"name": "", "partitions": wanted},
        {"name": name, "partitions": wanted},
    ]
    leaders.alter_topics(t, topics, "topics", version=version)


@AREA.each(version=[0, 1])
def nothing_to_cancel(t: Stage, version: int) -> None:
    """AlterPartitionReassignments v{version} cancels reassignments that do not exist."""
    name = t.topic(2)
    leaders.alter(t, name, {0: None, 1: None}, version=version)


@AREA.each(version=[0, 1])
def no_topics(t: Stage, version: int) -> None:
    """AlterPartitionReassignments v{version} names no topics."""
    leaders.alter_topics(t, [], version=version)
    leaders.alter_topics(t, [], "late", version=version, timeout_ms=0)


@AREA.scenario
def count_may_not_change(t: Stage) -> None:
    """allow_replication_factor_change is echoed; errors of the replicas take precedence."""
    name = t.topic(1)
    for replicas in ([1], [1, 1], [1, 2], []):
        note = str(replicas)
        leaders.alter(t, name, {0: replicas}, note, allow_replication_factor_change=False)
    leaders.alter_topics(t, [], "nothing", allow_replication_factor_change=False)


@AREA.each(timeout_ms=[0, -1])
def late_reassignments(t: Stage, timeout_ms: int) -> None:
    """AlterPartitionReassignments has an expired timeout of {timeout_ms} ms."""
    name = t.topic(1)
    for allows in (True, False):
        leaders.alter(
            t,
            name,
            [(0, [1]), (7, [1]), (0, [5])],
            f"allows {allows}",
            timeout_ms=timeout_ms,
            allow_replication_factor_change=allows,
        )


@AREA.scenario
def internal_topic_reassigned(t: Stage) -> None:
    """AlterPartitionReassignments is sent for the offsets topic."""
    t.setup(t.commit, [(t.t1, 0, 1)])
    leaders.alter(t, "__consumer_offsets", {0: [1], 9: [1], 1: None})


@AREA.scenario
def nothing_moves(t: Stage) -> None:
    """ListPartitionReassignments is sent for all, some and unknown partitions."""
    name = t.topic(2)
    leaders.alter(t, name, {0: [1]})
    leaders.listed(t, None, "all")
    leaders.listed(t, {}, "none")
    leaders.listed(t, {name: [0, 1, 5, -1], "no-such-topic": [0]}, "some")


@AREA.each(version=[0, 1, 2], kind=[PREFERRED, UNCLEAN])
def elected(t: Stage, version: int, kind: int) -> None:
    """ElectLeaders v{version}, type {kind}, has nothing to do, or names unknown partitions."""
    name = t.topic(2)
    asked = [(name, [0, 7, -1]), ("no-such-topic", [0, 1]), (name, [1, 1]), ("", [0]), (name, [])]
    leaders.elect(t, kind, asked, version=version)
    leaders.elect(t, kind, None, "all", version=version)
    leaders.elect(t, kind, [], "none", version=version)


@AREA.each(version=[1, 2], kind=[2, -1, 127])
def unknown_election(t: Stage, version: int, kind: int) -> None:
    """ElectLeaders v{version} has the unknown type {kind}."""
    name = t.topic(2)
    leaders.elect(t, kind, [(name, [0, 7]), ("no-such-topic", [0]), (name, [])], version=version)
    leaders.elect(t, kind, None, "all", version=version)
    leaders.elect(t, kind, [], "none", version=version)


@AREA.each(version=[0, 1, 2], timeout_ms=[0, -1])
def late_elections(t: Stage, version: int, timeout_ms: int) -> None:
    """ElectLeaders v{version} has an expired timeout of {timeout_ms} ms."""
    name = t.topic(2)
    asked = [(name, [0, 7]), ("no-such-topic", [0])]
    for kind in (PREFERRED, UNCLEAN, 9) if version else (PREFERRED,):
        leaders.elect(t, kind, asked, version=version, timeout_ms=timeout_ms)
        leaders.elect(t, kind, None, "all", version=version, timeout_ms=timeout_ms)
        leaders.elect(t, kind, [], "none", version=version, timeout_ms=timeout_ms)
