"""JoinGroup: become a member; answered when the join phase of the group ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.join_group import JoinGroupRequest


def handle(broker: Broker, call: Call, request: JoinGroupRequest) -> None:
    """To the group."""
    broker.groups.submit(call, request)
