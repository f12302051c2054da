"""Keys and values of the offsets log, consumer protocol and hashes: cases without vectors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import protocol
from protocol import consumer_protocol, hashing, offsets_log, varint
from protocol.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from protocol.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from protocol.errors import ProtocolError
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
)
from protocol.schema import Message
from protocol.share_group_records import ShareGroupMemberMetadataKey, ShareGroupMetadataKey
from protocol.streams_group_records import StreamsGroupMetadataKey, StreamsGroupTopologyKey


def test_offset_key_and_value() -> None:
    """A committed offset has Kafka's bytes: type 1 and version 4."""
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert offsets_log.encode_key(key) == bytes.fromhex("0001 000167 000174 00000003")
    value = OffsetCommitValue(offset=9, metadata="", commit_timestamp=5)
    data = offsets_log.encode_value(value, offsets_log.OFFSET_COMMIT_VALUE_VERSION)
    assert data == bytes.fromhex("0004 0000000000000009 ffffffff 01 0000000000000005 00")
    decoded = offsets_log.decode_key(offsets_log.encode_key(key))
    assert decoded == key
    assert offsets_log.decode_value(decoded, data) == value


def test_tombstone() -> None:
    """A null value is a tombstone for any key."""
    assert offsets_log.decode_value(GroupMetadataKey(group="g"), None) is None


def test_unknown_record_types_are_kept() -> None:
    """A key of an unknown type keeps its bytes, and its value is not decoded."""
    for data in (bytes.fromhex("00180001"), bytes.fromhex("7fff")):
        key = offsets_log.decode_key(data)
        assert key == UnknownKey(int.from_bytes(data[:2], "big"), data)
        assert hash(key) == hash(UnknownKey(0, data))
        assert offsets_log.decode_value(key, b"anything") is None


def test_records_of_other_kinds_are_imported_when_they_come() -> None:
    """The modules for records of other kinds of groups are imported on first use, one by one."""
    code = (
        "import sys; from protocol.offsets_log import decode_key, group_of;"
        "shown = lambda: print(sorted(n for n in sys.modules if n.endswith('_group_records')));"
        "keys = [b'\\0\\2\\0\\1g', b'\\0\\x0b\\0\\1g', b'\\0\\x11\\0\\1g', b'\\0\\3\\0\\1g'];"
        "[(print(group_of(decode_key(key))), shown()) for key in keys]"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(protocol.__file__).parent.parent,
    )
    consumer, share, streams = (
        f"protocol.{kind}_group_records" for kind in ("consumer", "share", "streams")
    )
    imported: list[list[str]] = [[], [share], [share, streams], [consumer, share, streams]]
    assert shown.stdout.splitlines() == [line for names in imported for line in ("g", str(names))]


@pytest.mark.parametrize(
    ("key", "record_type"),
    [
        (ShareGroupMemberMetadataKey(group_id="g", member_id="m"), 10),
        (ShareGroupMetadataKey(group_id="g"), 11),
        (StreamsGroupMetadataKey(group_id="g"), 17),
        (StreamsGroupTopologyKey(group_id="g"), 23),
    ],
)
def test_keys_of_other_kinds(key: Message, record_type: int) -> None:
    """Keys of other group kinds start with their type, also before the kind's first use."""
    data = offsets_log.encode_key(key)
    assert int.from_bytes(data[:2], "big") == record_type
    assert offsets_log.decode_key(data) == key
    assert offsets_log.group_of(key) == "g"


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x01", b"\x00\x02\x00\x05a"])
def test_broken_keys_are_refused(data: bytes) -> None:
    """A key that cannot be decoded raises ProtocolError."""
    with pytest.raises(ProtocolError):
        offsets_log.decode_key(data)


@pytest.mark.parametrize(
    "data", [b"", b"\x00\x09" + bytes(50), b"\xff\xff" + bytes(50), b"\x00\x03"]
)
def test_broken_values_are_refused(data: bytes) -> None:
    """A value of an unknown version, or that cannot be decoded, raises ProtocolError."""
    with pytest.raises(ProtocolError):
        offsets_log.decode_value(OffsetCommitKey(), data)


def test_group_value_versions() -> None:
    """Fields that a version lacks are decoded as their default."""
    value = GroupMetadataValue(protocol_type="consumer", generation=4, current_state_timestamp=7)
    for version, timestamp in ((0, -1), (1, -1), (2, 7), (3, 7), (4, 7)):
        data = offsets_log.encode_value(value, version)
        decoded = offsets_log.decode_value(GroupMetadataKey(), data)
        assert isinstance(decoded, GroupMetadataValue)
        assert (decoded.generation, decoded.current_state_timestamp) == (4, timestamp)


def test_nullable_tagged_struct() -> None:
    """The classic part of a KIP-848 member is a tagged field that may be null."""
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    assert offsets_log.decode_key(offsets_log.encode_key(key)) == key
    for classic in (None, ClassicMemberMetadata(session_timeout_ms=5)):
        value = ConsumerGroupMemberMetadataValue(classic_member_metadata=classic)
        assert offsets_log.decode_value(key, offsets_log.encode_value(value, 0)) == value


def test_newer_subscriptions_are_read_as_the_newest_known() -> None:
    """Unknown versions of a subscription are read as version 3, as versions only append fields."""
    subscription = ConsumerProtocolSubscription(
        topics=["a"],
        owned_partitions=[TopicPartition(topic="a", partitions=[1])],
        generation_id=4,
        rack_id="r",
    )
    data = consumer_protocol.encode_subscription(subscription)
    newer = b"\x00\x63" + data[2:] + b"appended"
    assert consumer_protocol.decode_subscription(newer) == subscription


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00"])
def test_junk_subscriptions_are_refused(data: bytes) -> None:
    """Invalid subscriptions and assignments raise ProtocolError."""
    with pytest.raises(ProtocolError):
        consumer_protocol.decode_subscription(data)
    with pytest.raises(ProtocolError):
        consumer_protocol.decode_assignment(data)


def test_smallest_hash_is_partition_zero() -> None:
    """The smallest int has no positive counterpart; it maps to partition 0, as in Kafka."""
    text = "polygenelubricants"
    assert hashing.java_hash(text) == -(2**31)
    assert hashing.partition_for(text, 50) == 0


def test_too_long_varints_are_refused() -> None:
    """Varints that are too long are refused; truncated varints raise IndexError."""
    for decode, length in (
        (varint.decode_unsigned_varint, 5),
        (varint.decode_varint, 5),
        (varint.decode_varlong, 10),
    ):
        with pytest.raises(ProtocolError):
            decode(b"\x80" * length + b"\x00", 0)
        with pytest.raises(IndexError):
            decode(b"\x80" * (length - 1), 0)
