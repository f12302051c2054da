"""Refusal: the error of an acknowledgement, as sent to the consumer."""

from __future__ import annotations

from typing import NamedTuple

from protocol.error_messages import MESSAGES
from protocol.errors import ErrorCode


class Refusal(NamedTuple):
    """The error code and Kafka's message."""

    error: ErrorCode
    message: str


_AS_OTHERS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


def of_persister(error: ErrorCode) -> Refusal:
    """Return the consumer's error for a persister error (SharePartition.fetchPersisterError)."""
    return Refusal(_AS_OTHERS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR), MESSAGES[error])
