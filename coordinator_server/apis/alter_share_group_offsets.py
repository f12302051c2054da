"""AlterShareGroupOffsets: from where an empty share group reads on (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest


def handle(broker: Broker, call: Call, request: AlterShareGroupOffsetsRequest) -> None:
    """To the group."""
    broker.groups.submit(call, request)
