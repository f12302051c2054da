"""StreamsGroupTopologyDescriptionUpdate: refused, as by a broker without a plugin (KIP-1331).

Kafka stores topology descriptions in a plugin (`group.streams.topology.description.plugin.class`),
and checks for the plugin before the group. Source: GroupCoordinatorService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call

_NO_PLUGIN = "The broker has no streams group topology description plugin configured."


def handle(
    broker: Broker, call: Call, request: StreamsGroupTopologyDescriptionUpdateRequest
) -> None:
    """Respond UNSUPPORTED_VERSION: descriptions cannot be stored."""
    call.reply(
        StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_NO_PLUGIN
        )
    )
