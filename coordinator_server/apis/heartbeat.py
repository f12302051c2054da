"""Heartbeat: keep a member alive and tell it whether a rebalance has started."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.heartbeat import HeartbeatRequest


def handle(broker: Broker, call: Call, request: HeartbeatRequest) -> None:
    """Submit the request to the group coordinator."""
    broker.groups.submit(call, request)
