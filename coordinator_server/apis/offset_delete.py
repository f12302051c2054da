"""OffsetDelete: delete committed offsets of topics without subscribers in the group (KIP-496).

The handler sets the errors of partitions that do not exist; the group deletes the offsets of
existing partitions. Source: KafkaApis.handleOffsetDeleteRequest.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from coordinator_server.apis.merged_call import MergedCall, MergedTopics
from protocol.apis.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.offset_delete import OffsetDeleteRequest


_NAME = attrgetter("name")


def handle(broker: Broker, call: Call, request: OffsetDeleteRequest) -> Steps:
    """Submit the existing partitions to the group, even if none exists, as in Kafka."""
    existing: list[OffsetDeleteRequestTopic] = []
    unknown: MergedTopics[OffsetDeleteResponseTopic] = MergedTopics(_NAME)
    for refusal, topic in call.rights.each(request.topics):
        if refusal is not None:
            unknown.add(refusal)
            yield
            continue
        count = broker.topics.partition_count(topic.name)
        known: list[OffsetDeleteRequestPartition] = []
        refused: list[OffsetDeleteResponsePartition] = []
        for partition in topic.partitions:
            if 0 <= partition.partition_index < count:
                known.append(partition)
            else:
                refused.append(
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    )
                )
            yield
        yield
        if known:
            existing.append(OffsetDeleteRequestTopic(name=topic.name, partitions=known))
        if refused or not count:
            unknown.add(OffsetDeleteResponseTopic(name=topic.name, partitions=refused))

    def answer(response: OffsetDeleteResponse) -> Steps:
        if response.error_code == ErrorCode.NONE:  # in Kafka a failed response has no topics
            topics = yield from unknown.add_all(response.topics)
            response = OffsetDeleteResponse(topics=topics)
        call.reply(response)

    for_group = request.copy()
    for_group.topics = existing
    broker.groups.submit(MergedCall(call, answer), for_group)
