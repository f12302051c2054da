"""The vectorised decoder agrees with a slow one on any bytes, and never raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.decode import decode_arrow
from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.consumer_group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordedMember,
    encode_key,
    encode_value,
)
from tests.pipeline.decode.oracle import expected, raw_batch, without_wording

DATA = Path(__file__).parents[2] / "data"
Pair = tuple[bytes | None, bytes | None]

text = st.text(max_size=12)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
uuid = st.just(bytes(16)) | st.binary(min_size=16, max_size=16)
short_bytes = st.binary(max_size=20)
tombstone = st.none()


@st.composite
def commit(draw: st.DrawFn) -> Pair:
    """Draw a commit or its removal."""
    key = OffsetCommitKey(group=draw(text), topic=draw(text), partition=draw(int32))
    value = OffsetCommitValue(
        offset=draw(int64),
        leader_epoch=draw(int32),
        metadata=draw(text | st.text(min_size=120, max_size=300)),
        commit_timestamp=draw(int64),
        expire_timestamp=draw(int64),
        topic_id=draw(uuid),
    )
    encoded = encode_value(value, draw(st.integers(0, 4)))
    return encode_key(key), draw(tombstone | st.just(encoded))


@st.composite
def legacy_commit(draw: st.DrawFn) -> Pair:
    """Draw a commit or removal in the format of brokers before 0.9."""
    key = LegacyOffsetCommitKey(group=draw(text), topic=draw(text), partition=draw(int32))
    value = LegacyOffsetCommitValue(offset=draw(int64), metadata=draw(text), commit_timestamp=1)
    return encode_key(key), draw(tombstone | st.just(encode_value(value, 0)))


@st.composite
def member(draw: st.DrawFn) -> RecordedMember:
    """Draw a member; its subscription and assignment may be malformed."""
    held = [TopicPartition(topic=draw(text), partitions=draw(st.lists(int32, max_size=3)))]
    subscription = ConsumerProtocolSubscription(topics=[draw(text)], owned_partitions=held)
    assignment = ConsumerProtocolAssignment(assigned_partitions=held)
    made = encode_subscription(subscription, draw(st.integers(0, 3)))
    return RecordedMember(
        member_id=draw(text),
        group_instance_id=draw(st.none() | text),
        client_id=draw(text),
        client_host=draw(text),
        rebalance_timeout=draw(int32),
        session_timeout=draw(int32),
        subscription=draw(st.just(made) | short_bytes),
        assignment=draw(st.just(encode_assignment(assignment)) | short_bytes),
    )


@st.composite
def group_metadata(draw: st.DrawFn) -> Pair:
    """Draw a record of a classic group."""
    value = GroupMetadataValue(
        protocol_type=draw(st.just("consumer") | text),
        generation=draw(int32),
        protocol=draw(st.none() | text),
        leader=draw(st.none() | text),
        current_state_timestamp=draw(int64),
        members=draw(st.lists(member(), max_size=2)),
    )
    encoded = encode_value(value, draw(st.integers(0, 4)))
    key = encode_key(GroupMetadataKey(group=draw(text)))
    return key, draw(tombstone | st.just(encoded))


@st.composite
def modern(draw: st.DrawFn) -> Pair:
    """Draw a record of a KIP-848 group."""
    if draw(st.booleans()):
        epoch = ConsumerGroupMetadataValue(epoch=draw(int32), metadata_hash=draw(int64))
        return encode_key(ConsumerGroupMetadataKey(group_id=draw(text))), encode_value(epoch, 0)
    key = ConsumerGroupRegularExpressionKey(group_id=draw(text), regular_expression=draw(text))
    value = ConsumerGroupRegularExpressionValue(topics=[draw(text)], version=1, timestamp=2)
    return encode_key(key), draw(tombstone | st.just(encode_value(value, 0)))


@st.composite
def by_key_alone(draw: st.DrawFn) -> Pair:
    """Draw records of share, streams and unknown types, with one or two strings in the key."""
    words = [draw(text).encode() for _ in range(draw(st.integers(1, 2)))]
    behind = b"".join(len(word).to_bytes(2, "big") + word for word in words)
    number = draw(st.sampled_from([*range(9, 25), 99]))
    return number.to_bytes(2, "big") + behind, draw(tombstone | short_bytes)


@st.composite
def damaged(draw: st.DrawFn) -> Pair:
    """Draw a record with a changed byte, cut off, or with added bytes."""
    pair = list(draw(records))
    place = draw(st.integers(0, 1))
    data = bytearray(pair[place] or b"")
    at = draw(st.integers(0, len(data)))
    how = draw(st.sampled_from(["change", "cut", "append"]))
    if how == "cut":
        del data[at:]
    elif how == "append":
        data += draw(st.binary(min_size=1, max_size=4))
    elif at < len(data):
        data[at] = draw(st.integers(0, 255))
    pair[place] = bytes(data)
    return pair[0], pair[1]


records = st.one_of(commit(), legacy_commit(), group_metadata(), modern(), by_key_alone())
anything: st.SearchStrategy[Pair] = st.tuples(st.none() | short_bytes, st.none() | short_bytes)


def assert_agrees(pairs: list[Pair]) -> None:
    """Check that both decoders give the same rows for all records."""
    decoded = [without_wording(row) for row in decode_arrow(raw_batch(pairs)).to_pylist()]
    assert decoded == [expected(at, *pair) for at, pair in enumerate(pairs)]


@settings(max_examples=150, deadline=None)
@given(st.lists(records | damaged() | anything, max_size=12))
def test_any_record_is_decoded_as_the_slow_decoder_does(pairs: list[Pair]) -> None:
    """A batch of valid, damaged and meaningless records is decoded as by the slow decoder."""
    assert_agrees(pairs)


def test_every_cut_and_every_changed_byte() -> None:
    """Every prefix and every changed byte of a version 4 commit is decoded as by the slow one."""
    key = encode_key(OffsetCommitKey(group="grüße", topic="t", partition=7))
    value = encode_value(
        OffsetCommitValue(offset=5, leader_epoch=3, metadata="m", topic_id=bytes(range(16))), 4
    )
    pairs: list[Pair] = [(key, value[:at]) for at in range(len(value))]
    pairs += [(key[:at], value) for at in range(len(key))]
    for data, is_key in ((key, True), (value, False)):
        for at in range(len(data)):
            for byte in (0, 1, 0x7F, 0x80, 0xFF):
                changed = data[:at] + bytes((byte,)) + data[at + 1 :]
                pairs.append((changed, value) if is_key else (key, changed))
    assert_agrees(pairs)


@pytest.mark.parametrize("tags", ["0100", "0203aaaaaa0101bb", "010010" + "01" * 16, "018000"])
def test_tagged_fields_of_any_kind(tags: str) -> None:
    """Unknown tags are skipped, and topic ids and long varints are read."""
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
    value = encode_value(OffsetCommitValue(offset=1), 4)[:-1]
    topic_id = bytes(range(1, 17))
    two = bytes.fromhex("0205000010") + topic_id
    twice = bytes.fromhex("020010") + bytes(16) + bytes.fromhex("0010") + topic_id
    assert_agrees([(key, value + bytes.fromhex(tags)), (key, value + two), (key, value + twice)])


def test_group_ids_of_any_utf8_and_of_none() -> None:
    """Malformed UTF-8 is replaced as Java replaces it."""
    names = ["", "日本", "😀", "\x00", "a\u0301", "\ud7ff"]
    raws = [name.encode() for name in names] + [b"\xff", b"a\xed\xa0\x80b", b"\xc3", b"\xf0\x9f"]
    pairs: list[Pair] = []
    for raw in raws:
        key = b"\x00\x01" + len(raw).to_bytes(2, "big") + raw + b"\x00\x01t" + bytes(4)
        pairs.append((key, encode_value(OffsetCommitValue(offset=1), 3)))
    assert_agrees(pairs)
    assert decode_arrow(raw_batch(pairs)).column("group").to_pylist()[6:8] == ["\ufffd", "a\ufffdb"]


def test_a_slice_of_a_batch_is_decoded_as_the_rows_it_has() -> None:
    """A slice of an Arrow batch, which shares buffers at an offset, is decoded correctly."""
    keys = [encode_key(OffsetCommitKey(group=f"g{n}", topic="t", partition=n)) for n in range(5)]
    values = [encode_value(OffsetCommitValue(offset=n), 4) for n in range(5)]
    whole = raw_batch(list(zip(keys, values, strict=True)))
    assert decode_arrow(whole.slice(2, 2)).to_pylist() == decode_arrow(whole).to_pylist()[2:4]


@pytest.mark.parametrize("segments", ["segments", "segments-4.1"])
def test_the_segments_of_a_real_kafka(segments: str) -> None:
    """Every record of Kafka's offsets topics is decoded without a problem, as by the slow one."""
    pairs: list[Pair] = []
    for path in sorted((DATA / segments).glob("__consumer_offsets-*/*.log")):
        data = path.read_bytes()
        for header in iterate_batches(data):
            if not header.is_control:
                pairs += [(one.key, one.value) for one in iterate_records(data, header)]
    assert len(pairs) > 50
    assert_agrees(pairs)
    decoded = decode_arrow(raw_batch(pairs))
    assert set(decoded.column("problem").to_pylist()) == {None}
    assert {"offset_commit", "group_metadata", "consumer_group_metadata"} <= set(
        decoded.column("kind").to_pylist()
    )


def test_reasons_name_what_is_wrong() -> None:
    """The reason for an unknown type or version has its number."""
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
    decoded = decode_arrow(raw_batch([(b"\x00\x63", b""), (key, b"\x00\x09"), (None, b"x")]))
    assert decoded.column("problem").to_pylist() == [
        "record type 99 is not known",
        "value version 9 of an offset commit is not known",
        "there is no key",
    ]
    assert decoded.column("key_hex").to_pylist() == ["0063", key.hex(), None]
    assert decoded.column("value_hex").to_pylist() == ["", "0009", "78"]
