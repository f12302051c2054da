"""Access checks of APIs with offsets of several groups: OffsetFetch, DescribeShareGroupOffsets."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from coordinator_server.security.acl import Operation, ResourceType
from coordinator_server.security.checks import refusals
from coordinator_server.security.checks.entries import Entries
from protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from protocol.apis.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.errors import ErrorCode
from protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from coordinator_server.security.checks.check import Asking

_GROUPS_SINCE = 8
_TOP_LEVEL_ERROR_SINCE = 2
_GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _check(
    asking: Asking,
    groups: list[Any],
    name_of: Callable[[Any], str | None],
    refused_group: Callable[[str], Any],
    refused_topic: refusals.Refused,
) -> Generator[None, None, list[Any]]:
    """Check groups and their topics; return the groups that the client may describe.

    If a group names no topics, the response shows the topics that the client may describe.
    Otherwise refused topics and unknown topic ids come last in the response.
    """
    access, rights = asking.access, asking.rights
    rights.allowed = partial(access.topic, Operation.DESCRIBE)
    left: list[Any] = []
    refused_groups: dict[int, Any] = {}
    refused_topics: dict[int, list[Any]] = {}
    for number, group in enumerate(groups):
        yield
        if not access.group(Operation.DESCRIBE, group.group_id):
            refused_groups[number] = refused_group(group.group_id)
            continue
        if group.topics is not None:
            refused = yield from _check_topics(asking, group, name_of, refused_topic)
            if refused:
                refused_topics[len(left)] = refused
        left.append(group)
    rights.refused, rights.refused_within = refused_groups, refused_topics
    return left


def _check_topics(
    asking: Asking,
    group: Any,
    name_of: Callable[[Any], str | None],
    refused_topic: refusals.Refused,
) -> Generator[None, None, list[Any]]:
    """Remove the topics that the client may not describe; return the response entries for them."""
    left: list[Any] = []
    refused: list[Any] = []
    for topic in group.topics:
        name = name_of(topic)
        if name is None:
            refused.append((yield from refused_topic(topic, ErrorCode.UNKNOWN_TOPIC_ID)))
        elif asking.access.topic(Operation.DESCRIBE, name):
            left.append(topic)
        else:
            refused.append((yield from refused_topic(topic, _TOPIC_REFUSED)))
        yield
    group.topics = left
    return refused


_refused_topics = refusals.by_partition(
    OffsetFetchResponseTopics,
    OffsetFetchResponsePartitions,
    ("name", "topic_id"),
    asked="partition_indexes",
    committed_offset=-1,
    metadata="",
)
_refused_topic = refusals.by_partition(
    OffsetFetchResponseTopic,
    OffsetFetchResponsePartition,
    asked="partition_indexes",
    committed_offset=-1,
    metadata="",
)
_refused_offsets = refusals.by_partition(
    DescribeShareGroupOffsetsResponseTopic,
    DescribeShareGroupOffsetsResponsePartition,
    ("topic_name",),
    has_message=True,
    start_offset=-1,
)


def offset_fetch(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Remove the groups and topics that the client may not describe."""
    if asking.call.api_version < _GROUPS_SINCE:
        return (yield from _offset_fetch_of_one(asking, request))
    topics = asking.broker.topics

    def name_of(topic: Any) -> str | None:
        if topic.topic_id == ZERO_UUID:
            return str(topic.name)
        known = topics.topic_by_id(topic.topic_id)
        return None if known is None else known.name

    request.groups = yield from _check(
        asking, request.groups, name_of, _refused_group, _refused_topics
    )
    return True


def _refused_group(group_id: str) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, error_code=_GROUP_REFUSED)


def _offset_fetch_of_one(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Check a request before version 8: one group, with a top-level error."""
    call = asking.call
    if (yield from _check(asking, [request], _name, _refused_group, _refused_topic)):
        return True
    if call.api_version >= _TOP_LEVEL_ERROR_SINCE:
        call.reply(OffsetFetchResponse(error_code=_GROUP_REFUSED))
        return False
    topics = []
    for topic in request.topics:
        topics.append((yield from _refused_topic(topic, _GROUP_REFUSED)))
    call.reply(OffsetFetchResponse(topics=topics))
    return False


def _name(topic: Any) -> str:
    return str(topic.name)


def describe_share_group_offsets(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Remove the groups and topics that the client may not describe."""
    request.groups = yield from _check(
        asking, request.groups, _topic_name, _refused_share_group, _refused_offsets
    )
    return True


def _refused_share_group(group_id: str) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=_GROUP_REFUSED)


ALTERED_SHARE_OFFSETS = Entries(
    Operation.READ,
    ResourceType.TOPIC,
    lambda broker, topic: str(topic.topic_name),
    refusals.alter_share_group_offsets,
)


def alter_share_group_offsets(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Remove the topics that the client may not read; refused topics keep their id, as in Kafka."""
    yield from ALTERED_SHARE_OFFSETS.serve(asking, request)
    for topic in asking.rights.refused.values():
        known = asking.broker.topics.topic(topic.topic_name)
        if known is not None:
            topic.topic_id = known.topic_id
        yield
    return True


def _topic_name(topic: Any) -> str:
    return str(topic.topic_name)
