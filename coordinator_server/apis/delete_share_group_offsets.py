"""DeleteShareGroupOffsets: delete the offsets of topics in an empty share group (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.merged_call import MergedCall
from protocol.apis.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest


def handle(broker: Broker, call: Call, request: DeleteShareGroupOffsetsRequest) -> None:
    """Submit the request to the group coordinator; refused topics come first in the response."""
    if not call.rights.refused:
        broker.groups.submit(call, request)
        return

    def answer(response: DeleteShareGroupOffsetsResponse) -> Steps:
        if response.error_code == ErrorCode.NONE:  # a response with an error has no topics
            responses = call.rights.before(response.responses)
            response = DeleteShareGroupOffsetsResponse(responses=responses)
        call.reply(response)
        yield

    broker.groups.submit(MergedCall(call, answer), request)
