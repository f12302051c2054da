"""The HTTP status of errors that a broker returns to the control server."""

from __future__ import annotations

import pytest

from coordinator_server.control.errors import ControlError
from coordinator_server.control.local import check
from protocol.errors import ErrorCode

STATUS = {
    403: "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    404: "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID GROUP_ID_NOT_FOUND "
    "TRANSACTIONAL_ID_NOT_FOUND",
    409: "CONCURRENT_TRANSACTIONS UNSTABLE_OFFSET_COMMIT INCONSISTENT_TOPIC_ID "
    "REBALANCE_IN_PROGRESS REASSIGNMENT_IN_PROGRESS NON_EMPTY_GROUP UNKNOWN_MEMBER_ID "
    "GROUP_SUBSCRIBED_TO_TOPIC TOPIC_ALREADY_EXISTS",
    429: "THROTTLING_QUOTA_EXCEEDED",
    500: "UNKNOWN_SERVER_ERROR KAFKA_STORAGE_ERROR",
    503: "LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER REPLICA_NOT_AVAILABLE NETWORK_EXCEPTION "
    "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_ENOUGH_REPLICAS "
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER BROKER_NOT_AVAILABLE LISTENER_NOT_FOUND "
    "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE PREFERRED_LEADER_NOT_AVAILABLE "
    "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    504: "REQUEST_TIMED_OUT",
}
"""The errors whose exception in Kafka 4.4.0 is a RetriableException are all here, except those of
sessions, of corrupt records and ELECTION_NOT_NEEDED, which no request of the control server gets.
"""


@pytest.mark.parametrize("error", ErrorCode, ids=lambda error: error.name)
def test_errors_have_a_status(error: ErrorCode) -> None:
    """A transient error does not have status 400, which means a mistake of the client."""
    (status,) = [status for status, names in STATUS.items() if error.name in names.split()] or [400]
    if error is ErrorCode.NONE:
        check(error, None, "it")
        return
    with pytest.raises(ControlError) as raised:
        check(error, "why", "it")
    assert (raised.value.status, str(raised.value)) == (status, f"it: {error.name}: why")
