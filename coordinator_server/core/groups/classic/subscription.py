"""The subscribed topics of a group, decoded from its members' metadata.

JoinGroup metadata are opaque bytes. The coordinator decodes them only for protocol type "consumer",
to find the offsets that are still needed. Malformed metadata means that the topics are unknown; in
Kafka some malformed metadata blocks the group. Source: ClassicGroup.computeSubscribedTopics.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from protocol.codec import decoder
from protocol.consumer_protocol import ConsumerProtocolSubscription
from protocol.errors import ProtocolError

SUBSCRIPTIONS_KEPT, KEPT_BYTES = 1024, 4096
"""The number of cached subscriptions, and their largest size in bytes."""

_VERSION_SIZE = 2


def subscribed_topics(metadata_of_members: Iterable[bytes]) -> frozenset[str] | None:
    """Return the union of the members' topics, or None if a subscription is malformed.

    Metadata is decoded as version 0, the prefix of every version.
    """
    distinct: set[frozenset[str]] = set()
    for metadata in metadata_of_members:
        topics = _topics_kept(metadata) if len(metadata) <= KEPT_BYTES else _topics(metadata)
        if topics is None:
            return None
        distinct.add(topics)
    return distinct.pop() if len(distinct) == 1 else frozenset().union(*distinct)


def _topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of one subscription, or None if it is malformed."""
    if len(metadata) < _VERSION_SIZE or metadata[0] & 0x80:
        return None  # the version is missing or negative
    try:
        subscription, _ = decoder(ConsumerProtocolSubscription, 0)(metadata, _VERSION_SIZE)
    except ProtocolError:
        return None
    return frozenset(subscription.topics)


_topics_kept = lru_cache(SUBSCRIPTIONS_KEPT)(_topics)
