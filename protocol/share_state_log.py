"""Keys and values of `__share_group_state`, as Kafka writes and reads them (KIP-932).

A key starts with its record type as int16, a value with its version; a null value is a tombstone.
The state of a share partition is its last snapshot with the later updates applied in order, so the
topic cannot be compacted. Both keys contain the share partition.
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
    """A range of offsets with one state: 0 Available, 2 Acknowledged or 4 Archived."""

    first_offset: int = field(INT64)
    last_offset: int = field(INT64)
    delivery_state: int = field(INT8)
    delivery_count: int = field(INT16)


class ShareSnapshotValue(Message, versions=(0, 0), flexible_since=0):
    """A snapshot of the state of a share partition; timestamps in ms.

    `delivery_complete_count`, since 4.3, counts offsets from the start offset on whose delivery is
    complete (KIP-1226); -1 if unknown.
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
    """Key type 1: changes of a share partition since its snapshot."""

    group_id: str = field(STRING)
    topic_id: bytes = field(UUID)
    partition: int = field(INT32)


class ShareUpdateValue(Message, versions=(0, 0), flexible_since=0):
    """An update to the snapshot with the same epoch; start offset -1 keeps the current one."""

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
    """Encode a key, after its record type."""
    record_type = 0 if isinstance(key, ShareSnapshotKey) else 1
    return _INT16.pack(record_type) + encoder(type(key), 0)(key)


def encode_share_state_value(value: ShareStateValue) -> bytes:
    """Encode a value, after its version."""
    return _INT16.pack(VALUE_VERSION) + encoder(type(value), VALUE_VERSION)(value)


def decode_share_state_key(data: bytes) -> ShareStateKey:
    """Return the key message of a record. Raises ProtocolError if the bytes are malformed."""
    record_type = leading_int16(data)
    if record_type not in RECORD_TYPES:
        raise ProtocolError(f"a share state key of type {record_type}")
    key, _ = decoder(RECORD_TYPES[record_type][0], 0)(data, 2)
    return key


def decode_share_state_value(key: ShareStateKey, data: bytes) -> tuple[ShareStateValue, int]:
    """Return the value message that belongs to `key`, and its version.

    Raises ProtocolError if the bytes are malformed.
    """
    version = leading_int16(data)
    value: ShareStateValue
    if isinstance(key, ShareSnapshotKey):
        value, _ = decoder(ShareSnapshotValue, version)(data, 2)
    else:
        value, _ = decoder(ShareUpdateValue, version)(data, 2)
    return value, version
