"""LeaveGroup: remove one member (up to version 2) or a list of members from a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.leave_group import LeaveGroupRequest


def handle(broker: Broker, call: Call, request: LeaveGroupRequest) -> None:
    """Submit the request to the group coordinator."""
    broker.groups.submit(call, request)
