"""ShareGroupHeartbeat: join, stay in or leave a share group (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest


def handle(broker: Broker, call: Call, request: ShareGroupHeartbeatRequest) -> None:
    """Submit the request to the group coordinator."""
    broker.groups.submit(call, request)
