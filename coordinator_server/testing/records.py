"""Records as tests write and read them, and their JSON form for the control server."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Content = bytes | str | None
"""A key, a value or a header's value; a str is encoded as UTF-8, None is Kafka's null."""

Headers = Mapping[str, Content] | Iterable[tuple[str, Content]]


class TopicPartition(NamedTuple):
    """A topic and a partition number; equal to the plain tuple."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Record(NamedTuple):
    """A record as stored in the log."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def to_json(
    value: Content, key: Content, partition: int | None, headers: Headers, timestamp_ms: int | None
) -> dict[str, Any]:
    """Return the JSON form of a record.

    Raises TypeError for a value that is neither bytes nor str.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return {
        "value": _encoded(value),
        "key": _encoded(key),
        "partition": partition,
        "headers": [[name, _encoded(content)] for name, content in pairs],
        "timestamp_ms": timestamp_ms,
    }


def from_json(topic: str, partition: int, answer: Mapping[str, Any]) -> Record:
    """Convert a record from the JSON of the control server."""
    return Record(
        topic,
        partition,
        answer["offset"],
        _decoded(answer["key"]),
        _decoded(answer["value"]),
        tuple((name, _decoded(value)) for name, value in answer["headers"]),
        answer["timestamp_ms"],
    )


def _encoded(content: Content) -> str | None:
    if content is None:
        return None
    if isinstance(content, str):
        content = content.encode()
    elif not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"bytes, a text or None can be sent, not {content!r}")
    return b2a_base64(content, newline=False).decode()


def _decoded(encoded: str | None) -> bytes | None:
    return None if encoded is None else a2b_base64(encoded)
