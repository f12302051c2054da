"""What follows from the members' protocols, computed in the plainest way."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_subscription,
    encode_subscription,
)
from protocol.errors import ProtocolError

Protocols = tuple[tuple[str, bytes], ...]


def elected(protocols_of_members: Iterable[Protocols]) -> set[str]:
    """The protocols that may win the vote; more than one in a tie."""
    lists = [[name for name, _ in protocols] for protocols in protocols_of_members]
    common = set.intersection(*(set(names) for names in lists))
    votes = [next(name for name in names if name in common) for names in lists]
    most = max(votes.count(name) for name in votes)
    return {name for name in votes if votes.count(name) == most}


def readable_topics(metadata_of_members: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that somebody subscribes to; None when a subscription cannot be read."""
    topics: set[str] = set()
    for metadata in metadata_of_members:
        try:
            topics.update(decode_subscription(metadata).topics)
        except ProtocolError:
            return None
    return frozenset(topics)


def subscribe(*topics: str) -> bytes:
    """The metadata of a member that reads `topics`."""
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 0)
