"""A share group member whose heartbeat the coordinator refuses."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coordinator_server.client import Client, ClientError
from coordinator_server.client.share_member import ShareMember
from protocol.apis.share_group_heartbeat import (
    ShareAssignedPartitions,
    ShareAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from protocol.errors import ErrorCode
from tests.support import wait_for

TOPIC = b"t" * 16
PARTITIONS = [(TOPIC, 0), (TOPIC, 1)]


class Coordinator:
    """A coordinator that returns these error codes first, and then an assignment."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)
        self.asked: list[ShareGroupHeartbeatRequest] = []
        self.is_closed = False

    def coordinator(self, _: str) -> int:
        """Return the node id."""
        return 1

    def close(self) -> None:
        """Record that the client was closed."""
        self.is_closed = True

    def ask(self, request: ShareGroupHeartbeatRequest, _: int) -> Any:
        """Return a heartbeat response."""
        self.asked.append(request)
        if self.codes:
            return ShareGroupHeartbeatResponse(error_code=self.codes.pop(0))
        partitions = ShareAssignedPartitions(topic_id=TOPIC, partitions=[0, 1])
        return ShareGroupHeartbeatResponse(
            member_epoch=7,
            heartbeat_interval_ms=10,
            assignment=ShareAssignment(topic_partitions=[partitions]),
        )


def joined(coordinator: Coordinator) -> ShareMember:
    """Return a member that has started to join."""
    member = ShareMember(lambda: cast(Client, coordinator), "g", ["topic"])
    member.start()
    return member


def test_a_member_joins_heartbeats_and_leaves() -> None:
    """The subscription is sent only with epoch 0; epoch -1 leaves."""
    coordinator = Coordinator()
    member = joined(coordinator)
    assert member.partitions(30) == PARTITIONS
    wait_for(lambda: len(coordinator.asked) > 2, "it heartbeats")
    member.close(cast(Client, coordinator))
    assert coordinator.is_closed
    first, second, *_, last = coordinator.asked
    assert (first.member_epoch, first.subscribed_topic_names) == (0, ["topic"])
    assert (second.member_epoch, second.subscribed_topic_names) == (7, None)
    assert last.member_epoch == -1
    assert {request.member_id for request in coordinator.asked} == {member.member_id}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_a_member_that_was_removed_joins_again(code: ErrorCode) -> None:
    """After an unknown member id, a fenced epoch or a retriable error a member joins at epoch 0."""
    coordinator = Coordinator(code)
    member = joined(coordinator)
    assert member.partitions(30) == PARTITIONS
    member.close(cast(Client, coordinator))
    assert [request.member_epoch for request in coordinator.asked[:2]] == [0, 0]


def test_an_error_that_no_heartbeat_mends_ends_the_member() -> None:
    """After a fatal heartbeat error `partitions` raises this error, and no heartbeat follows."""
    coordinator = Coordinator(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    member = joined(coordinator)
    with pytest.raises(ClientError) as raised:
        member.partitions(30)
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    member.close(cast(Client, coordinator))
    assert len(coordinator.asked) == 1
