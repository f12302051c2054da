"""DescribeDelegationToken: list the tokens that a client may see (KIP-48).

Source: KafkaApis.handleDescribeTokensRequest, DelegationTokenManager.filterToken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.token_requests import are_allowed
from coordinator_server.security.principal import Principal
from protocol.apis.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.security.delegation_tokens import DelegationToken
    from coordinator_server.steps import Steps
    from protocol.apis.describe_delegation_token import DescribeDelegationTokenRequest


def handle(broker: Broker, call: Call, request: DescribeDelegationTokenRequest) -> Steps:
    """Respond with the tokens of the named owners, or with all tokens."""
    tokens = broker.security.tokens
    response = DescribeDelegationTokenResponse()
    if not are_allowed(broker, call):
        response.error_code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif not tokens.are_enabled:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    else:
        owners: set[Principal] | None = None
        if request.owners is not None:
            owners = set()
            for owner in request.owners:
                owners.add(Principal(owner.principal_type, owner.principal_name))
                yield
        for token in tokens:
            is_asked_for = owners is None or not owners.isdisjoint(token.principals)
            if is_asked_for and _may_see(call, token):
                response.tokens.append(_described(token, tokens.hmac(token.token_id)))
            yield
    call.reply(response)


def _may_see(call: Call, token: DelegationToken) -> bool:
    is_own = call.connection.principal in token.principals
    return is_own or call.rights.allows(token.token_id, str(token.owner))


def _described(token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.principal_type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.principal_type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_at_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=token.max_at_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(
                principal_type=renewer.principal_type, principal_name=renewer.name
            )
            for renewer in token.renewers
        ],
    )
