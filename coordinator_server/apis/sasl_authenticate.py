"""SaslAuthenticate of a client that need not authenticate, or that has.

Before that `security.sasl.authenticator` takes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call


def handle(broker: Broker, call: Call, request: SaslAuthenticateRequest) -> None:
    """Refuse it."""
    call.reply(
        SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    )
