"""Which topics a group reads, taken from its members' metadata.

Members put opaque bytes into JoinGroup; only of protocol type "consumer" does the coordinator look
inside, to see which offsets are still needed. Junk must never hurt: Kafka lets some of it
wedge the group, here it only means "not known". Source: ClassicGroup.computeSubscribedTopics.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from protocol.codec import decoder
from protocol.consumer_protocol import ConsumerProtocolSubscription
from protocol.errors import ProtocolError

SUBSCRIPTIONS_KEPT, KEPT_BYTES = 1024, 4096
"""Subscriptions that are read once, and how long they may be: members mostly have the same."""

_VERSION_SIZE = 2


def subscribed_topics(metadata_of_members: Iterable[bytes]) -> frozenset[str] | None:
    """The union of the members' topics, None when one cannot be read.

    Read as version 0, which every version begins with.
    """
    distinct: set[frozenset[str]] = set()
    for metadata in metadata_of_members:
        topics = _topics_kept(metadata) if len(metadata) <= KEPT_BYTES else _topics(metadata)
        if topics is None:
            return None
        distinct.add(topics)
    return distinct.pop() if len(distinct) == 1 else frozenset().union(*distinct)


def _topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of one subscription; None when it cannot be read."""
    if len(metadata) < _VERSION_SIZE or metadata[0] & 0x80:
        return None  # no version, or a negative one
    try:
        subscription, _ = decoder(ConsumerProtocolSubscription, 0)(metadata, _VERSION_SIZE)
    except ProtocolError:
        return None
    return frozenset(subscription.topics)


_topics_kept = lru_cache(SUBSCRIPTIONS_KEPT)(_topics)
