"""Cases of APIs for groups and their offsets."""

from __future__ import annotations

from tests.conformance.access.case import Case, Cell, Fields, Request
from tests.conformance.access.connection import to_text
from tests.conformance.access.world import (
    CONSUMERS,
    SIMPLE,
    TIMEOUT_MS,
    TOPICS,
    World,
    own_offsets,
)

_MIXED_TOPICS = (*TOPICS, "absent-1", "absent-2")
_MIXED_GROUPS = (*SIMPLE, "absent-1", "absent-2")
_MEMBER = "somebody"


def _offset_commit(cell: Cell, world: World) -> Fields:
    partitions = [
        {"partitionIndex": one, "committedOffset": 5, "committedMetadata": "m"} for one in (0, 5)
    ]
    topics = [
        {"name": one, "topicId": world.topic_id(one), "partitions": partitions}
        for one in cell.topics
    ]
    return {"groupId": cell.groups[0], "topics": topics}


def _offset_commit_of_member(cell: Cell, world: World) -> Fields:
    return _offset_commit(cell, world) | {
        "generationIdOrMemberEpoch": 3,
        "memberId": _MEMBER,
    }


def _fetched(cell: Cell, world: World) -> list[Fields]:
    return [
        {"name": one, "topicId": world.topic_id(one), "partitionIndexes": [0, 1]}
        for one in cell.topics
    ]


def _offset_fetch(cell: Cell, world: World) -> Fields:
    topics = _fetched(cell, world)
    return {
        "groupId": cell.groups[0],
        "topics": topics,
        "groups": [{"groupId": one, "topics": topics} for one in cell.groups],
    }


def _offset_fetch_of_all(cell: Cell, world: World) -> Fields:
    return {
        "groupId": cell.groups[0],
        "topics": None,
        "groups": [{"groupId": one, "topics": None} for one in cell.groups],
    }


def _find_coordinator(key_type: int) -> Request:
    def request(cell: Cell, world: World) -> Fields:
        keys = cell.groups if key_type == 0 else cell.transactional_ids
        return {"key": keys[0], "keyType": key_type, "coordinatorKeys": keys}

    return request


def _find_share_coordinator(cell: Cell, world: World) -> Fields:
    key = f"share-1:{world.topic_id('topic-1')}:0"
    return {"key": key, "keyType": 2, "coordinatorKeys": [key]}


def _find_unknown(cell: Cell, world: World) -> Fields:
    return {"key": "k", "keyType": 9, "coordinatorKeys": ["k", "l"]}


def _join_group(cell: Cell, world: World) -> Fields:
    return {
        "groupId": cell.groups[0],
        "sessionTimeoutMs": TIMEOUT_MS,
        "rebalanceTimeoutMs": TIMEOUT_MS,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": to_text(b"\0\0\0\0\0\0\0\0\0\0")}],
    }


def _of_member(cell: Cell, world: World) -> Fields:
    return {
        "groupId": cell.groups[0],
        "generationId": 1,
        "memberId": _MEMBER,
        "members": [{"memberId": _MEMBER}, {"memberId": "other"}],
        "protocolType": "consumer",
        "protocolName": "range",
        "assignments": [],
    }


def _sync_without_protocol(cell: Cell, world: World) -> Fields:
    return _of_member(cell, world) | {"protocolType": None, "protocolName": None}


def _describe_groups(cell: Cell, world: World) -> Fields:
    return {"groups": cell.groups, "includeAuthorizedOperations": cell.version >= 3}


def group_ids(cell: Cell, world: World) -> Fields:
    """Return the groups of a cell with their authorized operations."""
    return {"groupIds": cell.groups, "includeAuthorizedOperations": True}


def _group_ids_alone(cell: Cell, world: World) -> Fields:
    return {"groupIds": cell.groups, "includeAuthorizedOperations": False}


def _list_groups(cell: Cell, world: World) -> Fields:
    return {}


def _list_some_groups(cell: Cell, world: World) -> Fields:
    return {"statesFilter": ["Stable"], "typesFilter": ["consumer"] if cell.version > 4 else []}


def _delete_groups(cell: Cell, world: World) -> Fields:
    return {"groupsNames": cell.groups}


def _offset_delete(cell: Cell, world: World) -> Fields:
    topics = [{"name": one, "partitions": [{"partitionIndex": 0}]} for one in cell.topics]
    return {"groupId": cell.groups[0], "topics": topics}


def _consumer_heartbeat(cell: Cell, world: World) -> Fields:
    return {
        "groupId": cell.groups[0],
        "memberId": "member-of-cell" if cell.version else "",
        "memberEpoch": 0,
        "rebalanceTimeoutMs": TIMEOUT_MS,
        "subscribedTopicNames": cell.topics,
        "topicPartitions": [],
    }


def _consumer_heartbeat_of_expression(cell: Cell, world: World) -> Fields:
    return _consumer_heartbeat(cell, world) | {
        "subscribedTopicNames": None,
        "subscribedTopicRegex": "topic-[123]",
    }


def _consumer_heartbeat_in_between(cell: Cell, world: World) -> Fields:
    return {"groupId": cell.groups[0], "memberId": "member-of-nobody", "memberEpoch": 4}


_FETCHED = (1, 2, 5, 7, 8, 9, 10)
_ALL_GROUPS = (("groups", "groupId"),)

CASES = [
    Case("OffsetCommit", _offset_commit, topics=_MIXED_TOPICS, groups=("@",)),
    Case(
        "OffsetCommit.member",
        _offset_commit_of_member,
        topics=TOPICS,
        groups=("simple-1",),
        versions=(2, 7, 9, 10),
    ),
    Case("OffsetFetch", _offset_fetch, topics=_MIXED_TOPICS, groups=_MIXED_GROUPS),
    Case(
        "OffsetFetch.all",
        _offset_fetch_of_all,
        topics=TOPICS,
        groups=_MIXED_GROUPS,
        versions=range(2, 11),
    ),
    Case("FindCoordinator.group", _find_coordinator(0), groups=_MIXED_GROUPS),
    Case(
        "FindCoordinator.transaction",
        _find_coordinator(1),
        transactional_ids=("t-1", "t-2", "t-3"),
        versions=range(1, 7),
    ),
    Case("FindCoordinator.share", _find_share_coordinator, versions=range(1, 7)),
    Case("FindCoordinator.unknown", _find_unknown, versions=range(1, 7)),
    Case("JoinGroup", _join_group, groups=("@",)),
    Case("Heartbeat", _of_member, groups=("simple-1",)),
    Case("LeaveGroup", _of_member, groups=("simple-1",)),
    Case("SyncGroup", _of_member, groups=("simple-1",)),
    Case("SyncGroup.no-protocol", _sync_without_protocol, groups=("simple-1",), versions=(4, 5)),
    Case("DescribeGroups", _describe_groups, groups=(*_MIXED_GROUPS, "consumer-1")),
    Case("ListGroups", _list_groups, groups=(*SIMPLE, *CONSUMERS, "share-1"), shown=_ALL_GROUPS),
    Case(
        "ListGroups.some",
        _list_some_groups,
        groups=(*SIMPLE, *CONSUMERS),
        versions=(4, 5),
        shown=_ALL_GROUPS,
    ),
    Case(
        "DeleteGroups",
        _delete_groups,
        groups=("@-1", "@-2", "@-3", "@-absent", "consumer-1"),
        prepare=(own_offsets,),
    ),
    Case(
        "OffsetDelete",
        _offset_delete,
        topics=("topic-1", "topic-3", "absent-1"),
        groups=("@",),
        prepare=(own_offsets,),
    ),
    Case("OffsetDelete.absent", _offset_delete, topics=TOPICS, groups=("absent-1",)),
    Case("ConsumerGroupHeartbeat", _consumer_heartbeat, topics=TOPICS, groups=("@",)),
    Case(
        "ConsumerGroupHeartbeat.expression",
        _consumer_heartbeat_of_expression,
        topics=TOPICS,
        groups=("@",),
        versions=(1,),
    ),
    Case("ConsumerGroupHeartbeat.between", _consumer_heartbeat_in_between, groups=("consumer-1",)),
    Case(
        "ConsumerGroupDescribe",
        group_ids,
        topics=TOPICS,
        groups=(*CONSUMERS, "simple-1", "absent-1"),
    ),
    Case("ConsumerGroupDescribe.alone", _group_ids_alone, topics=TOPICS, groups=CONSUMERS),
]
