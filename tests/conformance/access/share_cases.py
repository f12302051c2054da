"""Cases of share groups and streams groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from uuid import NAMESPACE_OID, uuid5

from protocol.json_form import uuid_to_text
from tests.conformance.access.case import Case, Cell, Fields
from tests.conformance.access.group_cases import group_ids
from tests.conformance.access.world import (
    SHARES,
    STREAMS,
    TOPICS,
    World,
    streams_fields,
)
from tests.support import wait_for

_MIXED_TOPICS = (*TOPICS, "absent-1", "absent-2")


def _share_heartbeat(cell: Cell, world: World) -> Fields:
    return {
        "groupId": cell.groups[0],
        "memberId": "member-of-cell",
        "memberEpoch": 0,
        "subscribedTopicNames": cell.topics,
    }


def _member(cell: Cell) -> str:
    """Return a member id of the length that Kafka expects."""
    return uuid_to_text(uuid5(NAMESPACE_OID, cell.own_name).bytes)


def _share_fetch_of(cell: Cell, world: World, epoch: int) -> Fields:
    topics = [
        {
            "topicId": world.topic_id(one),
            "partitions": [{"partitionIndex": 0, "acknowledgementBatches": []}],
        }
        for one in cell.topics
    ]
    return {
        "groupId": cell.groups[0],
        "memberId": _member(cell),
        "shareSessionEpoch": epoch,
        "maxWaitMs": 0,
        "minBytes": 0,
        "maxBytes": 100_000,
        "maxRecords": 100,
        "batchSize": 100,
        "topics": topics,
        "forgottenTopicsData": [],
    }


def _share_fetch(cell: Cell, world: World) -> Fields:
    return _share_fetch_of(cell, world, 0)


def _share_fetch_later(cell: Cell, world: World) -> Fields:
    return _share_fetch_of(cell, world, 5)


def _acknowledged(cell: Cell, world: World, epoch: int) -> Fields:
    batches = [{"firstOffset": 0, "lastOffset": 1, "acknowledgeTypes": [1]}]
    topics = [
        {
            "topicId": world.topic_id(one),
            "partitions": [{"partitionIndex": 0, "acknowledgementBatches": batches}],
        }
        for one in cell.topics
    ]
    return {
        "groupId": cell.groups[0],
        "memberId": _member(cell),
        "shareSessionEpoch": epoch,
        "topics": topics,
    }


def _share_acknowledge(cell: Cell, world: World) -> Fields:
    return _acknowledged(cell, world, 1)


def _share_acknowledge_first(cell: Cell, world: World) -> Fields:
    return _acknowledged(cell, world, 0)


def _until_read(world: World, cell: Cell) -> None:
    """Wait until a fetch has made the broker load the share partition of the cell's group."""
    topic = TOPICS[SHARES.index(cell.groups[0])]
    member = "member-that-waits"
    fields = _share_fetch_of(cell, world, 0) | {"memberId": member}
    fields["topics"] = [one for one in fields["topics"] if one["topicId"] == world.topic_id(topic)]
    world.ask_until("ShareFetch", 1, fields, lambda answer: [answer["errorCode"]])
    epochs = count(1)

    def is_read() -> bool:
        asked = _acknowledged(cell, world, next(epochs)) | {"memberId": member}
        asked["topics"] = [
            one for one in asked["topics"] if one["topicId"] == world.topic_id(topic)
        ]
        answer = world.admin.must("ShareAcknowledge", 1, asked)
        parts = [part for one in answer["responses"] for part in one["partitions"]]
        return bool(parts) and not any(part["errorCode"] for part in parts)

    wait_for(is_read, "the share partition", step_seconds=0.05)


def _own_sessions(world: World, cells: Sequence[Cell]) -> None:
    """Open share sessions of the cells' members, as the administrator."""
    for cell in cells:
        fields = _share_fetch_of(cell, world, 0)
        fields["topics"] = fields["topics"][:3]
        world.ask_until("ShareFetch", 1, fields, lambda answer: [answer["errorCode"]])
    if cells:
        _until_read(world, cells[0])


def _initialize(cell: Cell, world: World) -> Fields:
    partitions = [{"partition": 0, "stateEpoch": 1, "startOffset": 0}]
    return _state(cell, world, partitions)


def _read_state(cell: Cell, world: World) -> Fields:
    return _state(cell, world, [{"partition": 0, "leaderEpoch": 0}])


def _write_state(cell: Cell, world: World) -> Fields:
    batch = {"firstOffset": 0, "lastOffset": 0, "deliveryState": 2, "deliveryCount": 1}
    partition = {
        "partition": 0,
        "stateEpoch": 1,
        "leaderEpoch": 0,
        "startOffset": 0,
        "stateBatches": [batch],
    }
    return _state(cell, world, [partition])


def _delete_state(cell: Cell, world: World) -> Fields:
    return _state(cell, world, [{"partition": 0}])


def _state(cell: Cell, world: World, partitions: list[Fields]) -> Fields:
    topic = {"topicId": world.topic_id("topic-1"), "partitions": partitions}
    return {"groupId": f"{cell.own_name}-state", "topics": [topic]}


def _share_offsets(cell: Cell, world: World) -> Fields:
    topics = [{"topicName": one, "partitions": [0, 1]} for one in cell.topics]
    return {"groups": [{"groupId": one, "topics": topics} for one in cell.groups]}


def _all_share_offsets(cell: Cell, world: World) -> Fields:
    return {"groups": [{"groupId": one, "topics": None} for one in cell.groups]}


def _alter_share_offsets(cell: Cell, world: World) -> Fields:
    partitions = [{"partitionIndex": 0, "startOffset": 1}]
    topics = [{"topicName": one, "partitions": partitions} for one in cell.topics]
    return {"groupId": cell.groups[0], "topics": topics}


def _delete_share_offsets(cell: Cell, world: World) -> Fields:
    return {"groupId": cell.groups[0], "topics": [{"topicName": one} for one in cell.topics]}


def _streams_heartbeat(cell: Cell, world: World) -> Fields:
    internal = [
        {"name": f"{cell.own_name}-{one}", "partitions": 0, "replicationFactor": 1,
         "topicConfigs": []}
        for one in ("store-changelog", "other-changelog")
    ]  # fmt: skip
    topics = [one for one in cell.topics if one in TOPICS]
    return streams_fields(cell.groups[0], topics, "member-of-cell", stateChangelogTopics=internal)


def _streams_heartbeat_in_between(cell: Cell, world: World) -> Fields:
    return streams_fields(cell.groups[0], (), "member-of-nobody") | {
        "memberEpoch": 4,
        "topology": None,
    }


def _topology_description(cell: Cell, world: World) -> Fields:
    return {
        "groupId": cell.groups[0],
        "memberId": "member-of-nobody",
        "topologyEpoch": 1,
        "topologyDescription": {"subtopologies": [], "globalStores": []},
    }


CASES = [
    Case("ShareGroupHeartbeat", _share_heartbeat, topics=TOPICS, groups=("@",)),
    Case("ShareGroupDescribe", group_ids, topics=TOPICS, groups=(*SHARES, "simple-1", "absent-1")),
    Case("ShareFetch", _share_fetch, topics=_MIXED_TOPICS, groups=("share-1",)),
    Case("ShareFetch.later", _share_fetch_later, topics=TOPICS, groups=("share-1",)),
    Case(
        "ShareAcknowledge.absent",
        _share_acknowledge,
        topics=_MIXED_TOPICS,
        groups=("share-2",),
        prepare=(_own_sessions,),
    ),
    Case(
        "ShareAcknowledge",
        _share_acknowledge,
        topics=TOPICS,
        groups=("share-3",),
        prepare=(_own_sessions,),
    ),
    Case("ShareAcknowledge.first", _share_acknowledge_first, topics=TOPICS, groups=("share-2",)),
    Case("InitializeShareGroupState", _initialize),
    Case("ReadShareGroupState", _read_state),
    Case("WriteShareGroupState", _write_state),
    Case("DeleteShareGroupState", _delete_state),
    Case("ReadShareGroupStateSummary", _read_state),
    Case(
        "DescribeShareGroupOffsets",
        _share_offsets,
        topics=TOPICS,
        groups=(*SHARES, "absent-1"),
    ),
    Case(
        "DescribeShareGroupOffsets.absent",
        _share_offsets,
        topics=("topic-1", "absent-1"),
        groups=("share-1",),
    ),
    Case("DescribeShareGroupOffsets.simple", _share_offsets, topics=TOPICS, groups=("simple-1",)),
    Case(
        "DescribeShareGroupOffsets.all",
        _all_share_offsets,
        topics=TOPICS,
        groups=(*SHARES, "absent-1"),
    ),
    Case("AlterShareGroupOffsets", _alter_share_offsets, topics=_MIXED_TOPICS, groups=("@",)),
    Case("DeleteShareGroupOffsets", _delete_share_offsets, topics=_MIXED_TOPICS, groups=("@",)),
    Case(
        "DeleteShareGroupOffsets.member",
        _delete_share_offsets,
        topics=_MIXED_TOPICS,
        groups=("share-1",),
    ),
    Case(
        "StreamsGroupHeartbeat",
        _streams_heartbeat,
        topics=("topic-1", "topic-2", "@-store-changelog", "@-other-changelog"),
        groups=("@",),
    ),
    Case("StreamsGroupHeartbeat.between", _streams_heartbeat_in_between, groups=("streams-1",)),
    Case(
        "StreamsGroupDescribe", group_ids, topics=TOPICS, groups=(*STREAMS, "simple-1", "absent-1")
    ),
    Case(
        "StreamsGroupTopologyDescriptionUpdate",
        _topology_description,
        groups=("streams-1",),
    ),
]
