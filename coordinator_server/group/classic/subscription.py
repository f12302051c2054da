"""Which topics a group reads, taken from its members' metadata.

Members put opaque bytes into JoinGroup; only of protocol type "consumer" does the coordinator look
inside, to see which offsets are still needed. Junk must never hurt: Kafka lets some of it
wedge the group, here it only means "not known". Source: ClassicGroup.computeSubscribedTopics.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.codec import decoder
from protocol.consumer_protocol import ConsumerProtocolSubscription
from protocol.errors import ProtocolError

_VERSION_SIZE = 2


def subscribed_topics(metadata_of_members: Iterable[bytes]) -> frozenset[str] | None:
    """The union of the members' topics, None when one cannot be read.

    Read as version 0, which every version begins with.
    """
    topics: set[str] = set()
    for metadata in metadata_of_members:
        if len(metadata) < _VERSION_SIZE or metadata[0] & 0x80:
            return None  # no version, or a negative one
        try:
            subscription, _ = decoder(ConsumerProtocolSubscription, 0)(metadata, _VERSION_SIZE)
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
