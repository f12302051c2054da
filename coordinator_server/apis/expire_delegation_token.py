"""ExpireDelegationToken: change the expiry time of a token (KIP-48).

Source: KafkaApis.handleExpireTokenRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.token_requests import changed
from coordinator_server.events.log import LOG
from protocol.apis.expire_delegation_token import ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.apis.expire_delegation_token import ExpireDelegationTokenRequest


def handle(broker: Broker, call: Call, request: ExpireDelegationTokenRequest) -> None:
    """Respond with the new expiry time."""
    tokens, principal = broker.security.tokens, call.connection.principal
    token_hmac = bytes(request.hmac)
    token_id = tokens.id_of(token_hmac)
    error, ends_at_ms = changed(
        broker, call, lambda: tokens.expire(token_hmac, principal, request.expiry_time_period_ms)
    )
    if not error:
        event = "token.ended" if request.expiry_time_period_ms < 0 else "token.expiry_changed"
        LOG.emit(event, remote=call.connection.remote, token=token_id)
    call.reply(ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=ends_at_ms))
