"""OffsetCommit: store how far a group has read; answered when it is in the log.

Partitions that do not exist are answered here, the group gets the others. Source: KafkaApis'
handleOffsetCommitRequest.
"""

from __future__ import annotations

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

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.clock.step_runner import Steps
    from coordinator_server.net.call import Call
    from protocol.apis.offset_commit import OffsetCommitRequest


def handle(broker: Broker, call: Call, request: OffsetCommitRequest) -> Steps:
    """Split the request; without a partition that exists the group is not asked at all."""
    existing: list[OffsetCommitRequestTopic] = []
    unknown: MergedTopics[OffsetCommitResponseTopic] = MergedTopics()
    for topic in request.topics:
        count = broker.topics.partition_count(topic.name)
        known: list[OffsetCommitRequestPartition] = []
        refused: list[OffsetCommitResponsePartition] = []
        for one in topic.partitions:
            if 0 <= one.partition_index < count:
                known.append(one)
            else:
                refused.append(
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    )
                )
            yield
        yield
        if known:
            existing.append(OffsetCommitRequestTopic(name=topic.name, partitions=known))
        if refused or not count:
            unknown.add(OffsetCommitResponseTopic(name=topic.name, partitions=refused))
    if not existing:
        call.reply(OffsetCommitResponse(topics=(yield from unknown.add_all(()))))
        return
    if not unknown.topics:
        broker.groups.submit(call, request)
        return

    def answer(response: OffsetCommitResponse) -> Steps:
        call.reply(OffsetCommitResponse(topics=(yield from unknown.add_all(response.topics))))

    for_group = request.copy()
    for_group.topics = existing
    broker.groups.submit(MergedCall(call, answer), for_group)
