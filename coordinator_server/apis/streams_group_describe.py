"""StreamsGroupDescribe: topology, epochs, members and tasks of streams groups (KIP-1071)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.described_groups import (
    USES_HIDDEN_TOPICS,
    describe_all,
    reply_visible,
)
from coordinator_server.core.groups.streams.describe import DescribeStreamsGroup
from coordinator_server.topics.topologies import topology_topics
from protocol.apis.streams_group_describe import (
    DescribedStreamsGroup,
    StreamsGroupDescribeResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.streams_group_describe import StreamsGroupDescribeRequest


def handle(broker: Broker, call: Call, request: StreamsGroupDescribeRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""

    def finish(groups: list[DescribedStreamsGroup]) -> None:
        reply_visible(call, groups, StreamsGroupDescribeResponse, _topics, _hidden)

    def describe(group_id: str, operations: int) -> DescribeStreamsGroup:
        return DescribeStreamsGroup(group_id, operations, request.include_topology_description)

    return describe_all(
        broker,
        call,
        request.group_ids,
        describe,
        finish,
        with_operations=request.include_authorized_operations,
    )


def _topics(group: DescribedStreamsGroup) -> Iterator[str]:
    """Yield the topics of the topology."""
    if group.topology is not None:
        yield from topology_topics(group.topology.subtopologies or ())


def _hidden(group: DescribedStreamsGroup) -> DescribedStreamsGroup:
    return DescribedStreamsGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message=USES_HIDDEN_TOPICS,
        topology=None,
    )
