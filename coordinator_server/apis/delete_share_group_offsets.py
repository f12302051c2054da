"""DeleteShareGroupOffsets: delete the offsets of topics in an empty share group (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.merged_call import submit_share_offsets
from protocol.apis.delete_share_group_offsets import DeleteShareGroupOffsetsResponse

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest


def handle(broker: Broker, call: Call, request: DeleteShareGroupOffsetsRequest) -> None:
    """Submit the request to the group coordinator; refused topics come first in the response."""
    submit_share_offsets(broker, call, request, DeleteShareGroupOffsetsResponse)
