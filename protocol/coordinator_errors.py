"""Translates errors of a coordinator's log into errors for clients of the coordinator.

Clients do not know the coordinator's topic. The translated errors make a client find the
coordinator again, wait, or fail. Source: CoordinatorOperationExceptionHelper,
TransactionStateManager.appendTransactionToLog.
"""

from __future__ import annotations

from protocol.errors import ErrorCode

_CLIENT_ERROR = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}

TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
"""Errors of a batch that may not occur if the batch is split."""


def client_error(append_error: ErrorCode) -> ErrorCode:
    """Return the error for a client when an append failed with `append_error`."""
    return _CLIENT_ERROR.get(append_error, append_error)
