"""StreamsGroupDescribe: topology, epochs, members and tasks of streams groups (KIP-1071)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.apis.described_groups import USES_HIDDEN_TOPICS, describe_visible
from coordinator_server.core.groups.streams.describe import DescribeStreamsGroup
from coordinator_server.topics.topologies import topology_topics
from protocol.apis.streams_group_describe import (
    DescribedStreamsGroup,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.streams_group_describe import StreamsGroupDescribeRequest


def handle(broker: Broker, call: Call, request: StreamsGroupDescribeRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""
    hidden = partial(DescribedStreamsGroup, error_message=USES_HIDDEN_TOPICS, topology=None)

    def describe(group_id: str, operations: int) -> DescribeStreamsGroup:
        return DescribeStreamsGroup(group_id, operations, request.include_topology_description)

    return describe_visible(
        broker, call, request, describe, StreamsGroupDescribeResponse, _topics, hidden
    )


def _topics(group: DescribedStreamsGroup) -> Iterator[str]:
    """Yield the topics of the topology."""
    if group.topology is not None:
        yield from topology_topics(group.topology.subtopologies or ())
