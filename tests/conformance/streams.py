"""Members of streams groups (KIP-1071), their topologies, and descriptions of their groups."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Self

from tests.conformance.connection import Abort, Setup
from tests.conformance.producers import error
from tests.conformance.stage import Stage

Tasks = Mapping[str, Sequence[int]]
"""Partitions by subtopology."""
Topology = dict[str, Any]
"""A topology as in StreamsGroupHeartbeat."""

LEAVE = -1
KINDS = ("active", "standby", "warmup")

_STATUSES = (
    "STALE_TOPOLOGY",
    "MISSING_SOURCE_TOPICS",
    "INCORRECTLY_PARTITIONED_TOPICS",
    "MISSING_INTERNAL_TOPICS",
    "SHUTDOWN_APPLICATION",
    "ASSIGNMENT_DELAYED",
)


def subtopology(
    name: str,
    sources: Sequence[str] = (),
    *,
    changelogs: Sequence[str | dict[str, Any]] = (),
    sinks: Sequence[str] = (),
    repartitions: Sequence[str | dict[str, Any]] = (),
    copartitions: Sequence[dict[str, Any]] = (),
    **changes: Any,
) -> dict[str, Any]:
    """Return a subtopology; internal topics are names, or names with partitions and configs."""
    return {
        "subtopology_id": name,
        "source_topics": list(sources),
        "source_topic_regex": [],
        "state_changelog_topics": [_internal(one) for one in changelogs],
        "repartition_sink_topics": list(sinks),
        "repartition_source_topics": [_internal(one) for one in repartitions],
        "copartition_groups": list(copartitions),
        **changes,
    }


def topology(*subtopologies: dict[str, Any], epoch: int = 0) -> Topology:
    """Return a topology of these subtopologies."""
    return {"epoch": epoch, "subtopologies": list(subtopologies)}


def simple(*sources: str, epoch: int = 0) -> Topology:
    """Return a topology with one stateless subtopology."""
    return topology(subtopology("0", sources), epoch=epoch)


def internal(t: Stage, name: str) -> str:
    """Return the name of an internal topic for this scenario alone."""
    real = f"{t.g}-{name}"
    t.name_it(real, f"<{name}>")
    return real


class StreamsMember:
    """A member of the scenario's group that reports its last assignment as owned."""

    def __init__(
        self,
        t: Stage,
        name: str = "A",
        wanted: Topology | None = None,
        *,
        process: str | None = None,
    ) -> None:
        _prepare(t)
        self.t = t
        self.name = name
        self.topology = wanted
        self.process = process or f"process-{name}"
        self.id = str(uuid.uuid4())
        t.name_it(self.id, name)
        self.epoch = 0
        self.owned: dict[str, Tasks] = {kind: {} for kind in KINDS}
        self.endpoint_epoch = 0
        self._connection = t.conn()

    def join(self, note: str = "joins", **changes: Any) -> Any:
        """Send a heartbeat with epoch 0 and the topology; return the answer."""
        self.owned = {kind: {} for kind in KINDS}
        body = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 9000,
            "topology": self.topology,
            "process_id": self.process,
            **_tasks(self.owned),
            **changes,
        }
        return self.heartbeat(note, **body)

    def heartbeat(
        self, note: str = "", *, owns: Mapping[str, Tasks] | None = None, **more: Any
    ) -> Any:
        """Send StreamsGroupHeartbeat; return the answer. `owns` are the reported tasks by kind.

        The step is recorded as error, epoch, tasks if any, and group statuses.
        """
        owned = {} if owns is None else _tasks({kind: owns.get(kind, {}) for kind in KINDS})
        body = {
            "group_id": self.t.g,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "endpoint_information_epoch": self.endpoint_epoch,
            **owned,
            **more,
        }
        label = f"{self.name} heartbeat {note}".strip()
        answer = self.t.quiet("StreamsGroupHeartbeat", 0, body, self._connection)
        if not isinstance(answer, dict):
            self.t.rec(label, answer)
            raise Abort
        self.t.rec(label, self._shown(answer))
        if not answer["error_code"]:
            self.epoch = answer["member_epoch"]
            self.endpoint_epoch = answer["endpoint_information_epoch"]
            if answer["active_tasks"] is not None:
                self.owned = {kind: _by_subtopology(answer[f"{kind}_tasks"]) for kind in KINDS}
        return answer

    def owning(self, note: str = "", **more: Any) -> Any:
        """Send a heartbeat that reports the last assignment as owned; return the answer."""
        return self.heartbeat(note, owns=self.owned, **more)

    def leave(self, note: str = "") -> Any:
        """Send a heartbeat with epoch -1; return the answer."""
        return self.heartbeat(f"leaves {note}".strip(), member_epoch=LEAVE)

    def joined(self, *, active: int | None = None) -> Self:
        """Send unrecorded heartbeats until this member has active tasks; return the member.

        With `active` the number of active tasks must be this number.
        """
        was, self.t.recording = self.t.recording, False
        self.join()
        for _ in range(200):
            count = sum(len(partitions) for partitions in self.owned["active"].values())
            if count == active or (count and active is None):
                break
            self.t.nap(0.03)
            self.owning()
        else:
            raise Setup(f"{self.name} has {self.owned}")
        self.t.recording = was
        return self

    def settled(self, *others: StreamsMember, seconds: float = 6.0) -> None:
        """Send heartbeats of all members, unrecorded, until the group is stable."""
        for _ in range(int(seconds / 0.1)):
            for one in (self, *others):
                self.t.setup(one.owning)
            if described_group(self.t)["group_state"] == "Stable":
                return
        self.t.rec("settled", described_group(self.t)["group_state"])

    def _shown(self, answer: Any) -> dict[str, Any]:
        shown: dict[str, Any] = {"epoch": answer["member_epoch"]}
        if answer["error_code"]:
            shown["error"] = error(answer["error_code"])
        if answer["active_tasks"] is not None:
            shown |= _shown_tasks({kind: answer[f"{kind}_tasks"] for kind in KINDS})
        if answer["status"]:
            shown["status"] = [
                f"{_STATUSES[one['status_code']]}: {plain(self.t, one['status_detail'])}"
                for one in answer["status"]
            ]
        if answer["partitions_by_user_endpoint"]:
            shown["endpoints"] = sorted(
                (_shown_endpoint(self.t, one) for one in answer["partitions_by_user_endpoint"]),
                key=str,
            )
        if answer["endpoint_information_epoch"]:
            shown["endpoint epoch"] = answer["endpoint_information_epoch"]
        return shown


def members(
    t: Stage, names: str, wanted: Topology, *, processes: str | None = None
) -> list[StreamsMember]:
    """Return joined members, unrecorded, once the group is stable."""
    joined = [
        StreamsMember(t, name, wanted, process=process)
        for name, process in zip(names, processes or names, strict=True)
    ]
    joined[0].joined()
    for one in joined[1:]:
        t.setup(one.join)
    joined[0].settled(*joined[1:])
    return joined


def topic(t: Stage, partitions: int = 1, suffix: str = "own") -> str:
    """Create a topic, wait until the group coordinator knows it, and return its name."""
    name = t.topic(partitions, suffix)
    t.sleep(0.15)
    return name


def _prepare(t: Stage) -> None:
    """Wait, once per broker and unrecorded, until group coordinators know the shared topics."""
    if "streams" in t.env.prepared:
        return
    for number in range(12):
        body = {
            "group_id": f"warm-{number}-{t.g}",
            "member_id": "warm",
            "rebalance_timeout_ms": 9000,
            "topology": simple(t.t1, t.t3, t.tx),
            "process_id": "warm",
            **_tasks({kind: {} for kind in KINDS}),
        }
        while t.raw("StreamsGroupHeartbeat", 0, body)["status"]:
            t.nap(0.1)
        left = {"group_id": body["group_id"], "member_id": "warm", "member_epoch": LEAVE}
        t.raw("StreamsGroupHeartbeat", 0, left)
    t.env.prepared.add("streams")


def plain(t: Stage, text: str | None) -> str | None:
    """Return a text with symbols for names, longest names first, and sorted lists of symbols."""
    for name in sorted(t.subst, key=len, reverse=True):
        text = text and text.replace(name, t.subst[name])
    if text is None:
        return None
    text = re.sub(r"<[^ ]*>(, <[^ ]*>)+", lambda found: _in_order(found[0]), text)
    return re.sub(r"\{(<.*)\}", lambda found: "{" + _in_order(found[1]) + "}", text)


def _in_order(names: str) -> str:
    return ", ".join(sorted(names.split(", ")))


def described_group(t: Stage) -> Any:
    """Return StreamsGroupDescribe of the scenario's group, unrecorded."""
    return t.raw("StreamsGroupDescribe", 0, {"group_ids": [t.g]})["groups"][0]


def described(t: Stage, label: str = "described") -> Any:
    """Record and return StreamsGroupDescribe: state, epochs, and each member's epoch and tasks."""
    answer = described_group(t)
    if answer["error_code"]:
        return t.rec(label, error(answer["error_code"]))
    members = {}
    for one in answer["members"]:
        tasks = _shown_tasks(_kinds(one["assignment"]))
        target = _shown_tasks(_kinds(one["target_assignment"]))
        shown: list[Any] = [one["member_epoch"], tasks]
        members[t.sub(one["member_id"])] = (
            shown if tasks == target else [*shown, {"target": target}]
        )
    shown = [answer["group_state"], answer["group_epoch"], answer["assignment_epoch"]]
    return t.rec(label, [*shown, dict(sorted(members.items()))])


def described_topology(t: Stage, label: str = "topology") -> None:
    """Record the topology in StreamsGroupDescribe."""
    answer = described_group(t)
    one = answer["topology"]
    if one is None or one["subtopologies"] is None:
        t.rec(label, one)
        return
    shown = {}
    for part in one["subtopologies"]:
        shown[part["subtopology_id"]] = {
            "sources": sorted(t.sub(name) for name in part["source_topics"]),
            "sinks": sorted(t.sub(name) for name in part["repartition_sink_topics"]),
            "changelogs": _infos(t, part["state_changelog_topics"]),
            "repartitions": _infos(t, part["repartition_source_topics"]),
        }
    t.rec(label, [one["epoch"], {name: _full(part) for name, part in sorted(shown.items())}])


def spread(t: Stage, label: str = "spread") -> None:
    """Record the task counts of the members by kind, and the member counts of the tasks.

    The assignment itself depends on the hashes of random ids.
    """
    answer = described_group(t)
    counts, tasks = [], []
    for one in answer["members"]:
        kinds = _kinds(one["assignment"])
        counts.append([sum(len(x["partitions"]) for x in kinds[kind]) for kind in KINDS[:2]])
        tasks += [
            f"{kind} {x['subtopology_id']}_{index}"
            for kind in KINDS
            for x in kinds[kind]
            for index in x["partitions"]
        ]
    t.rec(label, [sorted(counts), {one: tasks.count(one) for one in sorted(tasks)}])


def partitions(t: Stage, *topics: str, label: str = "partitions") -> None:
    """Record the partition counts of topics; 0 for a missing one."""
    asked = [{"name": name, "topic_id": bytes(16)} for name in topics]
    answer = t.raw("Metadata", 12, {"topics": asked})
    counts = {t.sub(one["name"]): len(one["partitions"]) for one in answer["topics"]}
    t.rec(label, dict(sorted(counts.items())))


def until_there(t: Stage, *topics: str) -> None:
    """Wait, unrecorded, until the topics exist."""
    asked = [{"name": name, "topic_id": bytes(16)} for name in topics]
    for _ in range(200):
        answer = t.raw("Metadata", 12, {"topics": asked})
        if not any(one["error_code"] for one in answer["topics"]):
            t.sleep(0.1)
            return
        t.nap(0.03)
    t.rec("topics", "still missing")


def _internal(one: str | dict[str, Any]) -> dict[str, Any]:
    topic = {"name": one} if isinstance(one, str) else one
    return {"partitions": 0, "replication_factor": 1, "topic_configs": [], **topic}


def _tasks(owned: Mapping[str, Tasks]) -> dict[str, Any]:
    return {
        f"{kind}_tasks": [
            {"subtopology_id": name, "partitions": list(indexes)} for name, indexes in tasks.items()
        ]
        for kind, tasks in owned.items()
    }


def _by_subtopology(tasks: Any) -> dict[str, list[int]]:
    return {one["subtopology_id"]: sorted(one["partitions"]) for one in tasks}


def _kinds(assignment: Any) -> dict[str, Any]:
    return {kind: assignment[f"{kind}_tasks"] for kind in KINDS}


def _shown_tasks(kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return tasks by kind; only active tasks are included even if empty."""
    return {
        kind: dict(sorted(_by_subtopology(tasks).items()))
        for kind, tasks in kinds.items()
        if tasks or kind == "active"
    }


def _shown_endpoint(t: Stage, one: Any) -> list[Any]:
    where = one["user_endpoint"]
    kinds = [
        {t.sub(topic["topic"]): sorted(topic["partitions"]) for topic in one[f"{kind}_partitions"]}
        for kind in KINDS[:2]
    ]
    return [f"{where['host']}:{where['port']}", *kinds]


def _infos(t: Stage, topics: Any) -> dict[str, Any]:
    return {
        t.sub(one["name"]): [
            one["partitions"],
            one["replication_factor"],
            {pair["key"]: pair["value"] for pair in one["topic_configs"]},
        ]
        for one in topics
    }


def _full(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if value}
