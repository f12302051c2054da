"""The metadata in JoinGroup and the assignments in SyncGroup of consumers (ConsumerProtocol).

The bytes are an int16 version and the fields. A version newer than ours is decoded as our newest,
because later versions only append fields. The group coordinator decodes these bytes only to
describe groups and to find the topics of a group; clients compute the assignments.
"""

from __future__ import annotations

from struct import Struct
from typing import TypeVar

from protocol.codec import decoder, encoder
from protocol.errors import ProtocolError
from protocol.schema import ARRAY, BYTES, INT32, STRING, Message, field

_INT16 = Struct(">h")


class TopicPartition(Message):
    """Partitions of one topic."""

    topic: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    """The topics that a member subscribes to, and the partitions that it owns.

    Version 1 adds the owned partitions (KIP-429), 2 the generation they are from (KIP-792), 3 the
    rack (KIP-881).
    """

    topics: list[str] = field(ARRAY(STRING))
    user_data: bytes | None = field(BYTES, nullable_since=0, default=None)
    owned_partitions: list[TopicPartition] = field(ARRAY(TopicPartition), since=1)
    generation_id: int = field(INT32, since=2, default=-1)
    rack_id: str | None = field(STRING, since=3, nullable_since=3, default=None)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    """The partitions assigned to a member; all versions have the same fields."""

    assigned_partitions: list[TopicPartition] = field(ARRAY(TopicPartition))
    user_data: bytes | None = field(BYTES, nullable_since=0, default=None)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Decode a subscription. Raises ProtocolError if the bytes are malformed."""
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Decode an assignment. Raises ProtocolError if the bytes are malformed."""
    return _decode(ConsumerProtocolAssignment, data)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = 3) -> bytes:
    """Encode a subscription, after its version."""
    return _INT16.pack(version) + encoder(ConsumerProtocolSubscription, version)(subscription)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = 3) -> bytes:
    """Encode an assignment, after its version."""
    return _INT16.pack(version) + encoder(ConsumerProtocolAssignment, version)(assignment)


M = TypeVar("M", bound=Message)


def _decode(message_type: type[M], data: bytes) -> M:
    return decoder(message_type, version_of(data))(data, 2)[0]


def version_of(data: bytes) -> int:
    """Return the version in these bytes, or the newest version known here if that is older.

    Subscriptions and assignments have the same versions. Raises ProtocolError if the version is
    missing or negative.
    """
    if len(data) < 2:
        raise ProtocolError("no version")
    version: int = _INT16.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"version {version}")
    return min(version, ConsumerProtocolAssignment.VERSIONS[1])
