"""Protocol votes and subscriptions of a group, computed in the simplest way."""

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
    """Return the protocols that can win the vote; more than one in a tie."""
    lists = [[name for name, _ in protocols] for protocols in protocols_of_members]
    common = set.intersection(*(set(names) for names in lists))
    votes = [next(name for name in names if name in common) for names in lists]
    most = max(votes.count(name) for name in votes)
    return {name for name in votes if votes.count(name) == most}


def readable_topics(metadata_of_members: Iterable[bytes]) -> frozenset[str] | None:
    """Return the subscribed topics of all members; None if a subscription is unreadable."""
    topics: set[str] = set()
    for metadata in metadata_of_members:
        try:
            topics.update(decode_subscription(metadata).topics)
        except ProtocolError:
            return None
    return frozenset(topics)


def subscribe(*topics: str) -> bytes:
    """Return the metadata of a member that subscribes to `topics`."""
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 0)
