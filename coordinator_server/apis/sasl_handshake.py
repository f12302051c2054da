"""SaslHandshake on a connection that is already authenticated or does not use SASL.

During authentication `security.sasl.authenticator` handles this request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call


def handle(broker: Broker, call: Call, request: SaslHandshakeRequest) -> None:
    """Respond ILLEGAL_SASL_STATE."""
    call.reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
