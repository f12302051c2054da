"""UnregisterController: always refused, because there is only one controller.

Source: Kafka's ClusterControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call


def handle(broker: Broker, call: Call, request: UnregisterControllerRequest) -> None:
    """Respond with the error for the active controller or for an unknown controller."""
    controller_id = request.controller_id
    error, message = (
        ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
        f"Controller ID {controller_id} is not currently registered.",
    )
    if controller_id == broker.controller_id:
        error = ErrorCode.INVALID_REQUEST
        message = "Controller cannot unregister itself while it is active."
    call.reply(UnregisterControllerResponse(error_code=error, error_message=message))
