"""Descriptions of many groups in one request leave turns for other requests."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.apis import (
    consumer_group_describe,
    describe_groups,
    share_group_describe,
    streams_group_describe,
)
from coordinator_server.coordinator.fan_in import Part
from coordinator_server.security.rights import UNRESTRICTED
from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.apis.describe_groups import DescribeGroupsRequest
from protocol.apis.share_group_describe import ShareGroupDescribeRequest
from protocol.apis.streams_group_describe import StreamsGroupDescribeRequest
from protocol.schema import Message

GROUPS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("handle", "request_"),
    [
        (describe_groups.handle, DescribeGroupsRequest(groups=GROUPS)),
        (consumer_group_describe.handle, ConsumerGroupDescribeRequest(group_ids=GROUPS)),
        (share_group_describe.handle, ShareGroupDescribeRequest(group_ids=GROUPS)),
        (streams_group_describe.handle, StreamsGroupDescribeRequest(group_ids=GROUPS)),
    ],
    ids=["classic", "consumer", "share", "streams"],
)
def test_each_group_is_a_step(handle: Callable[..., Any], request_: Message) -> None:
    """Each described group is a separate step, for every kind of group.

    A group of hundreds of members takes long to describe, and a request may name hundreds.
    """
    described: list[str] = []

    def submit(part: Part[str], group: Any) -> None:
        described.append(group.group_id)
        part.reply(group.group_id)

    broker = SimpleNamespace(groups=SimpleNamespace(submit=submit))
    replies: list[Message] = []
    call = SimpleNamespace(caller=None, answered=False, rights=UNRESTRICTED, reply=replies.append)
    seen = [len(described) for _ in handle(cast("Any", broker), cast("Any", call), request_)]
    assert seen == [1, 2, 3]
    assert described == GROUPS
    assert len(replies) == 1
