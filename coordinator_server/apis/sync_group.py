"""SyncGroup: return a member's assignment; the leader submits the assignments of all members."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.sync_group import SyncGroupRequest


def handle(broker: Broker, call: Call, request: SyncGroupRequest) -> None:
    """Submit the request to the group coordinator."""
    broker.groups.submit(call, request)
