"""What consumers put into JoinGroup metadata and SyncGroup assignments (class ConsumerProtocol).

An int16 version, then the fields. A version newer than ours is read as our newest: later versions
only append fields. The group coordinator looks inside only to answer describes and to see which
topics a group reads; assignments are made by the clients.
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
    """What a member wants to read and owns now.

    Version 1 adds the owned partitions (KIP-429), 2 the generation they are from (KIP-792), 3 the
    rack (KIP-881).
    """

    topics: list[str] = field(ARRAY(STRING))
    user_data: bytes | None = field(BYTES, nullable_since=0, default=None)
    owned_partitions: list[TopicPartition] = field(ARRAY(TopicPartition), since=1)
    generation_id: int = field(INT32, since=2, default=-1)
    rack_id: str | None = field(STRING, since=3, nullable_since=3, default=None)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    """The partitions a member got; the same at all versions."""

    assigned_partitions: list[TopicPartition] = field(ARRAY(TopicPartition))
    user_data: bytes | None = field(BYTES, nullable_since=0, default=None)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """A subscription; ProtocolError when the bytes do not parse."""
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """An assignment; ProtocolError when the bytes do not parse."""
    return _decode(ConsumerProtocolAssignment, data)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = 3) -> bytes:
    """The bytes of a subscription, the version in front."""
    return _INT16.pack(version) + encoder(ConsumerProtocolSubscription, version)(subscription)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = 3) -> bytes:
    """The bytes of an assignment, the version in front."""
    return _INT16.pack(version) + encoder(ConsumerProtocolAssignment, version)(assignment)


M = TypeVar("M", bound=Message)


def _decode(message_type: type[M], data: bytes) -> M:
    return decoder(message_type, version_of(data))(data, 2)[0]


def version_of(data: bytes) -> int:
    """The version to read these bytes with, and to answer in: ours at most. ProtocolError if none.

    Subscriptions and assignments have the same versions.
    """
    if len(data) < 2:
        raise ProtocolError("no version")
    version: int = _INT16.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"version {version}")
    return min(version, ConsumerProtocolAssignment.VERSIONS[1])
