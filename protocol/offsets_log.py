"""Keys and values of `__consumer_offsets`, as Kafka writes and reads them.

A key starts with its record type as int16, a value with its version; a null value is a tombstone.
This module has the records of classic groups. Records of other groups are in separate modules,
which are imported with their first record. Keys of unknown types are decoded as `UnknownKey`, so
that a log with such keys can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from struct import Struct

from protocol.codec import decoder, encoder, leading_int16
from protocol.schema import ARRAY, BYTES, INT32, INT64, STRING, UUID, Message, field


class LegacyOffsetCommitKey(Message, versions=(0, 0)):
    """Key type 0: a committed offset in the format of very old brokers; read only."""

    group: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)


class LegacyOffsetCommitValue(Message, versions=(0, 0)):
    """The value of a LegacyOffsetCommitKey."""

    offset: int = field(INT64)
    metadata: str = field(STRING)
    commit_timestamp: int = field(INT64)


class OffsetCommitKey(Message, versions=(0, 0)):
    """Key type 1: the committed offset of one group and partition."""

    group: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)


class OffsetCommitValue(Message, versions=(0, 4), flexible_since=4):
    """A committed offset; timestamps in ms.

    Version 1 has an expiry time, version 3 a leader epoch, version 4 a topic id.
    """

    offset: int = field(INT64)
    leader_epoch: int = field(INT32, since=3, default=-1)
    metadata: str = field(STRING)
    commit_timestamp: int = field(INT64)
    expire_timestamp: int = field(INT64, since=1, until=1, default=-1)
    topic_id: bytes = field(UUID, since=4, tag=0)


class GroupMetadataKey(Message, versions=(0, 0)):
    """Key type 2: a classic group."""

    group: str = field(STRING)


class RecordedMember(Message):
    """A member of a classic group."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable_since=3, default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    rebalance_timeout: int = field(INT32, since=1, default=-1)
    session_timeout: int = field(INT32)
    subscription: bytes = field(BYTES)
    assignment: bytes = field(BYTES)


class GroupMetadataValue(Message, versions=(0, 4), flexible_since=4):
    """A classic group at the end of a rebalance. Timestamps and timeouts in ms."""

    protocol_type: str = field(STRING)
    generation: int = field(INT32)
    protocol: str | None = field(STRING, nullable_since=0)
    leader: str | None = field(STRING, nullable_since=0)
    current_state_timestamp: int = field(INT64, since=2, default=-1)
    members: list[RecordedMember] = field(ARRAY(RecordedMember))


class UnknownKey:
    """A key of an unknown record type; `data` is the complete key, including the type."""

    __slots__ = ("data", "record_type")

    def __init__(self, record_type: int, data: bytes) -> None:
        self.record_type = record_type
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownKey) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"UnknownKey(record_type={self.record_type}, data={self.data!r})"


# The versions that Kafka writes. An offset with its own expiry time is written as version 1.
OFFSET_COMMIT_VALUE_VERSION = 4
OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_METADATA_VALUE_VERSION = 3

_INT16 = Struct(">h")
_RECORD_TYPES: dict[int, tuple[type[Message], type[Message]]] = {
    0: (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
}
CONSUMER_GROUP_TYPES = frozenset((3, 4, 5, 6, 7, 8, 16))
SHARE_GROUP_TYPES = frozenset((10, 11, 12, 13, 14, 15))
STREAMS_GROUP_TYPES = frozenset((17, 19, 20, 21, 22, 23))
_MODULES = {
    **dict.fromkeys(CONSUMER_GROUP_TYPES, "protocol.consumer_group_records"),
    **dict.fromkeys(SHARE_GROUP_TYPES, "protocol.share_group_records"),
    **dict.fromkeys(STREAMS_GROUP_TYPES, "protocol.streams_group_records"),
}
"""The record types of other group types, and their modules."""
_CLASSIC_KEYS = frozenset(types[0] for types in _RECORD_TYPES.values())
"""The keys whose group id field is `group`; all others have `group_id`."""
_types_of_keys: dict[type[Message], int] = {
    types[0]: record_type for record_type, types in _RECORD_TYPES.items()
}


def decode_key(data: bytes) -> Message | UnknownKey:
    """Decode the key of a record. Raises ProtocolError if the bytes are malformed."""
    record_type = leading_int16(data)
    types = record_types(record_type)
    if types is None:
        return UnknownKey(record_type, data)
    key, _ = decoder(types[0], 0)(data, 2)
    return key


def decode_value(key: Message | UnknownKey, data: bytes | None) -> Message | None:
    """Decode the value of `key`; return None for a tombstone and for an UnknownKey.

    Raises ProtocolError if the bytes are malformed or the version is unknown.
    """
    if data is None or isinstance(key, UnknownKey):
        return None
    types = record_types(type_of_key(key))
    assert types is not None, key
    value, _ = decoder(types[1], leading_int16(data))(data, 2)
    return value


_Encode = Callable[[Message], bytes]
_key_encoders: dict[type[Message], tuple[bytes, _Encode]] = {}
_value_encoders: dict[tuple[type[Message], int], tuple[bytes, _Encode]] = {}


def encode_key(key: Message) -> bytes:
    """Encode a key, after its record type."""
    entry = _key_encoders.get(type(key))
    if entry is None:
        entry = _INT16.pack(type_of_key(key)), encoder(type(key), 0)
        _key_encoders[type(key)] = entry
    prefix, encode = entry
    return prefix + encode(key)


def encode_value(value: Message, version: int) -> bytes:
    """Encode a value in `version`, after the version."""
    entry = _value_encoders.get((type(value), version))
    if entry is None:
        entry = _INT16.pack(version), encoder(type(value), version)
        _value_encoders[type(value), version] = entry
    prefix, encode = entry
    return prefix + encode(value)


def group_of(key: Message) -> str:
    """Return the id of the group that a record belongs to."""
    # The field is named `group` in some key types and `group_id` in the others.
    name = "group" if type(key) in _CLASSIC_KEYS else "group_id"
    group_id: str = getattr(key, name)
    return group_id


def record_types(record_type: int) -> tuple[type[Message], type[Message]] | None:
    """Return the message classes of key and value of a record type; None if unknown."""
    if record_type in _MODULES and record_type not in _RECORD_TYPES:
        _load(_MODULES[record_type])
    return _RECORD_TYPES.get(record_type)


def _load(module: str) -> None:
    """Add the record types of a module."""
    types: dict[int, tuple[type[Message], type[Message]]] = import_module(module).RECORD_TYPES
    _RECORD_TYPES.update(types)
    _types_of_keys.update({pair[0]: number for number, pair in types.items()})


def type_of_key(key: Message) -> int:
    """Return the record type of a key message."""
    if type(key) not in _types_of_keys:
        _load(type(key).__module__)
    return _types_of_keys[type(key)]
