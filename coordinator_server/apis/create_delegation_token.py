"""CreateDelegationToken: create a token for the client or another owner (KIP-48, KIP-373).

Source: KafkaApis.handleCreateTokenRequest and the handler in ControllerApis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.token_requests import NO_TIME, are_allowed
from coordinator_server.events.log import LOG
from coordinator_server.security.delegation_tokens import MOST_TOKEN_BYTES, TokenRequestError
from coordinator_server.security.principal import ANONYMOUS, USER_TYPE, Principal
from coordinator_server.security.security import log_unwritten
from coordinator_server.topics.manager import new_topic_id
from protocol.apis.create_delegation_token import CreateDelegationTokenResponse
from protocol.errors import ErrorCode
from protocol.json_form import uuid_to_text
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.create_delegation_token import CreateDelegationTokenRequest

_MOST_RENEWERS = MOST_TOKEN_BYTES // len('"User:",')


def handle(broker: Broker, call: Call, request: CreateDelegationTokenRequest) -> Steps:
    """Create a token for the client, or for the owner named in the request."""
    requester = owner = call.connection.principal
    if request.owner_principal_name:
        if request.owner_principal_type is None:  # Kafka's KafkaPrincipal rejects a null type
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            call.reply(_answer(error, ANONYMOUS, ANONYMOUS, NO_TIME))
            return
        owner = Principal(request.owner_principal_type, request.owner_principal_name)
    error = _refusal(broker, call, owner)
    if not error:
        for renewer in request.renewers:
            if renewer.principal_type != USER_TYPE:
                error = ErrorCode.INVALID_PRINCIPAL_TYPE
                break
            yield
    if error:
        call.reply(_answer(error, owner, requester, NO_TIME))
        return
    if len(request.renewers) > _MOST_RENEWERS:
        call.reply(_answer(ErrorCode.POLICY_VIOLATION, owner, requester, NO_TIME))
        return
    renewers = [
        Principal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers
    ]
    token_id = uuid_to_text(new_topic_id())
    tokens = broker.security.tokens
    try:
        token = tokens.create(token_id, owner, requester, renewers, request.max_lifetime_ms)
    except TokenRequestError as refused:
        call.reply(_answer(refused.error, owner, requester, 0))
        return
    except StorageError as failure:
        log_unwritten(failure)
        call.reply(_answer(failure.code, owner, requester, 0))
        return
    LOG.emit("token.created", remote=call.connection.remote, token=token_id)
    answer = _answer(ErrorCode.NONE, owner, requester, token.issued_at_ms)
    answer.expiry_timestamp_ms = token.expires_at_ms
    answer.max_timestamp_ms = token.max_at_ms
    answer.token_id = token_id
    answer.hmac = tokens.hmac(token_id)
    call.reply(answer)


def _refusal(broker: Broker, call: Call, owner: Principal) -> ErrorCode:
    """Return the error if the client must not create a token for this owner, or NONE."""
    if not are_allowed(broker, call):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != call.connection.principal and not call.rights.allows(str(owner)):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _answer(
    error: ErrorCode, owner: Principal, requester: Principal, time_ms: int
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner.principal_type,
        principal_name=owner.name,
        token_requester_principal_type=requester.principal_type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )
