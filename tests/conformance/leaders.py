"""Reassignments and leader elections in scenarios, with Kafka's error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.errors import ErrorCode
from tests.conformance import timing
from tests.conformance.stage import Stage

Targets = Mapping[int, Sequence[int] | None] | Sequence[tuple[int, Sequence[int] | None]]
"""Replicas by partition; None cancels a reassignment. A sequence may repeat a partition."""

PREFERRED, UNCLEAN = 0, 1
_SECONDS = 20.0
_ONGOING = ("partition_index", "replicas", "adding_replicas", "removing_replicas")
_LED = ("leader_id", "leader_epoch", "replica_nodes")


def alter(t: Stage, name: str, targets: Targets, note: str = "", **fields: Any) -> None:
    """Send AlterPartitionReassignments of one topic's partitions and record the answer."""
    pairs = targets.items() if isinstance(targets, Mapping) else targets
    partitions = [{"partition_index": one, "replicas": replicas} for one, replicas in pairs]
    alter_topics(t, [{"name": name, "partitions": partitions}], note, **fields)


def alter_topics(
    t: Stage, topics: list[dict[str, Any]], note: str = "", version: int = 1, **fields: Any
) -> None:
    """Send AlterPartitionReassignments and record the answer."""
    body = {"topics": topics, "timeout_ms": 9000, **fields}
    show(t, "AlterPartitionReassignments", version, body, note)


def listed(t: Stage, topics: dict[str, Sequence[int]] | None, note: str = "") -> None:
    """Record ListPartitionReassignments, only for this scenario's topics."""
    asked = None
    if topics is not None:
        asked = [{"name": name, "partition_indexes": list(one)} for name, one in topics.items()]
    answer = t.raw("ListPartitionReassignments", 0, {"topics": asked})
    found = {
        t.sub(one["name"]): sorted(
            [part[field] for field in _ONGOING] for part in one["partitions"]
        )
        for one in answer["topics"]
        if one["name"] in t.own_topics
    }
    t.rec(f"listed {note}".strip(), [_errors(t, answer), found])


def elect(
    t: Stage,
    kind: int,
    topics: Sequence[tuple[str, Sequence[int]]] | None,
    note: str = "",
    version: int = 2,
    **fields: Any,
) -> None:
    """Send ElectLeaders and record the answer, only for this scenario's topics."""
    asked = None
    if topics is not None:
        asked = [{"topic": name, "partitions": list(one)} for name, one in topics]
    body = {"topic_partitions": asked, "timeout_ms": 9000, **fields}
    if version > 0:
        body["election_type"] = kind
    answer = t.raw("ElectLeaders", version, body)
    results = [
        [
            t.sub(one["topic"]),
            [[part["partition_id"], _errors(t, part)] for part in one["partition_result"]],
        ]
        for one in answer["replica_election_results"]
        if topics is not None or one["topic"] in t.own_topics
    ]
    label = ("preferred", "unclean")[kind] if kind in (PREFERRED, UNCLEAN) else str(kind)
    t.rec(f"elect {label} v{version} {note}".strip(), [answer.get("error_code"), results])


def placed(t: Stage, name: str, wanted: Mapping[int, Sequence[int]], note: str = "") -> None:
    """Wait until partitions have these replicas and no reassignment; record their placement."""

    def are_there() -> bool:
        answer = t.raw("ListPartitionReassignments", 0, {"topics": None})
        moving = {one["name"] for one in answer["topics"]}
        seen = _partitions(t, name)
        return name not in moving and all(
            seen[index]["replica_nodes"] == list(replicas)
            and set(seen[index]["isr_nodes"]) == set(replicas)
            for index, replicas in wanted.items()
        )

    _wait(t, are_there)
    described(t, name, note)


def led(t: Stage, name: str, leaders: Mapping[int, int], note: str = "") -> None:
    """Wait until partitions have these leaders (-1 for none); record their placement."""
    _wait(
        t,
        lambda: all(
            _partitions(t, name)[index]["leader_id"] == leader for index, leader in leaders.items()
        ),
    )
    described(t, name, note)


def described(t: Stage, name: str, note: str = "") -> None:
    """Record leader, leader epoch, replicas and in-sync replicas of each partition."""
    shown = {
        index: [*(one[field] for field in _LED), sorted(one["isr_nodes"])]
        for index, one in sorted(_partitions(t, name).items())
    }
    t.rec(f"partitions {note}".strip(), shown)


def show(t: Stage, api: str, version: int, body: dict[str, Any], note: str = "") -> Any:
    """Send a request; record and return its answer with the error messages."""
    answer = t.raw(api, version, body)
    t.rec(f"{api} v{version} {note}".strip(), _shown(t, answer))
    return answer


def _shown(t: Stage, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shown(t, one) for name, one in value.items() if name != "throttle_time_ms"}
    if isinstance(value, list):
        return [_shown(t, one) for one in value]
    return hide_names(t, value) if isinstance(value, str) else value


def hide_names(t: Stage, text: str) -> str:
    """Return the text with symbols for the scenario's topic names, which differ between runs."""
    for name in t.own_topics:
        text = text.replace(name, t.sub(name))
    return text


def _errors(t: Stage, answer: dict[str, Any]) -> list[Any]:
    message = answer["error_message"]
    code = ErrorCode(answer["error_code"]).name
    return [code, None if message is None else hide_names(t, message)]


def _partitions(t: Stage, name: str) -> dict[int, dict[str, Any]]:
    asked = {"topics": [{"name": name, "topic_id": bytes(16)}]}
    (seen,) = t.raw("Metadata", 12, asked)["topics"]
    return {one["partition_index"]: one for one in seen["partitions"]}


def _wait(t: Stage, is_so: Any) -> None:
    """Wait up to a limit; the next recorded step shows whether the condition holds."""
    for _ in range(int(_SECONDS * timing.scale / 0.05)):
        if is_so():
            return
        t.nap(0.05)
