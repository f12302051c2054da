"""SyncGroup: members get their assignment; the leader brings all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.sync_group import SyncGroupRequest


def handle(broker: Broker, call: Call, request: SyncGroupRequest) -> None:
    """To the group."""
    broker.groups.submit(call, request)
