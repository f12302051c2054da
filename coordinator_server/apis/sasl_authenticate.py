"""SaslAuthenticate on a connection that is already authenticated or does not use SASL.

During authentication `security.sasl.authenticator` handles this request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call


def handle(broker: Broker, call: Call, request: SaslAuthenticateRequest) -> None:
    """Respond ILLEGAL_SASL_STATE."""
    call.reply(
        SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    )
