"""Keys and values of `__share_group_state`: cases without recorded vectors."""

from __future__ import annotations

import pytest

from protocol.errors import ProtocolError
from protocol.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateKey,
    ShareStateValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
    decode_share_state_key,
    decode_share_state_value,
    encode_share_state_key,
    encode_share_state_value,
)

TOPIC_ID = bytes(15) + b"\x01"
BATCHES = [StateBatch(first_offset=9, last_offset=10, delivery_state=2, delivery_count=1)]


@pytest.mark.parametrize(
    ("key", "value", "record_type"),
    [
        (
            ShareSnapshotKey(group_id="g", topic_id=TOPIC_ID, partition=3),
            ShareSnapshotValue(start_offset=9, delivery_complete_count=2, state_batches=BATCHES),
            0,
        ),
        (
            ShareUpdateKey(group_id="g", topic_id=TOPIC_ID, partition=3),
            ShareUpdateValue(start_offset=-1, state_batches=BATCHES),
            1,
        ),
    ],
    ids=["snapshot", "update"],
)
def test_key_and_value(key: ShareStateKey, value: ShareStateValue, record_type: int) -> None:
    """The type starts the key, the version starts the value, and both can be decoded."""
    data = encode_share_state_key(key)
    assert data == record_type.to_bytes(2, "big") + b"\x00\x01g" + TOPIC_ID + b"\x00\x00\x00\x03"
    assert decode_share_state_key(data) == key
    encoded = encode_share_state_value(value)
    assert encoded[:2] == b"\x00\x00"
    assert decode_share_state_value(key, encoded) == (value, 0)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x02\x00\x01g", b"\xff\xff", b"\x00\x00\x00"])
def test_broken_keys_are_refused(data: bytes) -> None:
    """A key of another type, or that cannot be decoded, raises ProtocolError."""
    with pytest.raises(ProtocolError):
        decode_share_state_key(data)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01" + bytes(60), b"\x00\x00" + bytes(9)])
def test_broken_values_are_refused(data: bytes) -> None:
    """A value of an unknown version, or that cannot be decoded, raises ProtocolError."""
    for key in (ShareSnapshotKey(), ShareUpdateKey()):
        with pytest.raises(ProtocolError):
            decode_share_state_value(key, data)
