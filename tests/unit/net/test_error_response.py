"""The response to a request whose handler failed, for every served API."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.net.error_response import error_response
from protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.apis.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from protocol.codec import encoder
from protocol.registry import SPEC_BY_NAME, SPECS, ApiSpec
from protocol.schema import ArrayType, Message

FAILED = -1


def one_of_each(message_type: type[Message], version: int) -> Message:
    """Return a message with one entry in every list."""
    message = message_type()
    for field in message_type.FIELDS:
        if field.in_version(version) and isinstance(field.type, ArrayType):
            element = field.type.element
            if isinstance(element, type):
                setattr(message, field.name, [one_of_each(element, version)])
            else:
                setattr(message, field.name, [element.default])
    return message


@pytest.mark.parametrize(
    ("spec", "version"),
    [(s, v) for s in SPECS for v in (s.min_version, s.max_version)],
    ids=lambda value: value.name if isinstance(value, ApiSpec) else f"v{value}",
)
def test_every_api_can_say_that_it_failed(spec: ApiSpec, version: int) -> None:
    """The error response can be encoded at the request's version and contains the error."""
    request = one_of_each(spec.request_type, version)
    response = error_response(spec.response_type, request, version)
    assert response is not None, "no error code in the answer"
    encoder(spec.response_type, version)(response)
    assert "error_code=<ErrorCode.UNKNOWN_SERVER_ERROR: -1>" in repr(response)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_what_a_request_leaves_out_is_empty(spec: ApiSpec) -> None:
    """If the response requires a field that the request lacks, the field is empty.

    An example is the name of a topic in Metadata 10 and 11.
    """
    for version in range(spec.min_version, spec.max_version + 1):
        request = one_of_each(spec.request_type, version)
        leave_out(request, version)
        response = error_response(spec.response_type, request, version)
        assert response is not None
        encoder(spec.response_type, version)(response)


def leave_out(message: Message, version: int) -> None:
    """Set every nullable field to null, also in list entries, but no lists."""
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if isinstance(value, list):
            for one in value:
                if isinstance(one, Message):
                    leave_out(one, version)
        elif field.in_version(version) and field.nullable_in(version):
            setattr(message, field.name, None)


def test_results_name_what_they_are_about() -> None:
    """An error response to OffsetCommit lists the topics and partitions of the request."""
    spec = SPEC_BY_NAME["OffsetCommit"]
    request: Any = one_of_each(spec.request_type, 8)
    request.topics[0].name = "orders"
    request.topics[0].partitions[0].partition_index = 3
    response: Any = error_response(spec.response_type, request, 8)
    assert response.topics[0].name == "orders"
    assert response.topics[0].partitions[0].partition_index == 3
    assert response.topics[0].partitions[0].error_code == FAILED


def test_partitions_that_join_a_transaction_are_named() -> None:
    """AddPartitionsToTxn has an error per partition up to version 3, then a single error."""
    topic = AddPartitionsToTxnTopic(name="orders", partitions=[3])
    single = AddPartitionsToTxnRequest(v3_and_below_topics=[topic])
    response: Any = error_response(AddPartitionsToTxnResponse, single, 3)
    (result,) = response.results_by_topic_v3_and_below
    (partition,) = result.results_by_partition
    assert (result.name, partition.partition_index) == ("orders", 3)
    assert partition.partition_error_code == FAILED
    batched = AddPartitionsToTxnRequest(
        transactions=[AddPartitionsToTxnTransaction(transactional_id="t", topics=[topic])]
    )
    response = error_response(AddPartitionsToTxnResponse, batched, 4)
    assert response.error_code == FAILED
    assert response.results_by_transaction == []


def test_results_of_plain_names_are_named_too() -> None:
    """An error response to DeleteGroups lists the groups, which are plain strings in the request.

    DescribeTransactions does the same with transactional ids.
    """
    spec = SPEC_BY_NAME["DeleteGroups"]
    request: Any = spec.request_type()
    request.groups_names = ["a", "b"]
    response: Any = error_response(spec.response_type, request, 2)
    assert [(one.group_id, one.error_code) for one in response.results] == [("a", -1), ("b", -1)]
    described: Any = error_response(
        DescribeTransactionsResponse, DescribeTransactionsRequest(transactional_ids=["t"]), 0
    )
    (state,) = described.transaction_states
    assert (state.transactional_id, state.error_code) == ("t", FAILED)


def test_an_answer_without_entries_has_no_place_for_an_error() -> None:
    """If a response has no field for an error, the connection is closed."""
    spec = SPEC_BY_NAME["OffsetCommit"]
    assert error_response(spec.response_type, spec.request_type(), 8) is None
