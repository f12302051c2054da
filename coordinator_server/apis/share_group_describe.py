"""ShareGroupDescribe: epochs, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.apis.described_groups import DESCRIBES_HIDDEN_TOPICS, describe_visible
from coordinator_server.core.groups.share.describe import DescribeShareGroup
from protocol.apis.share_group_describe import DescribedShareGroup, ShareGroupDescribeResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.share_group_describe import ShareGroupDescribeRequest


def handle(broker: Broker, call: Call, request: ShareGroupDescribeRequest) -> Steps:
    """Describe each group; the response is sent when all groups have been described."""
    hidden = partial(DescribedShareGroup, error_message=DESCRIBES_HIDDEN_TOPICS)
    return describe_visible(
        broker, call, request, DescribeShareGroup, ShareGroupDescribeResponse, _topics, hidden
    )


def _topics(group: DescribedShareGroup) -> Iterator[str]:
    """Yield the topics of all assignments."""
    for member in group.members:
        for topic in member.assignment.topic_partitions:
            yield topic.topic_name
