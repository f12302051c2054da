"""OffsetCommit: store committed offsets of a group; the response follows the log append.

The handler sets the errors of partitions that do not exist; the group commits the offsets of
existing partitions. Source: KafkaApis.handleOffsetCommitRequest.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from coordinator_server.apis.merged_call import MergedCall, MergedTopics
from protocol.apis.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.errors import ErrorCode
from protocol.schema import ReceivedColumns

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.apis.merged_call import CommitCall
    from coordinator_server.broker import Broker
    from coordinator_server.coordinator.operations import GroupCall
    from coordinator_server.net.call import Call
    from coordinator_server.security.rights import Rights
    from coordinator_server.steps import Steps
    from coordinator_server.topics.manager import TopicManager
    from protocol.apis.offset_commit import OffsetCommitRequest


TOPIC_IDS_SINCE = 10
STEP_ITEMS = 500
_NAME_AND_ID = attrgetter("name", "topic_id")


def handle(broker: Broker, call: Call, request: OffsetCommitRequest) -> Steps | None:
    """Submit the commit to the group, without partitions that do not exist."""
    by_id = call.api_version >= TOPIC_IDS_SINCE
    rights = call.rights
    if not (call.is_large or rights.refused) and _all_exist(broker.topics, request, by_id=by_id):
        broker.groups.submit(call, request)
        return None
    return split(broker.topics, call, rights, request, broker.groups.submit, by_id=by_id)


def _all_exist(topics: TopicManager, request: OffsetCommitRequest, *, by_id: bool) -> bool:
    """Return whether every partition exists; set the missing names or ids of existing topics."""
    for topic in request.topics:
        known_topic = topics.topic_by_id(topic.topic_id) if by_id else topics.topic(topic.name)
        if known_topic is None:
            return False
        topic.name, topic.topic_id = known_topic.name, known_topic.topic_id
        partitions = topic.partitions
        if isinstance(partitions, ReceivedColumns):
            indexes = partitions.columns["partition_index"]
        else:
            indexes = [partition.partition_index for partition in partitions]
        if not indexes or min(indexes) < 0 or max(indexes) >= len(known_topic.partitions):
            return False
    return bool(request.topics)


def split(
    topics: TopicManager,
    call: CommitCall,
    rights: Rights,
    request: OffsetCommitRequest,
    submit: Callable[[GroupCall[OffsetCommitResponse], OffsetCommitRequest], None],
    *,
    by_id: bool,
) -> Steps:
    """Set the errors of partitions that do not exist, and submit existing partitions to the group.

    In the response, topics that are refused or do not exist come first, in the order of the
    request. Every existing topic gets its name and id, because records contain both in any version.
    """
    unknown_topic = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    existing: list[OffsetCommitRequestTopic] = []
    unknown: MergedTopics[OffsetCommitResponseTopic] = MergedTopics(_NAME_AND_ID)
    for refusal, topic in rights.each(request.topics):
        if refusal is not None:
            unknown.add(refusal)
            yield
            continue
        known_topic = topics.topic_by_id(topic.topic_id) if by_id else topics.topic(topic.name)
        if known_topic is not None:
            topic.name, topic.topic_id = known_topic.name, known_topic.topic_id
        count = 0 if known_topic is None else len(known_topic.partitions)
        known: list[OffsetCommitRequestPartition] = []
        refused: list[OffsetCommitResponsePartition] = []
        for start in range(0, len(topic.partitions), STEP_ITEMS):
            part = topic.partitions[start : start + STEP_ITEMS]
            indexes = [partition.partition_index for partition in part]
            if min(indexes) >= 0 and max(indexes) < count:
                known += part
            else:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if count else unknown_topic
                for partition in part:
                    index = partition.partition_index
                    if 0 <= index < count:
                        known.append(partition)
                    else:
                        refused.append(
                            OffsetCommitResponsePartition(partition_index=index, error_code=error)
                        )
            yield
        yield
        name, topic_id = topic.name, topic.topic_id
        if known:
            existing.append(
                OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=known)
            )
        if refused or not count:
            unknown.add(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=refused))
    if not existing:
        call.reply(OffsetCommitResponse(topics=(yield from unknown.add_all(()))))
        return
    if not unknown.topics:
        submit(call, request)
        return

    def answer(response: OffsetCommitResponse) -> Steps:
        call.reply(OffsetCommitResponse(topics=(yield from unknown.add_all(response.topics))))

    for_group = request.copy()
    for_group.topics = existing
    submit(MergedCall(call, answer), for_group)
