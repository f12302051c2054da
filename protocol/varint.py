"""Variable-length integers: unsigned (lengths, tags) and zigzag (inside record batches).

Seven bits per byte, lowest first. As in Kafka's ByteUtils a 32-bit number takes at most five
bytes and a 64-bit number at most ten, and bits beyond the width are dropped. Decoders return
(value, next position); they raise IndexError past the end and ProtocolError when too long.
"""

from __future__ import annotations

from protocol.errors import ProtocolError

_MASK_32 = 0xFFFF_FFFF
_MASK_64 = 0xFFFF_FFFF_FFFF_FFFF

# Lengths below 128 are by far the most frequent: one ready-made byte each.
ONE_BYTE = tuple(bytes((value,)) for value in range(128))
SMALL_VARINTS = ONE_BYTE[::2]
"""0 to 63 as zigzag, for loops in which a call of `encode_varint` would be most of the cost."""


MAX_TAGGED_FIELDS = 100
"""More in one place are refused: no version of Kafka has so many, and skipping millions of them
would take long. Kafka itself has no limit."""


def decode_unsigned_varint(
    buffer: bytes | bytearray | memoryview, position: int
) -> tuple[int, int]:
    """An unsigned 32-bit number of one to five bytes."""
    byte = buffer[position]
    if byte < 128:
        return byte, position + 1
    return unsigned_varint_tail(buffer, position + 1, byte)


def unsigned_varint_tail(
    buffer: bytes | bytearray | memoryview, position: int, first: int
) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, 128 or more, has been read.

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
    """Step over tagged fields none of which is known; returns the position after them.

    Count, then tag, size and bytes of each (KIP-482), in any order. Raises ProtocolError.
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
    """`value` (0 to 2**32 - 1) in one to five bytes."""
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
    """A signed 32-bit zigzag number of one to five bytes."""
    byte = buffer[position]
    position += 1
    if byte > 127:
        byte, position = unsigned_varint_tail(buffer, position, byte)
    return (byte >> 1) ^ -(byte & 1), position


def decode_varlong(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """A signed 64-bit zigzag number of one to ten bytes. Raises ProtocolError for more."""
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
    """A signed number, 32 or 64 bits wide, as zigzag."""
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    return ONE_BYTE[zigzag] if zigzag < 128 else encode_unsigned_varint(zigzag)
