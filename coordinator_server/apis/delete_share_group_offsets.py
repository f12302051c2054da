"""DeleteShareGroupOffsets: delete the offsets of topics in an empty share group (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest


def handle(broker: Broker, call: Call, request: DeleteShareGroupOffsetsRequest) -> None:
    """Submit the request to the group coordinator."""
    broker.groups.submit(call, request)
