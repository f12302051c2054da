"""LeaveGroup: members leave, one up to version 2, a list of them since."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.leave_group import LeaveGroupRequest


def handle(broker: Broker, call: Call, request: LeaveGroupRequest) -> None:
    """To the group."""
    broker.groups.submit(call, request)
