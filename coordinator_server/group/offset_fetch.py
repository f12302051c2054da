"""OffsetFetch: committed offsets, from the hard state alone.

Inside there is one form, that of v8+ (a list of groups); `fetch_groups` and `fetch_response`
translate the older versions, which ask for one group. Source: OffsetMetadataManager.fetchOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.group.classic.metadata import GroupMetadata
    from coordinator_server.group.effects import Caller, Effects, Reply
    from protocol.offsets_log import OffsetCommitValue

    Offsets = Mapping[str, Mapping[int, OffsetCommitValue]]

GROUPS_SINCE = 8
TOP_LEVEL_ERROR_SINCE = 2
NO_OFFSET = -1


def fetch(
    group: GroupMetadata,
    request: OffsetFetchRequestGroup,
    caller: Caller,
    reply: Reply,
    now_ms: int,
    effects: Effects,
) -> None:
    """Answer with an OffsetFetchResponseGroup, in every state."""
    effects.reply(reply, fetch_from(group.image.offsets, request))


def fetch_from(offsets: Offsets, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """What is stored for the partitions asked for (all when `topics` is null)."""
    if request.topics is None:
        topics = [
            _topic(name, partitions, sorted(partitions)) for name, partitions in offsets.items()
        ]
    else:
        topics = [
            _topic(topic.name, offsets.get(topic.name, {}), topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)


def _topic(
    name: str, partitions: Mapping[int, OffsetCommitValue], indexes: Iterable[int]
) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=name, partitions=[_partition(index, partitions.get(index)) for index in indexes]
    )


def _partition(index: int, stored: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if stored is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, metadata=""
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
    )


def fetch_groups(request: OffsetFetchRequest, api_version: int) -> list[OffsetFetchRequestGroup]:
    """The groups that a request of any version asks for."""
    if api_version >= GROUPS_SINCE:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def fetch_response(
    request: OffsetFetchRequest, groups: list[OffsetFetchResponseGroup], api_version: int
) -> OffsetFetchResponse:
    """The answer of any version. Up to v7 there is one group; v0 and v1 have no error of its own,
    so there it stands on each partition that was asked for."""
    if api_version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=groups)
    group = groups[0]
    if group.error_code == ErrorCode.NONE:
        return OffsetFetchResponse(topics=[_old_topic(topic) for topic in group.topics])
    if api_version >= TOP_LEVEL_ERROR_SINCE:
        return OffsetFetchResponse(error_code=group.error_code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=NO_OFFSET,
                        metadata="",
                        error_code=group.error_code,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or []
        ]
    )


def _old_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=one.partition_index,
                committed_offset=one.committed_offset,
                committed_leader_epoch=one.committed_leader_epoch,
                metadata=one.metadata,
                error_code=one.error_code,
            )
            for one in topic.partitions
        ],
    )
