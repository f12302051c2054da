"""Records as tests write and read them, and their form on the way to the broker."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Content = bytes | str | None
"""A key, a value, the value of a header; a text is sent as UTF-8, None is Kafka's null."""

Headers = Mapping[str, Content] | Iterable[tuple[str, Content]]


class TopicPartition(NamedTuple):
    """A partition; equal to the plain tuple."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Record(NamedTuple):
    """One record as it is in the log."""

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
    """A record to be written. Raises TypeError for what is neither bytes nor text."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return {
        "value": _encoded(value),
        "key": _encoded(key),
        "partition": partition,
        "headers": [[name, _encoded(value)] for name, value in pairs],
        "timestamp_ms": timestamp_ms,
    }


def from_json(topic: str, partition: int, answer: Mapping[str, Any]) -> Record:
    """A record from the answer of the control server."""
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
