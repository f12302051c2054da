"""Metadata and assignments of classic consumers (ConsumerProtocolSubscription and -Assignment)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tests.conformance.wire import Reader

Shares = Mapping[str, Sequence[int]]
"""Partitions by topic."""

_MOST_TOPICS = 100


class Raw(bytes):
    """Metadata that a member sends as it is; other metadata becomes a subscription."""


def subscription(
    topics: Sequence[str],
    version: int = 1,
    owned: Shares | None = None,
    generation: int = -1,
    rack_id: str | None = None,
    user_data: bytes | None = None,
) -> Raw:
    """Return a ConsumerProtocolSubscription of a version."""
    data = struct.pack(">hi", version, len(topics)) + b"".join(map(_string, topics))
    data += _bytes(user_data)
    if version >= 1:
        data += _partitions(owned or {})
    if version >= 2:
        data += struct.pack(">i", generation)
    if version >= 3:
        data += struct.pack(">h", -1) if rack_id is None else _string(rack_id)
    return Raw(data)


def unwrap(data: bytes) -> tuple[int, list[str], bytes | None] | None:
    """Return version, topics and user data of a subscription of version 0 or 1.

    Return None for any other bytes, and for subscriptions with owned partitions.
    """
    reader = Reader(data)
    try:
        version, count = reader.number(">h"), min(reader.number(">i"), _MOST_TOPICS)
        topics = [reader.take(reader.number(">h")).decode("ascii") for _ in range(count)]
        size = reader.number(">i")
        user_data = None if size < 0 else reader.take(size)
        if version >= 1 and reader.number(">i") != 0:
            return None
    except ValueError:
        return None
    is_whole = reader.position == len(data)
    return (version, topics, user_data) if version in (0, 1) and is_whole else None


def assignment(share: Shares, version: int = 1, user_data: bytes | None = None) -> bytes:
    """Return a ConsumerProtocolAssignment of a version."""
    return struct.pack(">h", version) + _partitions(share) + _bytes(user_data)


def partitions(data: bytes) -> dict[str, list[int]]:
    """Return the partitions of a ConsumerProtocolAssignment; none for no bytes."""
    if not data:
        return {}
    (count,), at = struct.unpack_from(">i", data, 2), 6
    found: dict[str, list[int]] = {}
    for _ in range(count):
        (length,) = struct.unpack_from(">h", data, at)
        topic = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (number,) = struct.unpack_from(">i", data, at)
        found[topic] = sorted(struct.unpack_from(f">{number}i", data, at + 4))
        at += 4 + 4 * number
    return found


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _bytes(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _partitions(share: Shares) -> bytes:
    parts = [
        _string(topic) + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
        for topic, indexes in share.items()
    ]
    return struct.pack(">i", len(share)) + b"".join(parts)
