"""The quorum, its voters, registrations, features and log directories of one broker."""

from __future__ import annotations

from typing import Any

from protocol.errors import ErrorCode
from tests.conformance import leaders
from tests.conformance.stage import Area, Stage

AREA = Area("cluster_admin")

_METADATA = "__cluster_metadata"
_DIRECTORY = bytes(range(16))
_CONTROLLER = {"name": "CONTROLLER", "host": "localhost", "port": 1}
_OTHER = {"name": "OTHER", "host": "other.example", "port": 65535}
_OWN = "<the cluster's>"
_NODE = 1


def _quorum(*topics: tuple[str, list[int]]) -> dict[str, Any]:
    return {
        "topics": [
            {"topic_name": name, "partitions": [{"partition_index": one} for one in indexes]}
            for name, indexes in topics
        ]
    }


@AREA.each(version=[0, 1, 2])
def quorum(t: Stage, version: int) -> None:
    """What does DescribeQuorum v{version} return? Varying values are replaced by their kinds."""
    answer = t.raw("DescribeQuorum", version, _quorum((_METADATA, [0])))
    (topic,) = answer["topics"]
    (partition,) = topic["partitions"]
    end = partition["high_watermark"]
    shown = {
        **{name: partition[name] for name in ("partition_index", "error_code", "leader_id")},
        "error_message": partition.get("error_message"),
        "leader_epoch": partition["leader_epoch"] > 0,
        "voters": [_replica(one, end) for one in partition["current_voters"]],
        "observers": [_replica(one, end) for one in partition["observers"]],
    }
    nodes = [[one["node_id"], len(one["listeners"])] for one in answer.get("nodes", [])]
    t.rec("errors", [answer["error_code"], answer.get("error_message")])
    t.rec("partition", shown)
    t.rec("nodes", nodes)


def _replica(state: dict[str, Any], end: int) -> list[Any]:
    times = [state.get(name, 0) for name in ("last_fetch_timestamp", "last_caught_up_timestamp")]
    directory_id = state.get("replica_directory_id", b"").hex()
    return [
        state["replica_id"],
        directory_id,
        end == state["log_end_offset"],
        [t > 0 for t in times],
    ]


@AREA.each(version=[0, 1, 2])
def other_partitions(t: Stage, version: int) -> None:
    """What does DescribeQuorum v{version} return for anything but metadata partition 0?"""
    name = t.topic(1)
    asked: dict[str, list[tuple[str, list[int]]]] = {
        "nothing": [],
        "a topic": [(name, [0])],
        "another partition": [(_METADATA, [1])],
        "no partition": [(_METADATA, [])],
        "twice": [(_METADATA, [0, 0])],
        "in two entries": [(_METADATA, [0]), (_METADATA, [0])],
        "beside another": [(_METADATA, [0]), (name, [0])],
        "negative": [(_METADATA, [-1])],
        "no name": [("", [0])],
    }
    for note, topics in asked.items():
        leaders.show(t, "DescribeQuorum", version, _quorum(*topics), note)


@AREA.each(version=[0, 1])
def voter_added(t: Stage, version: int) -> None:
    """What does AddRaftVoter v{version} return with static voters (controller.quorum.voters)?"""
    cluster_id = t.raw("DescribeCluster", 0, {})["cluster_id"]
    for given in (None, cluster_id, "other", ""):
        for voter_id, directory_id in (
            (5, _DIRECTORY),
            (_NODE, _DIRECTORY),
            (-1, _DIRECTORY),
            (5, bytes(16)),
        ):
            for listeners in ([_CONTROLLER], [_OTHER], [], [_OTHER, _CONTROLLER]):
                body = {
                    "cluster_id": given,
                    "timeout_ms": 1000,
                    "voter_id": voter_id,
                    "voter_directory_id": directory_id,
                    "listeners": listeners,
                }
                _show_voter(t, "AddRaftVoter", version, body, cluster_id)


@AREA.scenario
def listeners_of_a_voter(t: Stage) -> None:
    """How does AddRaftVoter treat lower-case and repeated names, odd hosts and ports?"""
    cluster_id = t.raw("DescribeCluster", 0, {})["cluster_id"]
    body = {"timeout_ms": 0, "voter_id": 5, "voter_directory_id": _DIRECTORY}
    lower = {"name": "controller", "host": "", "port": 0}
    twice = [{"name": "x", "host": "a", "port": 1}, {"name": "X", "host": "::1", "port": 2}]
    for listeners in ([lower], twice, [{"name": "", "host": "127.0.0.1", "port": 9}]):
        _show_voter(t, "AddRaftVoter", 1, body | {"listeners": listeners}, cluster_id)


@AREA.scenario
def voter_removed(t: Stage) -> None:
    """What does RemoveRaftVoter return with static voters (controller.quorum.voters)?"""
    cluster_id = t.raw("DescribeCluster", 0, {})["cluster_id"]
    for given in (None, cluster_id, "other", ""):
        for voter_id in (_NODE, 5, -1):
            for directory_id in (_DIRECTORY, bytes(16)):
                body = {
                    "cluster_id": given,
                    "voter_id": voter_id,
                    "voter_directory_id": directory_id,
                }
                _show_voter(t, "RemoveRaftVoter", 0, body, cluster_id)


def _show_voter(t: Stage, api: str, version: int, body: dict[str, Any], cluster_id: str) -> None:
    answer = t.raw(api, version, body)
    given = body.get("cluster_id")
    note = [
        _OWN if given == cluster_id else given,
        body["voter_id"],
        body["voter_directory_id"].hex()[-2:],
        [one["name"] for one in body.get("listeners", ())],
    ]
    message = answer["error_message"].replace(cluster_id, _OWN)
    t.rec(f"{api} v{version} {note}", [ErrorCode(answer["error_code"]).name, message])


@AREA.scenario
def unknown_broker(t: Stage) -> None:
    """What does UnregisterBroker return for brokers that are not registered?"""
    for broker_id in (7, -1, 2**31 - 1):
        leaders.show(t, "UnregisterBroker", 0, {"broker_id": broker_id}, str(broker_id))


@AREA.scenario
def unregistered_controllers(t: Stage) -> None:
    """What does UnregisterController return for unregistered and active controllers?"""
    for controller_id in (7, -1, 2**31 - 1, _NODE):
        body = {"controller_id": controller_id}
        leaders.show(t, "UnregisterController", 0, body, str(controller_id))


def _updated(
    t: Stage, version: int, updates: list[tuple[str, int, int]], note: str = "", **fields: Any
) -> None:
    def update(name: str, level: int, kind: int) -> dict[str, Any]:
        more = {"allow_downgrade": kind > 1} if version == 0 else {"upgrade_type": kind}
        return {"feature": name, "max_version_level": level, **more}

    body = {"feature_updates": [update(*one) for one in updates], "timeout_ms": 5000, **fields}
    leaders.show(t, "UpdateFeatures", version, body, f"{updates} {note}".strip())


_FEATURES = ("group.version", "streams.version", "transaction.version")
_LEVEL_OF = {"group.version": 1, "streams.version": 1, "transaction.version": 2}


@AREA.each(version=[0, 1, 2], feature=_FEATURES)
def same_level(t: Stage, version: int, feature: str) -> None:
    """What does UpdateFeatures v{version} return for {feature} at its current level?"""
    for kind in (1, 2, 3):
        _updated(t, version, [(feature, _LEVEL_OF[feature], kind)])


@AREA.each(version=[0, 1, 2], feature=[*_FEATURES, "no.such.feature", "metadata.version"])
def wrong_level(t: Stage, version: int, feature: str) -> None:
    """What does UpdateFeatures v{version} return for {feature} at invalid levels?"""
    for level in (-32768, -1, 32767):
        for kind in (0, 1, 2, 3, 4):
            # The range and the level names of metadata.version differ between releases.
            if feature != "metadata.version" or level < 0:
                _updated(t, version, [(feature, level, kind)])
    if feature in _LEVEL_OF:
        _updated(t, version, [(feature, 0, 1)], "down")


@AREA.each(version=[0, 1, 2])
def several_features(t: Stage, version: int) -> None:
    """What does UpdateFeatures v{version} return for several features, some with invalid levels?"""
    right = [(name, level, 1) for name, level in _LEVEL_OF.items()]
    _updated(t, version, [])
    _updated(t, version, right)
    _updated(t, version, right, "late", timeout_ms=0)
    for wrong in ("nope", "other", "a", "q"):
        _updated(t, version, [*right, (wrong, 1, 1)])
    _updated(t, version, [("nope", 1, 1), ("other", 1, 1)])
    _updated(t, version, [("other", 1, 1), ("nope", 1, 1)])
    _updated(t, version, [("a", 1, 1), ("q", 1, 1)])
    _updated(t, version, [("q", 1, 1), ("a", 1, 1)])
    _updated(t, version, [("", 0, 1), ("nope", 0, 1)])
    _updated(t, version, [("group.version", 9, 1), ("group.version", 1, 1)])


@AREA.each(version=[1, 2])
def only_validated(t: Stage, version: int) -> None:
    """UpdateFeatures v{version} with validate_only changes nothing."""
    _updated(t, version, [("group.version", 1, 1)], validate_only=True)
    _updated(t, version, [("group.version", 2, 1)], validate_only=True)
    _updated(t, version, [("group.version", 0, 1)], validate_only=True)


@AREA.each(version=[1, 2])
def log_directories(t: Stage, version: int) -> None:
    """What does AlterReplicaLogDirs v{version} return for the existing and other directories?"""
    name = t.topic(2)
    path = t.raw("DescribeLogDirs", 4, {"topics": []})["results"][0]["log_dir"]
    known = [{"name": name, "partitions": [0, 1, 7, -1]}, {"name": "nope", "partitions": [0]}]
    asked: dict[str, list[tuple[str, list[dict[str, Any]]]]] = {
        "own": [(path, known)],
        "with a slash": [(f"{path}/", known)],
        "unknown": [("/no/such/directory", known)],
        "relative": [("data", known)],
        "no path": [("", known)],
        "nothing": [],
        "no topics": [(path, [])],
        "no partitions": [(path, [{"name": name, "partitions": []}])],
        "twice": [("/no/such/directory", known), (path, [{"name": name, "partitions": [0]}])],
        "elsewhere after": [(path, known), ("/no/such", [{"name": name, "partitions": [0]}])],
    }
    for note, dirs in asked.items():
        body = {"dirs": [{"path": one, "topics": topics} for one, topics in dirs]}
        answer = t.raw("AlterReplicaLogDirs", version, body)
        results = {
            t.sub(one["topic_name"]): sorted(
                [part["partition_index"], ErrorCode(part["error_code"]).name]
                for part in one["partitions"]
            )
            for one in answer["results"]
        }
        t.rec(note, results)
