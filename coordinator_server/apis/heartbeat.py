"""Heartbeat: a member shows that it is alive, and learns whether a rebalance has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.heartbeat import HeartbeatRequest


def handle(broker: Broker, call: Call, request: HeartbeatRequest) -> None:
    """To the group."""
    broker.groups.submit(call, request)
