"""ConsumerGroupHeartbeat: join, stay in or leave a consumer group (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def handle(broker: Broker, call: Call, request: ConsumerGroupHeartbeatRequest) -> None:
    """Submit the request to the group coordinator."""
    broker.groups.submit(call, request)
