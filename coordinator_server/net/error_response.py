"""The answer to a request whose handler failed: the API's own response, full of error codes.

Kafka builds it by hand for every request (AbstractRequest.getErrorResponse). Here it follows from
the declarations: every error code is filled, and where the answer is a list of results, the entries
of the request give it its entries.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from coordinator_server.steps import run_all
from protocol.errors import ErrorCode
from protocol.schema import ArrayType, Field, Message

# Entries of the request (left) whose results stand under another name in the answer (right).
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
# What an entry that is a plain value is called in the answer.
_IDENTITY = {
    str: ("name", "group_id", "key", "transactional_id"),
    int: ("partition_index", "index", "partition_id"),
}
_ERROR_CODES = ("error_code", "partition_error_code")


class Failure(NamedTuple):
    """The error that fails a request; some answers have room for a message beside it."""

    error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    message: str | None = None


_BUG = Failure()


def error_response(
    response_type: type[Message], request: Message, version: int, failure: Failure = _BUG
) -> Message | None:
    """An error as the response to a request; None if the API has no field for it."""
    return run_all(error_response_steps(response_type, request, version, failure))


def error_response_steps(
    response_type: type[Message], request: Message, version: int, failure: Failure = _BUG
) -> Generator[None, None, Message | None]:
    """The same in steps, one for each entry: there may be millions."""
    response, has_error = yield from _filled(response_type, request, version, failure)
    return response if has_error else None


def _filled(
    response_type: type[Message], source: Any, version: int, failure: Failure
) -> Generator[None, None, tuple[Message, bool]]:
    """One message of the response, made after `source`; whether an error code is in it."""
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
                one, is_inside = yield from _filled(field.type.element, entry, version, failure)
                filled.append(one)
                has_error = has_error or is_inside
                yield
            setattr(response, field.name, filled)
        elif not isinstance(source, Message):
            if field.name in _IDENTITY.get(type(source), ()):
                setattr(response, field.name, source)
        elif hasattr(source, field.name):
            value = getattr(source, field.name)
            # A name that only the request may leave out is empty (Kafka's MetadataRequest).
            if value is not None or field.nullable_in(version):
                setattr(response, field.name, value)
    return response, has_error


def _entries(field: Field, source: Any) -> Sequence[Any]:
    """The entries of the request that correspond to a list of the answer."""
    for name in (field.name, *_RENAMED.get(field.name, ())):
        entries: Sequence[Any] | None = getattr(source, name, None)
        if entries:
            return entries
    return ()
