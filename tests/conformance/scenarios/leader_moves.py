"""Replicas and leaders that clients move between three brokers."""

from __future__ import annotations

from tests.conformance import leaders, moving
from tests.conformance.leaders import PREFERRED, UNCLEAN
from tests.conformance.stage import Area, Stage

AREA = Area("leader_moves", "c")

_PLACES = [
    (1,),
    (2,),
    (3,),
    (1, 2),
    (2, 1),
    (1, 3),
    (3, 2),
    (2, 3),
    (3, 1, 2),
    (1, 2, 3),
    (2, 3, 1),
]


def _nodes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("-")))


@AREA.each(before=["1", "1-2", "3-1", "1-2-3"])
def moved(t: Stage, before: str) -> None:
    """A partition on {before} moves to other brokers, one after the other."""
    name = moving.topic(t, _nodes(before))
    for replicas in _PLACES:
        leaders.alter(t, name, {0: replicas})
        leaders.placed(t, name, {0: replicas}, f"on {replicas}")


@AREA.each(before=["1", "1-2", "1-2-3"], after=["2", "2-1", "3-2"])
def moved_once(t: Stage, before: str, after: str) -> None:
    """A partition moves from {before} to {after}, and its neighbour stays."""
    old, new = _nodes(before), _nodes(after)
    name = moving.topic(t, old, old)
    leaders.alter(t, name, {0: new})
    leaders.placed(t, name, {0: new, 1: old})
    leaders.listed(t, None)
    leaders.elect(t, PREFERRED, [(name, [0, 1])])
    leaders.led(t, name, {0: new[0]})
    leaders.elect(t, PREFERRED, [(name, [0, 1])], "again")
    leaders.described(t, name)


@AREA.scenario
def count_stays(t: Stage) -> None:
    """AlterPartitionReassignments v1 can forbid a new number of replicas, but not new replicas."""
    name = moving.topic(t, (1, 2))
    for replicas in ([1], [1, 2, 3], [3, 2]):
        note = str(replicas)
        leaders.alter(t, name, {0: replicas}, note, allow_replication_factor_change=False)
    leaders.placed(t, name, {0: [3, 2]})


@AREA.scenario
def elected_again(t: Stage) -> None:
    """After replicas are reordered, ElectLeaders elects the first replica of each partition."""
    name = moving.topic(t, (1, 2), (1, 3), (1, 2))
    leaders.alter(t, name, {0: [2, 1], 1: [3, 1]})
    leaders.placed(t, name, {0: [2, 1], 1: [3, 1]})
    leaders.elect(t, UNCLEAN, [(name, [0, 1, 2])])
    leaders.elect(t, PREFERRED, None, "all")
    leaders.led(t, name, {0: 2, 1: 3, 2: 1})
    leaders.elect(t, PREFERRED, None, "all again")


@AREA.scenario
def group_follows(t: Stage) -> None:
    """Offsets are fetched from the broker to which the group's partition was reassigned."""
    name = moving.topic(t, (1,), (1,))
    moving.move_group(t, 1)
    t.setup(t.commit, [(name, 0, 5)])
    moving.move_group(t, 3)
    moving.offsets(t, name, 3)
    moving.offsets(t, name, 1, "at the old coordinator")


@AREA.scenario
def unfinished(t: Stage) -> None:
    """Reassignments to a stopped broker wait until they are cancelled or the broker starts."""
    name = moving.topic(t, (1, 2), (1, 2), (1, 2), (2, 1))
    single = moving.topic(t, (1,), suffix="single")
    with moving.without(t, 3):
        leaders.alter(t, name, {0: [3, 2], 1: [1, 2, 3], 2: [3, 1], 3: [3]})
        leaders.alter(t, single, {0: [3]}, "single")
        leaders.listed(t, None)
        leaders.listed(t, {name: [1, 2, 7]}, "some")
        leaders.led(t, name, {0: 1})
        leaders.described(t, single, "single")
        leaders.elect(t, PREFERRED, [(name, [0, 1, 2, 3]), (single, [0])])
        leaders.elect(t, UNCLEAN, [(name, [0, 2]), (single, [0])])
        leaders.alter(t, name, {1: None, 2: None}, "cancelled")
        leaders.alter(t, name, {1: None, 2: None}, "cancelled again")
        for replicas in ([3], [1, 2, 3]):
            note = f"count of {replicas}"
            leaders.alter(t, name, {0: replicas}, note, allow_replication_factor_change=False)
        leaders.listed(t, None, "in the end")
        leaders.described(t, name)
    leaders.placed(t, name, {0: [3, 2], 3: [3]}, "finished")
    leaders.placed(t, single, {0: [3]}, "single finished")


@AREA.scenario
def changed(t: Stage) -> None:
    """An unfinished reassignment gets another target."""
    name = moving.topic(t, *[(1, 2)] * 7)
    with moving.without(t, 3):
        leaders.alter(t, name, {index: [3, 2] for index in range(7)})
        targets = ([1, 2], [2, 1], [3, 2], [3], [1, 2, 3], [2], [1, 3])
        leaders.alter(t, name, dict(enumerate(targets)), "again")
        leaders.listed(t, None)
        leaders.described(t, name)
        leaders.alter(t, name, dict.fromkeys(range(7)), "cancelled")
        leaders.listed(t, None, "cancelled")
        leaders.described(t, name, "cancelled")


@AREA.scenario
def offline(t: Stage) -> None:
    """ElectLeaders and AlterPartitionReassignments are sent while a leader's broker is stopped."""
    name = moving.topic(t, (2, 3), (2, 1))
    single = moving.topic(t, (2,), (2,), suffix="single")
    with moving.without(t, 2):
        leaders.led(t, name, {0: 3, 1: 1})
        leaders.led(t, single, {0: -1, 1: -1}, "single")
        for kind in (PREFERRED, UNCLEAN):
            leaders.elect(t, kind, [(name, [0, 1]), (single, [0, 1])])
        leaders.alter(t, name, {1: [1, 3]})
        leaders.alter(t, single, {1: [1]}, "single")
        leaders.placed(t, name, {1: [1, 3]})
        leaders.listed(t, None)
        leaders.elect(t, PREFERRED, [(single, [1])], "of a reassignment")
        leaders.alter(t, single, {1: None}, "cancelled")
        leaders.listed(t, None, "cancelled")
        leaders.alter(t, single, {1: [3]}, "again")
        leaders.elect(t, UNCLEAN, [(single, [1])], "of a reassignment")
        leaders.placed(t, single, {1: [3]}, "single")
    leaders.led(t, single, {0: 2, 1: 3}, "single in the end")
    leaders.elect(t, PREFERRED, [(name, [0, 1])], "in the end")
    leaders.led(t, name, {0: 2}, "in the end")


@AREA.scenario
def unregistered(t: Stage) -> None:
    """A stopped broker is unregistered, and not described until it starts again."""
    name = moving.topic(t, (1, 2))
    with moving.without(t, 3):
        _brokers(t, "stopped")
        leaders.show(t, "UnregisterBroker", 0, {"broker_id": 3})
        leaders.show(t, "UnregisterBroker", 0, {"broker_id": 3}, "again")
        _brokers(t, "unregistered")
        leaders.alter(t, name, {0: [3, 1]})
    _brokers(t, "started")
    leaders.alter(t, name, {0: [3, 1]}, "started")
    leaders.placed(t, name, {0: [3, 1]})


def _brokers(t: Stage, note: str) -> None:
    answer = t.raw("DescribeCluster", 2, {"include_fenced_brokers": True})
    shown = sorted([one["broker_id"], one["is_fenced"]] for one in answer["brokers"])
    t.rec(f"brokers {note}", shown)


@AREA.scenario
def log_directories(t: Stage) -> None:
    """AlterReplicaLogDirs is sent for a broker's own replicas and for those of other brokers."""
    name = moving.topic(t, (1, 2), (2, 3), (3, 1))
    for node in moving.NODES:
        connection = t.connect(node)
        described = t.quiet("DescribeLogDirs", 4, {"topics": []}, connection)
        path = described["results"][0]["log_dir"]
        topics = [{"name": name, "partitions": [0, 1, 2, 3]}]
        body = {"dirs": [{"path": path, "topics": topics}]}
        answer = t.quiet("AlterReplicaLogDirs", 2, body, connection)
        errors = {
            part["partition_index"]: part["error_code"]
            for part in answer["results"][0]["partitions"]
        }
        t.rec(f"at {node}", dict(sorted(errors.items())))


@AREA.each(node=[1, 2])
def quorum(t: Stage, node: int) -> None:
    """DescribeQuorum of broker {node} has one voter, and the other brokers as observers."""
    partitions = [{"partition_index": 0}]
    body = {"topics": [{"topic_name": "__cluster_metadata", "partitions": partitions}]}
    answer = t.quiet("DescribeQuorum", 2, body, t.connect(node))
    (partition,) = answer["topics"][0]["partitions"]
    t.rec("leader", [partition["leader_id"], partition["error_code"]])
    for field in ("current_voters", "observers"):
        t.rec(field, sorted(one["replica_id"] for one in partition[field]))
    t.rec("nodes", [one["node_id"] for one in answer["nodes"]])
