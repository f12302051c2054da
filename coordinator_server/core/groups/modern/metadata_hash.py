"""The hash of a group's subscribed topics; the group epoch rises when the hash changes.

The hash is stored in the group's epoch record, so it must equal Kafka's: 64-bit XXH3 over the
values as hash4j encodes them. Source: Kafka's Utils.computeTopicHash and computeGroupHash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct, pack
from typing import TYPE_CHECKING

from coordinator_server.core.groups.effects import Pace

if TYPE_CHECKING:
    from coordinator_server.core.groups.settings import KnownTopic, TopicsView
    from coordinator_server.steps import Computation

_FORMAT = 0  # version of the hashed format; Kafka calls it a magic byte
_INT64 = Struct("<q")
_INT32 = Struct("<i")


_CACHED_TOPICS = 65_536
"""The size of the topic hash cache, like Kafka's TopicHashCache."""


def metadata_hash(names: Iterable[str], topics: TopicsView) -> Computation[int]:
    """Return the hash of the topics with these names (signed 64-bit), or 0 if none exists."""
    pace = Pace()
    known: dict[str, KnownTopic] = {}
    for name in names:
        topic = topics.topic(name)
        if topic is not None:
            known[name] = topic
        if pace.is_due():
            yield
    if not known:
        return 0
    data = bytearray()
    order = None if all(map(str.isascii, known)) else _java_order  # valid topic names are ASCII
    for name in sorted(known, key=order):
        data += _INT64.pack(_topic_hash(known[name], topics.racks))
        if pace.is_due():
            yield
    return _xxh3(data)


def _topic_hash(topic: KnownTopic, racks: Mapping[int, str]) -> int:
    """Return the hash of format, id, name, partition count, and each partition with its racks."""
    if not racks:
        return _hash_without_racks(topic.topic_id, topic.name, len(topic.partitions))
    data = _front(topic.topic_id, topic.name, len(topic.partitions))
    for index, partition in enumerate(topic.partitions):
        data += _INT32.pack(index)
        for rack in sorted((racks[replica] for replica in partition.replicas), key=_java_order):
            data += _INT32.pack(len(rack.encode("utf-16-le")) // 2)
            _put_text(data, rack)
    return _xxh3(data)


@lru_cache(_CACHED_TOPICS)
def _hash_without_racks(topic_id: bytes, name: str, count: int) -> int:
    return _xxh3(_front(topic_id, name, count) + pack(f"<{count}i", *range(count)))


def _front(topic_id: bytes, name: str, count: int) -> bytearray:
    data = bytearray([_FORMAT])
    data += topic_id[7::-1] + topic_id[:7:-1]  # the topic id as two little-endian longs
    _put_text(data, name)
    data += _INT32.pack(count)
    return data


def _put_text(data: bytearray, text: str) -> None:
    """Append a string as hash4j encodes it: its UTF-16 units, then their number."""
    units = text.encode("utf-16-le")
    data += units
    data += _INT32.pack(len(units) // 2)


def _java_order(text: str) -> bytes:
    """Return a sort key that orders strings like Java: by UTF-16 units."""
    return text.encode("utf-16-be")


def _xxh3(data: bytearray) -> int:
    from xxhash import xxh3_64_intdigest

    hashed: int = xxh3_64_intdigest(bytes(data))
    return hashed - (hashed >> 63 << 64)
