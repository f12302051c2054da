"""Compression codecs: round trips, foreign frames, damage and bombs."""

from __future__ import annotations

import gzip
import zlib

import cramjam
import pytest

from protocol import compression
from protocol.compression import Compression, compress, decompress
from protocol.errors import ProtocolError

BIG = b"".join(number.to_bytes(4, "big") for number in range(50_000))
REAL = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", [b"", b"a", b"a" * 100_000, BIG], ids=["empty", "a", "as", "big"])
def test_round_trip(codec: Compression, data: bytes) -> None:
    """What is compressed comes back, from bytes and from a memoryview."""
    packed = compress(codec, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(packed)) == data


def test_lz4_blocks_are_independent() -> None:
    """Kafka's lz4 reader takes only frames of version 1 with independent blocks."""
    flags = compress(Compression.LZ4, BIG)[4]
    assert flags >> 6 == 1
    assert flags & 0x20


def test_foreign_frames_are_read() -> None:
    """Raw snappy, two gzip members, and lz4 frames with checksums of other writers are read."""
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(BIG))) == BIG
    assert decompress(Compression.GZIP, gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"
    assert decompress(Compression.LZ4, bytes(cramjam.lz4.compress(BIG))) == BIG


@pytest.mark.parametrize("codec", REAL)
def test_damage_is_refused(codec: Compression) -> None:
    """Cut or foreign bytes raise ProtocolError."""
    packed = compress(codec, BIG)
    with pytest.raises(ProtocolError):
        decompress(codec, packed[: len(packed) // 2])
    with pytest.raises(ProtocolError):
        decompress(codec, b"\xffnothing of the kind")


@pytest.mark.parametrize("chunk", ["", "000001", "00000005", "ffffffff", "7fffffff00", "00000000"])
def test_xerial_chunks_are_checked(chunk: str) -> None:
    """A chunk whose length does not fit is refused; what is too short for a length is left out."""
    data = compress(Compression.SNAPPY, b"") + bytes.fromhex(chunk)
    if len(chunk) >= 8:
        with pytest.raises(ProtocolError):
            decompress(Compression.SNAPPY, data)
    else:
        assert decompress(Compression.SNAPPY, data) == b""


def test_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """gzip stops at the limit; snappy that claims too much is refused before it is allocated."""
    monkeypatch.setattr(compression, "MAX_DECOMPRESSED_BYTES", 1000)
    assert decompress(Compression.GZIP, gzip.compress(bytes(1000))) == bytes(1000)
    with pytest.raises(ProtocolError):
        decompress(Compression.GZIP, gzip.compress(bytes(1001)))
    with pytest.raises(ProtocolError):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"abc")


def test_gzip_is_plain_gzip() -> None:
    """Our gzip is readable by anybody."""
    assert zlib.decompress(compress(Compression.GZIP, BIG), wbits=31) == BIG
