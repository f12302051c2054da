"""The hash of the topics that a group reads: the group epoch rises when it changes.

It is in the group's epoch record, so it has to be Kafka's own: XXH3 of 64 bits over what hash4j
writes for each value. Source: Kafka's Utils.computeTopicHash and computeGroupHash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct, pack
from typing import TYPE_CHECKING

from coordinator_server.core.groups.pace import Pace

if TYPE_CHECKING:
    from coordinator_server.core.groups.settings import KnownTopic, TopicsView
    from coordinator_server.steps import Computation

_FORMAT = 0  # of what is hashed; Kafka calls it a magic byte
_INT64 = Struct("<q")
_INT32 = Struct("<i")


_CACHED_TOPICS = 65_536
"""Kafka's TopicHashCache keeps them as well: groups read the same topics again and again."""


def metadata_hash(names: Iterable[str], topics: TopicsView) -> Computation[int]:
    """The hash of the topics of these names, a signed 64-bit number; 0 if none of them exists."""
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
    order = None if all(map(str.isascii, known)) else _java_order  # as names of topics are
    for name in sorted(known, key=order):
        data += _INT64.pack(_topic_hash(known[name], topics.racks))
        if pace.is_due():
            yield
    return _xxh3(data)


def _topic_hash(topic: KnownTopic, racks: Mapping[int, str]) -> int:
    """Format, id, name, number of partitions; then each partition with the racks of its brokers."""
    if not racks:
        return _hash_without_racks(topic.topic_id, topic.name, len(topic.partitions))
    data = _front(topic.topic_id, topic.name, len(topic.partitions))
    for index, partition in enumerate(topic.partitions):
        data += _INT32.pack(index)
        for rack in sorted((racks[one] for one in partition.replicas), key=_java_order):
            data += _INT32.pack(len(rack.encode("utf-16-le")) // 2)
            _put_text(data, rack)
    return _xxh3(data)


@lru_cache(_CACHED_TOPICS)
def _hash_without_racks(topic_id: bytes, name: str, count: int) -> int:
    return _xxh3(_front(topic_id, name, count) + pack(f"<{count}i", *range(count)))


def _front(topic_id: bytes, name: str, count: int) -> bytearray:
    data = bytearray([_FORMAT])
    data += topic_id[7::-1] + topic_id[:7:-1]  # two longs, little end first
    _put_text(data, name)
    data += _INT32.pack(count)
    return data


def _put_text(data: bytearray, text: str) -> None:
    """A string as hash4j puts it: its UTF-16 units, then how many."""
    units = text.encode("utf-16-le")
    data += units
    data += _INT32.pack(len(units) // 2)


def _java_order(text: str) -> bytes:
    """Java compares strings by UTF-16 units."""
    return text.encode("utf-16-be")


def _xxh3(data: bytearray) -> int:
    from xxhash import xxh3_64_intdigest

    hashed: int = xxh3_64_intdigest(bytes(data))
    return hashed - (hashed >> 63 << 64)
