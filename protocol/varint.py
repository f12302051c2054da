"""Variable-length integers: unsigned (lengths, tags) and zigzag (inside record batches).

Each byte has seven bits, lowest first. As in Kafka's ByteUtils, a 32-bit number has at most five
bytes and a 64-bit number at most ten, and bits beyond the width are dropped. Decoders return
(value, next position). They raise IndexError at the end of the buffer, and ProtocolError for a
number with too many bytes.
"""

from __future__ import annotations

from protocol.errors import ProtocolError

_MASK_32 = 0xFFFF_FFFF
_MASK_64 = 0xFFFF_FFFF_FFFF_FFFF

# Lengths below 128 are the most frequent, so their bytes are precomputed.
ONE_BYTE = tuple(bytes((value,)) for value in range(128))
SMALL_VARINTS = ONE_BYTE[::2]
"""Zigzag encodings of 0 to 63, for loops where a call of `encode_varint` is too slow."""


MAX_TAGGED_FIELDS = 100
"""Limit of tagged fields in one place, to bound the time for skipping them. Kafka has no limit, but
also no message with so many fields."""


def decode_unsigned_varint(
    buffer: bytes | bytearray | memoryview, position: int
) -> tuple[int, int]:
    """Decode an unsigned 32-bit number of one to five bytes."""
    byte = buffer[position]
    if byte < 128:
        return byte, position + 1
    return unsigned_varint_tail(buffer, position + 1, byte)


def unsigned_varint_tail(
    buffer: bytes | bytearray | memoryview, position: int, first: int
) -> tuple[int, int]:
    """Decode the rest of an unsigned varint after its first byte, which is 128 or more.

    Raises ProtocolError for more than five bytes.
    """
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value & _MASK_32, position
    raise ProtocolError("a varint of more than five bytes")


def skip_tagged_fields(buffer: bytes | bytearray | memoryview, position: int) -> int:
    """Skip unknown tagged fields; return the position after the fields.

    The format is a count, then tag, size and bytes of each field (KIP-482). Raises ProtocolError.
    """
    count, position = decode_unsigned_varint(buffer, position)
    if count > MAX_TAGGED_FIELDS:
        raise ProtocolError(f"{count} tagged fields")
    for _ in range(count):
        _, position = decode_unsigned_varint(buffer, position)
        size, position = decode_unsigned_varint(buffer, position)
        position += size
        if position > len(buffer):
            raise ProtocolError(f"a tagged field of {size} bytes runs past the end")
    return position


def encode_unsigned_varint(value: int) -> bytes:
    """Encode `value` (0 to 2**32 - 1) in one to five bytes."""
    if value < 128:
        return ONE_BYTE[value]
    if value < 16384:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Decode a signed 32-bit zigzag number of one to five bytes."""
    byte = buffer[position]
    position += 1
    if byte > 127:
        byte, position = unsigned_varint_tail(buffer, position, byte)
    return (byte >> 1) ^ -(byte & 1), position


def decode_varlong(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Decode a signed 64-bit zigzag number of one to ten bytes. Raises ProtocolError for more."""
    value = 0
    shift = 0
    while shift < 70:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 128:
            value &= _MASK_64
            return (value >> 1) ^ -(value & 1), position
    raise ProtocolError("a varint of more than ten bytes")


def encode_varint(value: int) -> bytes:
    """Encode a signed 32-bit or 64-bit number as zigzag."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    return ONE_BYTE[zigzag] if zigzag < 128 else encode_unsigned_varint(zigzag)
