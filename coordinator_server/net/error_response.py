"""Builds the error response to any request: the API's own response with error codes filled in.

Kafka has one AbstractRequest.getErrorResponse per request. Here the response is derived from the
message schemas: every error code is set, and lists of results get one entry per entry of the
request.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from coordinator_server.steps import run_all
from protocol.errors import ErrorCode
from protocol.schema import ArrayType, Field, Message

# For a response field: the request fields with the corresponding entries, if the names differ.
_RENAMED = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partitions": ("partition_indexes",),
    "partition_responses": ("partition_data",),
    "results": ("groups_names", "topics", "resources", "creations", "deletions", "upsertions"),
    "filter_results": ("filters",),
    "coordinators": ("coordinator_keys",),
    "groups": ("group_ids",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
    "transaction_states": ("transactional_ids",),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
}
# Request entries that are plain values, by their type: the response fields that may hold the
# value.
_IDENTITY = {
    str: ("name", "group_id", "key", "transactional_id"),
    int: ("partition_index", "index", "partition_id"),
}
_ERROR_CODES = ("error_code", "partition_error_code")


class Failure(NamedTuple):
    """The error that fails a request, and a message for responses with a message field."""

    error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    message: str | None = None


_BUG = Failure()


def error_response(
    response_type: type[Message], request: Message, version: int, failure: Failure = _BUG
) -> Message | None:
    """Return an error response to a request; None if the API has no error field."""
    return run_all(error_response_steps(response_type, request, version, failure))


def error_response_steps(
    response_type: type[Message], request: Message, version: int, failure: Failure = _BUG
) -> Generator[None, None, Message | None]:
    """Like `error_response`, in steps: one per entry, because there may be millions of entries."""
    response, has_error = yield from _filled(response_type, request, version, failure)
    return response if has_error else None


def _filled(
    response_type: type[Message], source: Any, version: int, failure: Failure
) -> Generator[None, None, tuple[Message, bool]]:
    """Build one message of the response from `source`; return it and whether it has an error."""
    response = response_type()
    has_error = False
    for field in response_type.FIELDS:
        if not field.in_version(version):
            continue
        if field.name in _ERROR_CODES:
            setattr(response, field.name, failure.error)
            has_error = True
        elif field.name == "error_message":
            if failure.message is not None:
                setattr(response, field.name, failure.message)
        elif isinstance(field.type, ArrayType) and isinstance(field.type.element, type):
            filled = []
            for entry in _entries(field, source):
                element, is_inside = yield from _filled(field.type.element, entry, version, failure)
                filled.append(element)
                has_error = has_error or is_inside
                yield
            setattr(response, field.name, filled)
        elif not isinstance(source, Message):
            if field.name in _IDENTITY.get(type(source), ()):
                setattr(response, field.name, source)
        elif hasattr(source, field.name):
            value = getattr(source, field.name)
            # A null name stays "" if the response field is not nullable (Kafka's MetadataRequest).
            if value is not None or field.nullable_in(version):
                setattr(response, field.name, value)
    return response, has_error


def _entries(field: Field, source: Any) -> Sequence[Any]:
    """Return the entries of the request that correspond to a list of the response."""
    for name in (field.name, *_RENAMED.get(field.name, ())):
        entries: Sequence[Any] | None = getattr(source, name, None)
        if entries:
            return entries
    return ()
