"""The elements of requests and responses: topics, partitions, groups, members, transactional ids.

A fault rule that names an element applies to this element only. `split` takes the named elements
out of a request, so that the handler serves the rest. `merged` adds their errors to the response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.apis.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.batch_header import LOG_OVERHEAD_BYTES
from protocol.schema import ArrayType, Message

if TYPE_CHECKING:
    from coordinator_server.steps import Computation
    from protocol.errors import ErrorCode
    from protocol.registry import ApiSpec
    from protocol.schema import Field

TOPIC, PARTITION, GROUP, MEMBER, TRANSACTION = (
    "topic",
    "partition",
    "group",
    "member",
    "transactional_id",
)
KINDS = (GROUP, MEMBER, TRANSACTION, TOPIC, PARTITION)

_ARRAYS = {
    **dict.fromkeys(("topics", "topic_data", "topic_names", "v3_and_below_topics"), TOPIC),
    "topic_partitions": TOPIC,
    **dict.fromkeys(("partitions", "partition_data", "partition_indexes"), PARTITION),
    **dict.fromkeys(("groups", "group_ids", "groups_names", "coordinator_keys"), GROUP),
    "members": MEMBER,
    **dict.fromkeys(("transactions", "transactional_ids"), TRANSACTION),
}
"""The kind of the elements in an array of a request, by the name of the array."""

_NAMES = {
    TOPIC: ("name", "topic", "topic_name"),
    PARTITION: ("partition_index", "index", "partition", "partition_id"),
    GROUP: ("group_id", "key"),
    MEMBER: ("member_id",),
    TRANSACTION: ("transactional_id", "v3_and_below_transactional_id"),
}
"""The fields that identify an element, by its kind."""

_IDENTITY = (*(name for names in _NAMES.values() for name in names), "topic_id")

Selection = dict[str, "re.Pattern[str] | int"]
"""The named elements by kind: a pattern, or the number of a partition."""

TopicName = Callable[[bytes], str | None]
"""Return the name of the topic with an id."""


class Parts(NamedTuple):
    """A request without the selected elements, and a request of only these elements.

    Either is None if it has no elements.
    """

    kept: Message | None
    taken: Message | None


def pattern(text: str) -> re.Pattern[str]:
    """Return a pattern for whole values, in which `*` and `?` match any characters."""
    return re.compile(translate(re.sub(r"\*+", "*", text).replace("[", "[[]")))


def matches(wanted: re.Pattern[str] | int, value: object) -> bool:
    """Return whether a name matches a pattern, or a number is the wanted number."""
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.match(value) is not None
    return value == wanted


def element_kinds(spec: ApiSpec) -> frozenset[str]:
    """Return the kinds of elements that the requests of an API name."""
    kinds = set(_array_kinds(spec.request_type))
    for kind in (GROUP, MEMBER, TRANSACTION):
        names = {field.name for field in spec.request_type.FIELDS}
        if names.intersection(_NAMES[kind]):
            kinds.add(kind)
    return frozenset(kinds)


def _array_kinds(message_type: type[Message]) -> Iterator[str]:
    for field in message_type.FIELDS:
        if isinstance(field.type, ArrayType) and field.name in _ARRAYS:
            yield _ARRAYS[field.name]
            if isinstance(field.type.element, type):
                yield from _array_kinds(field.type.element)


def split(
    request: Message, version: int, selection: Selection, topic_name: TopicName
) -> Computation[Parts]:
    """Return the two parts of a request, in steps. An empty selection takes the whole request."""
    rest = dict(selection)
    for kind in (GROUP, MEMBER, TRANSACTION):
        value = _own(request, version, kind)
        if kind in rest and value is not None and not matches(rest.pop(kind), value):
            return Parts(request, None)
    if not rest:
        return Parts(None, request)
    return (yield from _split(request, version, rest, topic_name))


def _own(request: Message, version: int, kind: str) -> object:
    """Return the group, member or transactional id of the request itself; None without one."""
    for field in request.FIELDS:
        if field.name in _NAMES[kind] and field.in_version(version):
            return getattr(request, field.name)
    return None


def _split(
    message: Message, version: int, selection: Selection, topic_name: TopicName
) -> Computation[Parts]:
    kept_arrays: dict[str, list[Any]] = {}
    taken_arrays: dict[str, list[Any]] = {}
    for field in _arrays(message, version):
        kind = _ARRAYS[field.name]
        kept, taken = kept_arrays[field.name], taken_arrays[field.name] = [], []
        rest = {other: wanted for other, wanted in selection.items() if other != kind}
        for entry in getattr(message, field.name) or ():
            yield
            if kind in selection and not matches(
                selection[kind], identity(entry, kind, topic_name)
            ):
                kept.append(entry)
            elif not rest:
                taken.append(entry)
            elif isinstance(entry, Message):
                parts = yield from _split(entry, version, rest, topic_name)
                kept.extend(part for part in (parts.kept,) if part is not None)
                taken.extend(part for part in (parts.taken,) if part is not None)
            else:
                kept.append(entry)
    if not any(taken_arrays.values()):
        return Parts(message, None)
    taken_message = _with_arrays(message, taken_arrays)
    if not any(kept_arrays.values()):
        return Parts(None, taken_message)
    return Parts(_with_arrays(message, kept_arrays), taken_message)


def _arrays(message: Message, version: int) -> list[Field]:
    """Return the fields of a message that have elements."""
    return [
        field
        for field in message.FIELDS
        if field.name in _ARRAYS and isinstance(field.type, ArrayType) and field.in_version(version)
    ]


def _with_arrays(message: Message, arrays: dict[str, list[Any]]) -> Message:
    copy = message.copy()
    for name, entries in arrays.items():
        setattr(copy, name, entries)
    return copy


def identity(entry: object, kind: str, topic_name: TopicName) -> object:
    """Return the name or number of an element."""
    if not isinstance(entry, Message):
        return entry
    for name in _NAMES[kind]:
        value = getattr(entry, name, None)
        if value not in (None, ""):
            return value
    topic_id = getattr(entry, "topic_id", None)
    return topic_name(topic_id) if kind == TOPIC and topic_id else None


def merged(response: Message, errors: Message, version: int) -> Computation[Message]:
    """Return a copy of a response with the elements of an error response added, in steps.

    An element of the error response replaces the element of the response with the same name.
    """
    copy = response.copy()
    for field in response.FIELDS:
        if not isinstance(field.type, ArrayType) or not field.in_version(version):
            continue
        added = getattr(errors, field.name) or ()
        if not added or not isinstance(field.type.element, type):
            continue
        entries = list(getattr(copy, field.name) or ())
        places = {}
        for place, entry in enumerate(entries):
            places[_key(entry, version)] = place
            yield
        for entry in added:
            yield
            place = places.get(_key(entry, version), -1)
            if place < 0:
                entries.append(entry)
            elif _has_entries(entry):
                entries[place] = yield from merged(entries[place], entry, version)
            else:
                entries[place] = entry
        setattr(copy, field.name, entries)
    return copy


def clear_outer_errors(message: Message) -> Computation[bool]:
    """Remove the errors of messages that contain elements with errors, in steps.

    Return whether the message or one of its elements has an error code.
    """
    has_inner = False
    for field in message.FIELDS:
        if isinstance(field.type, ArrayType) and isinstance(field.type.element, type):
            for entry in getattr(message, field.name) or ():
                yield
                has_inner = (yield from clear_outer_errors(entry)) or has_inner
    names = {field.name for field in message.FIELDS}
    if has_inner and "error_code" in names:
        message.error_code = 0  # type: ignore[attr-defined]  # as the schema says
        if "error_message" in names:
            message.error_message = None  # type: ignore[attr-defined]  # as the schema says
    return has_inner or bool({"error_code", "partition_error_code"} & names)


def with_changed_partitions(
    response: FetchResponse,
    selection: Selection,
    topic_name: TopicName,
    change: Callable[[PartitionData], PartitionData | None],
) -> Computation[FetchResponse | None]:
    """Return a copy of a Fetch response in which the selected partitions are changed, in steps.

    `change` returns the new partition, or None to keep the partition. Return None if no partition
    is changed. The response is changed instead of the request, because the request of a fetch
    session does not name all of its partitions.
    """
    topics: list[FetchableTopicResponse] = []
    has_changed = False
    for topic in response.responses:
        if TOPIC in selection and not matches(selection[TOPIC], identity(topic, TOPIC, topic_name)):
            topics.append(topic)
            continue
        partitions = []
        for partition in topic.partitions:
            yield
            index = partition.partition_index
            changed = change(partition) if matches(selection.get(PARTITION, index), index) else None
            has_changed = has_changed or changed is not None
            partitions.append(partition if changed is None else changed)
        topic = topic.copy()
        topic.partitions = partitions
        topics.append(topic)
    if not has_changed:
        return None
    response = response.copy()
    response.responses = topics
    return response


def failed_partition(partition: PartitionData, error: ErrorCode) -> PartitionData:
    """Return the partition of a Fetch response with an error and without records."""
    index = partition.partition_index
    return PartitionData(partition_index=index, error_code=error, high_watermark=-1)


def corrupted_partition(partition: PartitionData) -> PartitionData | None:
    """Return the partition of a Fetch response whose first batch has a wrong CRC.

    The last byte of the batch is inverted. Return None for a partition without records.
    """
    records = bytearray(partition.records or b"")
    if len(records) < LOG_OVERHEAD_BYTES:
        return None
    length = int.from_bytes(records[LOG_OVERHEAD_BYTES - 4 : LOG_OVERHEAD_BYTES], "big")
    records[min(LOG_OVERHEAD_BYTES + length, len(records)) - 1] ^= 0xFF
    copy = partition.copy()
    copy.records = bytes(records)
    return copy


def _key(entry: Message, version: int) -> tuple[object, ...]:
    """Return the values that identify an element of a response."""
    key = tuple(
        getattr(entry, field.name)
        for field in entry.FIELDS
        if field.name in _IDENTITY and field.in_version(version)
    )
    assert key, f"{type(entry).__name__} has no name"
    return key


def _has_entries(entry: Message) -> bool:
    return any(
        isinstance(field.type, ArrayType)
        and isinstance(field.type.element, type)
        and getattr(entry, field.name)
        for field in entry.FIELDS
    )
