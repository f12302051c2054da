"""ExpireDelegationToken: have a token end (KIP-48).

Source: KafkaApis.handleExpireTokenRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.token_requests import changed
from protocol.apis.expire_delegation_token import ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.expire_delegation_token import ExpireDelegationTokenRequest


def handle(broker: Broker, call: Call, request: ExpireDelegationTokenRequest) -> None:
    """Answer with when it ends."""
    token_hmac, principal = bytes(request.hmac), call.connection.principal
    error, ends_at_ms = changed(
        broker,
        call,
        "token.ended",
        token_hmac,
        lambda: broker.security.tokens.expire(token_hmac, principal, request.expiry_time_period_ms),
    )
    call.reply(ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=ends_at_ms))
