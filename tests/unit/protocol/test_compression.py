"""Compression codecs: round trips, foreign frames, damage and bombs."""

from __future__ import annotations

import gzip
import random
import struct
import zlib

import cramjam
import lz4.frame
import pytest

from protocol import compression, large_payload
from protocol.compression import Compression, compress, decompress
from protocol.errors import ProtocolError
from protocol.large_payload import decompress_large, decompress_small
from protocol.lz4_frame import decompress_frame
from protocol.step_limit import StepLimit, TooLargeError

BIG = b"".join(number.to_bytes(4, "big") for number in range(50_000))
REAL = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", [b"", b"a", b"a" * 100_000, BIG], ids=["empty", "a", "as", "big"])
def test_round_trip(codec: Compression, data: bytes) -> None:
    """Compressed data decompresses to the same data, from bytes and from a memoryview."""
    packed = compress(codec, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(packed)) == data


def test_lz4_blocks_are_independent() -> None:
    """lz4 frames have version 1 and independent blocks, as Kafka's reader requires."""
    flags = compress(Compression.LZ4, BIG)[4]
    assert flags >> 6 == 1
    assert flags & 0x20


def test_foreign_frames_are_read() -> None:
    """Raw snappy, two gzip members, and lz4 frames with checksums can be read."""
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(BIG))) == BIG
    assert decompress(Compression.GZIP, gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"
    assert decompress(Compression.LZ4, bytes(cramjam.lz4.compress(BIG))) == BIG


@pytest.mark.parametrize("codec", REAL)
def test_damage_is_refused(codec: Compression) -> None:
    """Truncated or foreign compressed bytes raise ProtocolError."""
    packed = compress(codec, BIG)
    with pytest.raises(ProtocolError):
        decompress(codec, packed[: len(packed) // 2])
    with pytest.raises(ProtocolError):
        decompress(codec, b"\xffnothing of the kind")


@pytest.mark.parametrize("chunk", ["", "000001", "00000005", "ffffffff", "7fffffff00", "00000000"])
def test_xerial_chunks_are_checked(chunk: str) -> None:
    """A snappy chunk with a wrong length is refused; bytes too short for a length are ignored."""
    data = compress(Compression.SNAPPY, b"") + bytes.fromhex(chunk)
    if len(chunk) >= 8:
        with pytest.raises(ProtocolError):
            decompress(Compression.SNAPPY, data)
    else:
        assert decompress(Compression.SNAPPY, data) == b""


def test_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """gzip stops at the limit; snappy with a larger declared size is refused before allocation."""
    monkeypatch.setattr(compression, "MAX_DECOMPRESSED_BYTES", 1000)
    assert decompress(Compression.GZIP, gzip.compress(bytes(1000))) == bytes(1000)
    with pytest.raises(ProtocolError):
        decompress(Compression.GZIP, gzip.compress(bytes(1001)))
    with pytest.raises(ProtocolError):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"abc")


def test_damaged_zstd_data_is_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged zstd data that may exceed the limit is refused as damaged, not as too large."""
    packed = compress(Compression.ZSTD, bytes(1000))
    assert decompress_large(Compression.ZSTD, packed, 1000)[1] == 1000
    with pytest.raises(ProtocolError, match="damaged zstd data"):
        decompress_large(Compression.ZSTD, packed[:-1], 1000)
    with pytest.raises(TooLargeError):
        decompress_large(Compression.ZSTD, packed, 999)
    monkeypatch.setattr(large_payload, "MAX_DECOMPRESSED_BYTES", 999)
    with pytest.raises(ProtocolError, match="more than 999 bytes"):
        decompress_large(Compression.ZSTD, packed)


def test_gzip_is_plain_gzip() -> None:
    """Python's gzip can read our gzip data."""
    assert zlib.decompress(compress(Compression.GZIP, BIG), wbits=31) == BIG


def _lz4_blocks(count: int) -> bytes:
    block = struct.pack("<I", 0x8000_0001) + b"x"
    return bytes.fromhex("04224d18604082") + block * count + bytes(4)


MANY_PARTS = {
    "gzip members": (Compression.GZIP, gzip.compress(b"") * 100),
    "snappy chunks": (
        Compression.SNAPPY,
        compress(Compression.SNAPPY, b"") + bytes.fromhex("0000000100") * 100,
    ),
    "snappy headers": (Compression.SNAPPY, compress(Compression.SNAPPY, b"") * 100),
    "lz4 blocks": (Compression.LZ4, _lz4_blocks(100)),
    "zstd frames": (Compression.ZSTD, bytes.fromhex("502a4d1800000000") * 100),
}


@pytest.mark.parametrize("name", MANY_PARTS)
def test_the_parts_of_a_payload_are_counted(name: str) -> None:
    """A payload of 100 parts exceeds a limit of 98, whatever its decompressed size is.

    A gzip member counts as four parts.
    """
    codec, payload = MANY_PARTS[name]
    weight = 4 if codec is Compression.GZIP else 1
    assert decompress_small(codec, payload, 1000, StepLimit(101 * weight)).strip(b"x") == b""
    with pytest.raises(TooLargeError):
        decompress_small(codec, payload, 1000, StepLimit(98 * weight))


def test_the_cost_of_gzip_members_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """The input that zlib copies per gzip member does not grow with the payload."""
    read, real = [], zlib.decompressobj

    class Counting:
        def __init__(self, wbits: int) -> None:
            self._member = real(wbits=wbits)

        def __getattr__(self, name: str) -> object:
            return getattr(self._member, name)

        def decompress(self, data: bytes, most: int) -> bytes:
            read.append(len(data))
            return self._member.decompress(data, most)

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    payload = gzip.compress(b"") * 1000 + gzip.compress(BIG)
    assert decompress(Compression.GZIP, payload) == BIG
    assert sum(read) <= 1001 * 4096 + 2 * len(payload)


def test_gzip_data_is_read_across_pieces() -> None:
    """Gzip members of all sizes are read, with pieces of input that end anywhere in them."""
    draw = random.Random(1)
    plain = [draw.randbytes(size) * 3 for size in (0, 1, 4060, 4096, 4100, 20_000, 300_000)]
    plain.append(bytes(5_000_000))
    payload = b"".join(map(gzip.compress, plain))
    assert decompress(Compression.GZIP, payload) == b"".join(plain)
    assert decompress(Compression.GZIP, payload + b"\x1f\x8b\x08 left out") == b"".join(plain)
    for size in (1, 8, 9, 5000):
        with pytest.raises(ProtocolError):
            decompress(Compression.GZIP, payload[:-size])


def test_the_broker_checks_what_kafka_checks_in_lz4_frames() -> None:
    """Of lz4 frames block checksums are verified but content checksums are not, as in Kafka."""
    frame = lz4.frame.compress(
        BIG, block_linked=False, block_checksum=True, content_checksum=True, store_size=False
    )
    assert decompress_frame(frame) == BIG
    assert decompress_frame(frame[:-4] + b"odd!") == BIG
    with pytest.raises(ProtocolError, match="before its checksum"):
        decompress_frame(frame[:-1])
    damaged = bytearray(frame)
    damaged[-12] ^= 1  # changes the checksum of the last block
    with pytest.raises(ProtocolError, match="block with a wrong checksum"):
        decompress_frame(bytes(damaged))


def test_a_frame_is_decompressed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """lz4 frames with block checksums are decompressed only once."""
    monkeypatch.setattr(cramjam.lz4, "decompress", None)
    frame = lz4.frame.compress(BIG, block_linked=False, block_checksum=True)
    assert decompress_frame(frame) == BIG
