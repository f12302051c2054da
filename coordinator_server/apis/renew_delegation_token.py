"""RenewDelegationToken: have a token live longer (KIP-48).

Source: KafkaApis.handleRenewTokenRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.token_requests import changed
from protocol.apis.renew_delegation_token import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.renew_delegation_token import RenewDelegationTokenRequest


def handle(broker: Broker, call: Call, request: RenewDelegationTokenRequest) -> None:
    """Answer with when it ends."""
    token_hmac, principal = bytes(request.hmac), call.connection.principal
    error, ends_at_ms = changed(
        broker,
        call,
        "token.renewed",
        token_hmac,
        lambda: broker.security.tokens.renew(token_hmac, principal, request.renew_period_ms),
    )
    call.reply(RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=ends_at_ms))
