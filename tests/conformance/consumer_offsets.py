"""Offset commits and fetches of consumer groups in scenarios, in all versions.

Errors and offsets are recorded by partition, both for versions with topic names and with topic ids.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tests.conformance.consumer_members import ConsumerMember, error, topic_id
from tests.conformance.stage import Stage

FIRST_VERSION_WITH_IDS = 10

Offset = tuple[str, int, int]
"""Topic, partition, offset."""


def commit(
    t: Stage,
    label: str,
    *offsets: Offset,
    version: int = 9,
    member_id: str = "",
    epoch: int = -1,
    instance_id: str | None = None,
    too_long: Collection[Offset] = (),
) -> Any:
    """Send OffsetCommit; record and return the errors.

    Offsets in `too_long` get too much metadata.
    """
    topics: dict[str, list[dict[str, Any]]] = {}
    for one in offsets or [(t.t3, 0, 1)]:
        topic, index, offset = one
        partition = {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "x" * 5000 if one in too_long else "",
        }
        topics.setdefault(topic, []).append(partition)
    body = {
        "group_id": t.g,
        "generation_id_or_member_epoch": epoch,
        "member_id": member_id,
        "group_instance_id": instance_id,
        "topics": [
            _named(t, version, topic) | {"partitions": partitions}
            for topic, partitions in topics.items()
        ],
    }
    answer = t.quiet("OffsetCommit", version, body)
    if not isinstance(answer, dict):
        return t.rec(label, answer)
    return t.rec(label, _by_partition(t, answer["topics"], lambda one: error(one["error_code"])))


def commit_of(
    t: Stage, member: ConsumerMember, label: str, *offsets: Offset, **changes: Any
) -> Any:
    """Send OffsetCommit of a member with its epoch; record and return the errors."""
    identity: dict[str, Any] = {
        "member_id": member.id,
        "epoch": member.epoch,
        "instance_id": member.instance_id,
    }
    return commit(t, label, *offsets, **identity | changes)


def fetch(
    t: Stage,
    label: str,
    *,
    version: int = 9,
    member_id: str | None = None,
    epoch: int = -1,
    topics: Sequence[tuple[str, Sequence[int]]] | None = (),
    require_stable: bool = False,
) -> Any:
    """Send OffsetFetch; record and return the group's error and each offset or error.

    The default is <t3>-0; `topics` None fetches all topics.
    """
    asked = [(t.t3, [0])] if topics == () else topics
    wanted = None
    if asked is not None:
        wanted = [
            _named(t, version, topic) | {"partition_indexes": list(indexes)}
            for topic, indexes in asked
        ]
    group: dict[str, Any] = {"group_id": t.g, "topics": wanted}
    if version >= 9:
        group |= {"member_id": member_id, "member_epoch": epoch}
    body: dict[str, Any] = {"groups": [group]} if version >= 8 else group
    if version >= 7:
        body["require_stable"] = require_stable
    answer = t.quiet("OffsetFetch", version, body)
    if not isinstance(answer, dict):
        return t.rec(label, answer)
    found = answer["groups"][0] if version >= 8 else answer
    offsets = _by_partition(t, found["topics"], _offset)
    return t.rec(label, [error(found.get("error_code", 0)), offsets])


def _offset(one: dict[str, Any]) -> Any:
    return error(one["error_code"]) if one["error_code"] else one["committed_offset"]


def _named(t: Stage, version: int, topic: str) -> dict[str, Any]:
    if version >= FIRST_VERSION_WITH_IDS:
        return {"topic_id": topic_id(t, topic)}
    return {"name": topic}


def _by_partition(t: Stage, topics: Sequence[dict[str, Any]], show: Any) -> dict[str, Any]:
    names = {topic_id(t, name): name for name in (t.t1, t.t3, t.tx, *t.own_topics)}
    found = {}
    for topic in topics:
        name = topic["name"] if "name" in topic else names.get(topic["topic_id"], "?")
        for one in topic["partitions"]:
            found[f"{t.sub(name)}-{one['partition_index']}"] = show(one)
    return dict(sorted(found.items()))
