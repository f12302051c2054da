"""A content in Confluent's wire format, which waits for its decoding."""

from __future__ import annotations

from typing import Any, NamedTuple


class Framed(NamedTuple):
    """A content with a schema id: its form for people, the id, and the bytes behind the id."""

    shown: dict[str, Any]
    schema_id: int
    body: bytes
