"""RenewDelegationToken: extend the lifetime of a token (KIP-48).

Source: KafkaApis.handleRenewTokenRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.token_requests import changed
from coordinator_server.events.log import LOG
from protocol.apis.renew_delegation_token import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.renew_delegation_token import RenewDelegationTokenRequest


def handle(broker: Broker, call: Call, request: RenewDelegationTokenRequest) -> None:
    """Respond with the new expiry time."""
    tokens, principal = broker.security.tokens, call.connection.principal
    token_hmac = bytes(request.hmac)
    token_id = tokens.id_of(token_hmac)
    error, ends_at_ms = changed(
        broker, call, lambda: tokens.renew(token_hmac, principal, request.renew_period_ms)
    )
    if not error:
        LOG.emit("token.renewed", remote=call.connection.remote, token=token_id)
    call.reply(RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=ends_at_ms))
