"""The answer to a request whose handler failed: the API's own response, full of error codes.

Kafka builds it by hand for every request (AbstractRequest.getErrorResponse). Here it follows from
the declarations: every error code is filled, and where the answer is a list of results, the entries
of the request give it its entries.
"""

from __future__ import annotations

from typing import Any

from protocol.errors import ErrorCode
from protocol.schema import ArrayType, Field, Message

# Entries of the request (left) whose results stand under another name in the answer (right).
_RENAMED = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partitions": ("partition_indexes",),
    "partition_responses": ("partition_data",),
    "results": ("groups_names", "topics", "resources"),
    "coordinators": ("coordinator_keys",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
    "transaction_states": ("transactional_ids",),
}
# What an entry that is a plain value is called in the answer.
_IDENTITY = {
    str: ("name", "group_id", "key", "transactional_id"),
    int: ("partition_index", "index"),
}
_ERROR_CODES = ("error_code", "partition_error_code")


def error_response(response_type: type[Message], request: Message, version: int) -> Message | None:
    """UNKNOWN_SERVER_ERROR as the response to a request; None if the API has no field for it."""
    response, has_error = _filled(response_type, request, version)
    return response if has_error else None


def _filled(response_type: type[Message], source: Any, version: int) -> tuple[Message, bool]:
    """One message of the response, made after `source`; whether an error code is in it."""
    response = response_type()
    has_error = False
    for field in response_type.FIELDS:
        if not field.in_version(version):
            continue
        if field.name in _ERROR_CODES:
            setattr(response, field.name, ErrorCode.UNKNOWN_SERVER_ERROR)
            has_error = True
        elif isinstance(field.type, ArrayType) and isinstance(field.type.element, type):
            entries = _entries(field, source)
            filled = [_filled(field.type.element, entry, version) for entry in entries]
            setattr(response, field.name, [one for one, _ in filled])
            has_error = has_error or any(inside for _, inside in filled)
        elif not isinstance(source, Message):
            if field.name in _IDENTITY.get(type(source), ()):
                setattr(response, field.name, source)
        elif hasattr(source, field.name):
            setattr(response, field.name, getattr(source, field.name))
    return response, has_error


def _entries(field: Field, source: Any) -> list[Any]:
    """The entries of the request that correspond to a list of the answer."""
    for name in (field.name, *_RENAMED.get(field.name, ())):
        entries = getattr(source, name, None)
        if entries:
            return list(entries)
    return []
