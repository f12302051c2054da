"""AlterShareGroupOffsets: set the start offsets of an empty share group (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.merged_call import submit_share_offsets
from protocol.apis.alter_share_group_offsets import AlterShareGroupOffsetsResponse

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest


def handle(broker: Broker, call: Call, request: AlterShareGroupOffsetsRequest) -> None:
    """Submit the request to the group coordinator; refused topics come first in the response."""
    submit_share_offsets(broker, call, request, AlterShareGroupOffsetsResponse)
