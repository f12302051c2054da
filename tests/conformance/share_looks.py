"""Observable state of share groups: descriptions, offsets, stored states, group configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.errors import ErrorCode
from tests.conformance.producers import Partition, by_topic, error
from tests.conformance.shares import Place, shown_topic, topic_id
from tests.conformance.stage import Stage

GROUP_RESOURCE = 32
SET, DELETE, APPEND = 0, 1, 2

_STATES = {0: "available", 1: "acquired", 2: "acknowledged", 3: "archiving", 4: "archived"}


def topic(t: Stage, partitions: int = 1, suffix: str = "own") -> str:
    """Create a topic, wait until the share coordinator knows it, and return its name."""
    name = t.topic(partitions, suffix)
    wait_until_known(t, name, partitions)
    return name


def wait_until_known(t: Stage, name: str, partitions: int) -> None:
    """Wait, unrecorded, until the share coordinator knows that many partitions of a topic.

    The share coordinator is the last part of a broker to learn of a topic. If it is asked to
    initialize an unknown topic, the group retries only after 30 seconds.
    """
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for index in range(partitions):
        while True:
            answer = ask_state(
                t, "ReadShareGroupStateSummary", 1, (name, index), {"leader_epoch": -1}
            )
            if answer["error_code"] != unknown:
                break
            t.nap(0.02)


def configure(t: Stage, configs: Mapping[str, str], group: str | None = None) -> None:
    """Set group configs, unrecorded, and wait until the broker shows them."""
    name = t.g if group is None else group
    answer = alter_configs(t, configs, group=name)
    assert answer == ["NONE"], answer
    for _ in range(200):
        shown = described_configs(t, list(configs), name)
        if all(shown.get(key, ("", 0))[0] == value for key, value in configs.items()):
            return
        t.nap(0.02)
    raise AssertionError(f"{configs} not shown: {shown}")


def alter_configs(
    t: Stage,
    configs: Mapping[str, str | None],
    *,
    group: str | None = None,
    operation: int = SET,
    validate_only: bool = False,
) -> list[str]:
    """Send IncrementalAlterConfigs of a group without recording; return error and message, if any.

    Kafka answers from the controller; the broker may know of the change a moment later.
    """
    wanted = [
        {"name": key, "value": value, "config_operation": operation}
        for key, value in configs.items()
    ]
    resource = {
        "resource_type": GROUP_RESOURCE,
        "resource_name": t.g if group is None else group,
        "configs": wanted,
    }
    body = {"resources": [resource], "validate_only": validate_only}
    answer = t.raw("IncrementalAlterConfigs", 1, body)["responses"][0]
    message = answer["error_message"]
    return [error(answer["error_code"]), *([message] if message else [])]


def described_configs(
    t: Stage, names: Sequence[str] | None, group: str | None = None
) -> dict[str, tuple[str, int]]:
    """Return value and source by name from DescribeConfigs of a group, unrecorded."""
    resource = {
        "resource_type": GROUP_RESOURCE,
        "resource_name": t.g if group is None else group,
        "configuration_keys": None if names is None else list(names),
    }
    answer = t.raw("DescribeConfigs", 4, {"resources": [resource]})["results"][0]
    return {one["name"]: (one["value"], one["config_source"]) for one in answer["configs"]}


def described(t: Stage, label: str = "described", group: str | None = None) -> Any:
    """Record and return ShareGroupDescribe in short form.

    The form is [state, epoch, assignment epoch, assignor, members].
    """
    name = t.g if group is None else group
    answer = t.raw("ShareGroupDescribe", 1, {"group_ids": [name]})["groups"][0]
    return t.rec(label, shown_group(t, answer))


def initialized(t: Stage) -> bool:
    """Return whether the group has an initialized partition, unrecorded."""
    wanted = [{"group_id": t.g, "topics": None}]
    answer = t.raw("DescribeShareGroupOffsets", 1, {"groups": wanted})["groups"][0]
    return bool(answer["topics"])


def spread(t: Stage, label: str = "spread") -> None:
    """Record the partition counts of the members, and the member counts of the partitions.

    The assignment itself depends on the hashes of random ids.
    """
    answer = t.raw("ShareGroupDescribe", 1, {"group_ids": [t.g]})["groups"][0]
    assigned = [
        [
            f"{t.sub(topic['topic_name'])}-{index}"
            for topic in member["assignment"]["topic_partitions"]
            for index in topic["partitions"]
        ]
        for member in answer["members"]
    ]
    places = sorted(place for places in assigned for place in places)
    counts = {place: places.count(place) for place in places}
    t.rec(label, [sorted(len(places) for places in assigned), counts])


def shown_group(t: Stage, answer: Any) -> Any:
    """Return a described group in the recorded form."""
    if answer["error_code"]:
        return error(answer["error_code"])
    members = {
        t.sub(one["member_id"]): [
            one["member_epoch"],
            sorted(t.sub(topic) for topic in one["subscribed_topic_names"]),
            dict(
                sorted(
                    (t.sub(topic["topic_name"]), sorted(topic["partitions"]))
                    for topic in one["assignment"]["topic_partitions"]
                )
            ),
        ]
        for one in answer["members"]
    }
    epochs = [answer["group_epoch"], answer["assignment_epoch"]]
    return [answer["group_state"], *epochs, answer["assignor_name"], dict(sorted(members.items()))]


def listed(t: Stage, label: str = "listed", group: str | None = None) -> None:
    """Record [state, protocol type, group type] of a group from ListGroups."""
    name = t.g if group is None else group
    answer = t.raw("ListGroups", 5, {})
    fields = ("group_state", "protocol_type", "group_type")
    shown = [
        [one[field] for field in fields] for one in answer["groups"] if one["group_id"] == name
    ]
    t.rec(label, shown)


def offsets(
    t: Stage,
    label: str = "offsets",
    partitions: Sequence[Partition] | None = None,
    *,
    version: int = 1,
    group: str | None = None,
) -> Any:
    """Record and return DescribeShareGroupOffsets: [start, leader epoch, lag] of each partition."""
    topics = None
    if partitions is not None:
        topics = [{"topic_name": name, "partitions": ps} for name, ps in by_topic(partitions)]
    wanted = {"group_id": t.g if group is None else group, "topics": topics}
    answer = t.raw("DescribeShareGroupOffsets", version, {"groups": [wanted]})["groups"][0]
    return t.rec(label, shown_offsets(t, answer))


def shown_offsets(t: Stage, answer: Any) -> Any:
    """Return described offsets in the recorded form."""
    if answer["error_code"]:
        return error(answer["error_code"])
    shown = {}
    for topic in answer["topics"]:
        for one in topic["partitions"]:
            place = f"{t.sub(topic['topic_name'])}-{one['partition_index']}"
            values = [one["start_offset"], one["leader_epoch"], *filter_none(one.get("lag"))]
            shown[place] = error(one["error_code"]) if one["error_code"] else values
    return dict(sorted(shown.items()))


def filter_none(value: Any) -> list[Any]:
    """Return [value], or an empty list if the value is None."""
    return [] if value is None else [value]


def alter_offsets(t: Stage, wanted: Mapping[Partition, int], label: str = "") -> Any:
    """Send AlterShareGroupOffsets; record and return an error per partition."""
    topics = [
        {
            "topic_name": name,
            "partitions": [
                {"partition_index": index, "start_offset": wanted[name, index]} for index in indexes
            ],
        }
        for name, indexes in by_topic(wanted)
    ]
    answer = t.raw("AlterShareGroupOffsets", 0, {"group_id": t.g, "topics": topics})
    shown: Any = error(answer["error_code"])
    if not answer["error_code"]:
        shown = {
            f"{t.sub(topic['topic_name'])}-{one['partition_index']}": error(one["error_code"])
            for topic in answer["responses"]
            for one in topic["partitions"]
        }
    return t.rec(f"alter offsets {label}".strip(), shown)


def delete_offsets(t: Stage, *topics: str, label: str = "") -> Any:
    """Send DeleteShareGroupOffsets; record and return an error per topic."""
    body = {"group_id": t.g, "topics": [{"topic_name": one} for one in topics]}
    answer = t.raw("DeleteShareGroupOffsets", 0, body)
    shown: Any = error(answer["error_code"])
    if not answer["error_code"]:
        shown = {t.sub(one["topic_name"]): error(one["error_code"]) for one in answer["responses"]}
    return t.rec(f"delete offsets {label}".strip(), shown)


def stored(t: Stage, place: Partition, label: str = "stored", leader_epoch: int = 0) -> Any:
    """Record and return one partition's state at the share coordinator.

    The form is [state epoch, start, batches].
    """
    return t.rec(label, stored_state(t, place, leader_epoch))


def stored_state(t: Stage, place: Partition, leader_epoch: int = 0) -> Any:
    """Return the state that `stored` records."""
    answer = ask_state(t, "ReadShareGroupState", 0, place, {"leader_epoch": leader_epoch})
    if answer["error_code"]:
        return error(answer["error_code"])
    return [
        answer["state_epoch"],
        answer["start_offset"],
        shown_batches(answer["state_batches"]),
    ]


def shown_batches(state_batches: Sequence[Any]) -> list[str]:
    """Return state batches in the recorded form."""
    return [
        f"{one['first_offset']}-{one['last_offset']}"
        f" {_STATES.get(one['delivery_state'], one['delivery_state'])} x{one['delivery_count']}"
        for one in state_batches
    ]


def ask_state(
    t: Stage,
    api: str,
    version: int,
    place: Place,
    fields: Mapping[str, Any],
    group: str | None = None,
) -> Any:
    """Send a share coordinator request for one partition, unrecorded; return its result."""
    partition = {"partition": place[1], **fields}
    body = {
        "group_id": t.g if group is None else group,
        "topics": [{"topic_id": topic_id(t, place[0]), "partitions": [partition]}],
    }
    (topic,) = t.raw(api, version, body)["results"]
    assert shown_topic(t, topic["topic_id"]) == shown_topic(t, topic_id(t, place[0]))
    return topic["partitions"][0]
