"""Keys and values of `__share_group_state`, as Kafka writes and reads them (KIP-932).

A key starts with its record type as int16, a value with its version; a null value is a tombstone.
The state of a share partition is its last snapshot and the updates that follow, in order: that is
why the topic is not compacted, and why both keys name the share partition.
"""

from __future__ import annotations

from struct import Struct

from protocol.codec import decoder, encoder, leading_int16
from protocol.errors import ProtocolError
from protocol.schema import ARRAY, INT8, INT16, INT32, INT64, STRING, UUID, Message, field

VALUE_VERSION = 0

_INT16 = Struct(">h")


class ShareSnapshotKey(Message, versions=(0, 0)):
    """Key type 0: the whole state of a share partition."""

    group_id: str = field(STRING)
    topic_id: bytes = field(UUID)
    partition: int = field(INT32)


class StateBatch(Message):
    """Offsets in one state. The delivery state is 0 Available, 2 Acknowledged, 4 Archived."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_state: int = field(INT8)
    delivery_count: int = field(INT16)


class ShareSnapshotValue(Message, versions=(0, 0), flexible_since=0):
    """All of a share partition; timestamps in ms.

    `delivery_complete_count` is since 4.3 of the offsets from the start offset on (KIP-1226), -1
    if it is not known.
    """

    snapshot_epoch: int = field(INT32)
    state_epoch: int = field(INT32)
    leader_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    delivery_complete_count: int = field(INT32, default=-1, tag=0)
    create_timestamp: int = field(INT64)
    write_timestamp: int = field(INT64)
    state_batches: list[StateBatch] = field(ARRAY(StateBatch))


class ShareUpdateKey(Message, versions=(0, 0)):
    """Key type 1: what has changed in a share partition since its snapshot."""

    group_id: str = field(STRING)
    topic_id: bytes = field(UUID)
    partition: int = field(INT32)


class ShareUpdateValue(Message, versions=(0, 0), flexible_since=0):
    """The changes, on the snapshot of that epoch; a start offset of -1 leaves it where it is."""

    snapshot_epoch: int = field(INT32)
    leader_epoch: int = field(INT32)
    start_offset: int = field(INT64)
    delivery_complete_count: int = field(INT32, default=-1, tag=0)
    state_batches: list[StateBatch] = field(ARRAY(StateBatch))


ShareStateKey = ShareSnapshotKey | ShareUpdateKey
ShareStateValue = ShareSnapshotValue | ShareUpdateValue

RECORD_TYPES: dict[int, tuple[type[ShareStateKey], type[ShareStateValue]]] = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}


def encode_share_state_key(key: ShareStateKey) -> bytes:
    """The bytes of a key, its record type in front."""
    record_type = 0 if isinstance(key, ShareSnapshotKey) else 1
    return _INT16.pack(record_type) + encoder(type(key), 0)(key)


def encode_share_state_value(value: ShareStateValue) -> bytes:
    """The bytes of a value, its version in front."""
    return _INT16.pack(VALUE_VERSION) + encoder(type(value), VALUE_VERSION)(value)


def decode_share_state_key(data: bytes) -> ShareStateKey:
    """The key message of a record; ProtocolError when the bytes are none."""
    record_type = leading_int16(data)
    if record_type not in RECORD_TYPES:
        raise ProtocolError(f"a share state key of type {record_type}")
    key, _ = decoder(RECORD_TYPES[record_type][0], 0)(data, 2)
    return key


def decode_share_state_value(key: ShareStateKey, data: bytes) -> tuple[ShareStateValue, int]:
    """The value message that belongs to `key`, and its version.

    ProtocolError when the bytes do not parse.
    """
    version = leading_int16(data)
    value: ShareStateValue
    if isinstance(key, ShareSnapshotKey):
        value, _ = decoder(ShareSnapshotValue, version)(data, 2)
    else:
        value, _ = decoder(ShareUpdateValue, version)(data, 2)
    return value, version
