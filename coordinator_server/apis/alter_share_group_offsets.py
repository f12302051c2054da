"""AlterShareGroupOffsets: set the start offsets of an empty share group (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.merged_call import MergedCall
from protocol.apis.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest


def handle(broker: Broker, call: Call, request: AlterShareGroupOffsetsRequest) -> None:
    """Submit the request to the group coordinator; refused topics come first in the response."""
    if not call.rights.refused:
        broker.groups.submit(call, request)
        return

    def answer(response: AlterShareGroupOffsetsResponse) -> Steps:
        if response.error_code == ErrorCode.NONE:  # a response with an error has no topics
            responses = call.rights.before(response.responses)
            response = AlterShareGroupOffsetsResponse(responses=responses)
        call.reply(response)
        yield

    broker.groups.submit(MergedCall(call, answer), request)
