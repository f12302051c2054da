"""How an error of the log looks to a client of a coordinator.

A client knows nothing of a coordinator's topic, so the errors of its log are translated into errors
that make a client look for the coordinator again, wait, or give up. Source:
CoordinatorOperationExceptionHelper, TransactionStateManager.appendTransactionToLog.
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
"""Errors of a batch that its parts need not share."""


def client_error(append_error: ErrorCode) -> ErrorCode:
    """The error a client sees when the append failed with `append_error`."""
    return _CLIENT_ERROR.get(append_error, append_error)
