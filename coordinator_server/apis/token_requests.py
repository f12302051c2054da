"""Common parts of the delegation token APIs. Source: KafkaApis.allowTokenRequests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.config.security_protocol import SecurityProtocol
from coordinator_server.security.delegation_tokens import TokenRequestError
from coordinator_server.security.principal import ANONYMOUS
from coordinator_server.security.security import log_unwritten
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call

NO_TIME = -1
"""The value of each timestamp in the response to a request that is not allowed."""


def are_allowed(broker: Broker, call: Call) -> bool:
    """Return whether the client may use token APIs: authenticated, but not by a token."""
    connection = call.connection
    protocol = broker.config.security_protocol(connection.listener_name)
    is_unknown = protocol is SecurityProtocol.PLAINTEXT or (
        protocol is SecurityProtocol.SSL and connection.principal == ANONYMOUS
    )
    return not (is_unknown or connection.has_token)


def changed(broker: Broker, call: Call, change: Callable[[], int]) -> tuple[ErrorCode, int]:
    """Renew or expire a token if allowed; return the error and the expiry time in ms."""
    if not are_allowed(broker, call):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME
    try:
        return ErrorCode.NONE, change()
    except TokenRequestError as refused:
        return refused.error, 0
    except StorageError as failure:
        log_unwritten(failure)
        return failure.code, 0
