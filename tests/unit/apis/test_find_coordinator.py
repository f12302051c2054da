"""FindCoordinator: every field as Kafka fills it, also with an error."""

from __future__ import annotations

import pytest

from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.errors import ErrorCode
from tests.harness.share_states import ShareStateBroker
from tests.harness.transactions import TransactionBroker

GROUP, TRANSACTION, SHARE, UNKNOWN = 0, 1, 2, 3
MESSAGE = ErrorCode.INVALID_REQUEST.message


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_one_coordinator(version: int, key_type: int) -> None:
    """Up to version 3 the request has one key; without an error the message is `NONE`."""
    request = FindCoordinatorRequest(key="g", key_type=key_type)
    answer = TransactionBroker().ask(request, version)
    assert (answer.error_code, answer.error_message, answer.node_id) == (0, "NONE", 1)


@pytest.mark.parametrize("key_type", [SHARE, UNKNOWN, -1])
def test_one_that_is_refused(key_type: int) -> None:
    """A refused key has node -1, an empty host, and the message of the error."""
    request = FindCoordinatorRequest(key="g", key_type=key_type)
    answer = TransactionBroker().ask(request, 3)
    assert (answer.node_id, answer.host, answer.port) == (-1, "", -1)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, MESSAGE)


@pytest.mark.parametrize(
    ("key_type", "error", "message"),
    [
        (GROUP, ErrorCode.NONE, ""),
        (TRANSACTION, ErrorCode.NONE, ""),
        (SHARE, ErrorCode.INVALID_REQUEST, ""),
        (UNKNOWN, ErrorCode.INVALID_REQUEST, MESSAGE),
    ],
)
def test_many_coordinators(key_type: int, error: ErrorCode, message: str) -> None:
    """Since version 4 each key has its own result; only an unknown key type has a message."""
    request = FindCoordinatorRequest(coordinator_keys=["g", "h"], key_type=key_type)
    found = (TransactionBroker().ask(request, 6)).coordinators
    assert [one.key for one in found] == ["g", "h"]
    assert [(one.error_code, one.error_message) for one in found] == [(error, message)] * 2


@pytest.mark.parametrize(
    ("version", "key", "error"),
    [
        (6, "g:AAECAwQFBgcICQoLDA0ODw:0", ErrorCode.NONE),
        (6, "a:b:AAECAwQFBgcICQoLDA0ODw:0", ErrorCode.NONE),
        (6, "g:AAECAwQFBgcICQoLDA0ODw", ErrorCode.INVALID_REQUEST),
        (5, "g:AAECAwQFBgcICQoLDA0ODw:0", ErrorCode.INVALID_REQUEST),
    ],
)
def test_share_partitions(version: int, key: str, error: ErrorCode) -> None:
    """Since version 6 share partitions are found by group, topic id and partition.

    The request creates the internal topic.
    """
    broker = ShareStateBroker()
    request = FindCoordinatorRequest(coordinator_keys=[key], key_type=SHARE)
    (one,) = broker.ask(request, version).coordinators
    node = (-1, "", -1) if error else (1, "127.0.0.1", 9092)
    assert (one.key, one.error_code, one.error_message) == (key, error, "")
    assert (one.node_id, one.host, one.port) == node
    assert broker.topics.partition_count("__share_group_state") == (0 if error else 1)
