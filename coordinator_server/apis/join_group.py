"""JoinGroup: join a group; the response is sent when the group's join phase ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.join_group import JoinGroupRequest


def handle(broker: Broker, call: Call, request: JoinGroupRequest) -> None:
    """Submit the request to the group coordinator."""
    broker.groups.submit(call, request)
