"""Both codecs accept and refuse the same odd bytes as the recorded Kafka."""

from __future__ import annotations

import pytest

from protocol.apis.create_partitions import CreatePartitionsRequest
from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.heartbeat import HeartbeatRequest
from protocol.apis.join_group import JoinGroupRequest
from protocol.apis.metadata import MetadataRequest
from protocol.apis.produce import ProduceRequest
from protocol.codec import decoder, encoder
from protocol.errors import ProtocolError
from protocol.headers import RequestHeader, decode_request_header
from protocol.schema import Message
from tests.codec.support import construct_verdict, generated_verdict

HEARTBEAT = HeartbeatRequest(group_id="orders", generation_id=3, member_id="m-1")
HEARTBEAT_V4 = encoder(HeartbeatRequest, 4)(HEARTBEAT)


def both(message_type: type[Message], version: int, data: bytes) -> Message | None:
    """Return the verdict of the two codecs, which must be equal."""
    ours = generated_verdict((message_type, version), data)
    assert construct_verdict((message_type, version), data) == ours
    return ours


def test_trailing_bytes_are_ignored() -> None:
    """Bytes after a message are ignored, and the decoder returns the offset where it stopped."""
    assert both(HeartbeatRequest, 4, HEARTBEAT_V4 + b"rest") == HEARTBEAT
    _, end = decoder(HeartbeatRequest, 4)(HEARTBEAT_V4 + b"rest", 0)
    assert end == len(HEARTBEAT_V4)


@pytest.mark.parametrize(
    "tags",
    [
        b"\x01\x07\x02ab",
        b"\x02\x07\x01a\x07\x01b",
        b"\x02\x09\x00\x03\x01c",
        b"\x01\xff\xff\xff\xff\x0f\x00",
        b"\x81\x00\x05\x00",
    ],
    ids=["unknown", "duplicate", "descending", "largest", "long count"],
)
def test_unknown_tags_are_skipped(tags: bytes) -> None:
    """Unknown tags are skipped, in any order and even if repeated."""
    assert both(HeartbeatRequest, 4, HEARTBEAT_V4[:-1] + tags) == HEARTBEAT


def test_known_tags_may_repeat_and_lie_about_their_size() -> None:
    """If a known tag repeats, its last value counts; the size of a known tag is ignored."""
    from protocol.apis.fetch import FetchRequest

    data = encoder(FetchRequest, 16)(FetchRequest(cluster_id="a"))
    one = b"\x00\x02\x02a"
    assert data.endswith(b"\x01" + one)
    twice = data[: -len(one) - 1] + b"\x02" + one + b"\x00\x63\x02b"
    assert both(FetchRequest, 16, twice) == FetchRequest(cluster_id="b")


def test_tag_beyond_the_end_is_refused() -> None:
    """A tagged field longer than the remaining bytes is refused, for any number of fields."""
    assert both(HeartbeatRequest, 4, HEARTBEAT_V4[:-1] + b"\x01\x07\x05ab") is None
    assert both(HeartbeatRequest, 4, HEARTBEAT_V4[:-1] + b"\xff\xff\xff\xff\x0f") is None


def test_negative_client_id_length_is_null() -> None:
    """A client id of length -5 counts as null, in both header versions."""
    plain = bytes.fromhex("000c000000000007fffb")
    expected = RequestHeader(api_key=12, correlation_id=7, client_id=None)
    assert decode_request_header(plain) == (expected, 10)
    assert both(RequestHeader, 1, plain) == expected
    flexible = bytes.fromhex("000c000400000007fffb0109026162")
    header, position = decode_request_header(flexible + b"body")
    assert (header.client_id, position) == (None, len(flexible))
    assert both(RequestHeader, 2, flexible) == header


def test_header_of_an_unknown_api_is_read() -> None:
    """The header of an unsupported API is read as version 1, for the log line."""
    header, position = decode_request_header(bytes.fromhex("03e70063000000070001610001"))
    assert (header.api_key, header.api_version, header.client_id, position) == (999, 99, "a", 11)


@pytest.mark.parametrize("data", ["", "000c", "000c00000000000700", "000c00000000000700ff61"])
def test_cut_header_is_refused(data: str) -> None:
    """A frame that ends inside its header is refused."""
    with pytest.raises(ProtocolError):
        decode_request_header(bytes.fromhex(data))


def test_boolean_two_is_true() -> None:
    """Any byte but zero decodes to true."""
    request = CreatePartitionsRequest(validate_only=True)
    data = encoder(CreatePartitionsRequest, 0)(request)
    assert both(CreatePartitionsRequest, 0, data[:-1] + b"\x02") == request


def test_invalid_utf8_becomes_the_replacement_character() -> None:
    """Bytes that are not valid UTF-8 decode to the replacement character."""
    read = both(FindCoordinatorRequest, 0, b"\x00\x03a\xffb")
    assert read == FindCoordinatorRequest(key="a\ufffdb")


@pytest.mark.parametrize(
    ("message_type", "version", "data"),
    [
        (HeartbeatRequest, 0, "ffff00000000000161"),
        (HeartbeatRequest, 4, "00000000000261000000"),
        (JoinGroupRequest, 0, "00016100000001000161000161ffffffff"),
        (JoinGroupRequest, 6, "02610000000100000001026100026100"),
        (MetadataRequest, 0, "ffffffff"),
    ],
)
def test_null_where_none_is_allowed_is_refused(
    message_type: type[Message], version: int, data: str
) -> None:
    """A null string or array is refused at versions where the field is not nullable."""
    assert both(message_type, version, bytes.fromhex(data) + bytes(20)) is None


def test_null_where_it_is_allowed() -> None:
    """Any negative length decodes to null for a nullable field."""
    for length in ("ffffffff", "80000000"):
        read = both(MetadataRequest, 1, bytes.fromhex(length))
        assert read == MetadataRequest(topics=None)
    assert both(MetadataRequest, 9, b"\x00\x01\x00\x00\x00") == MetadataRequest(topics=None)


@pytest.mark.parametrize("count", ["7fffffff", "00000003"])
def test_count_beyond_the_frame_is_refused(count: str) -> None:
    """A count above the remaining bytes is refused, so no memory is allocated for it."""
    assert both(MetadataRequest, 1, bytes.fromhex(count) + b"\x00\x00") is None
    records = bytes.fromhex("ffff000000000000000000010001610000000100000000") + b"\x7f\xff\xff\xff"
    assert both(ProduceRequest, 3, records) is None


def test_long_varints() -> None:
    """A varint has at most five bytes; a compact string has at most 32767 bytes."""
    assert both(FindCoordinatorRequest, 3, b"\x82\x80\x80\x80\x00a\x00\x00") == (
        FindCoordinatorRequest(key="a")
    )
    assert both(FindCoordinatorRequest, 3, b"\x82\x80\x80\x80\x80\x00a\x00\x00") is None
    longest = FindCoordinatorRequest(key="k" * 32767)
    data = encoder(FindCoordinatorRequest, 3)(longest)
    assert both(FindCoordinatorRequest, 3, data) == longest
    longer = encoder(FindCoordinatorRequest, 3)(FindCoordinatorRequest(key="k" * 32768))
    assert both(FindCoordinatorRequest, 3, longer) is None


def test_unknown_versions_are_refused() -> None:
    """A version that does not exist has no codec."""
    for version in (-1, 5):
        with pytest.raises(ProtocolError):
            decoder(HeartbeatRequest, version)
        with pytest.raises(ProtocolError):
            encoder(HeartbeatRequest, version)
        with pytest.raises(ProtocolError):
            HeartbeatRequest.at(version)
