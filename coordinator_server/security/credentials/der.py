"""Reads the DER elements (X.690) that certificates and protected keys consist of."""

from __future__ import annotations

from collections.abc import Iterator


def header(encoded: bytes, position: int) -> tuple[int, int, int]:
    """Return an element's tag, content position and content length. Raises ValueError.

    The caller must check that the content is complete.
    """
    if position + 2 > len(encoded):
        raise ValueError("an element is cut off")
    tag, length = encoded[position], encoded[position + 1]
    position += 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(encoded[position : position + count], "big")
        position += count
    return tag, position, length


def elements(encoded: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield tag, content and full encoding of each DER element. Raises ValueError."""
    position = 0
    while position < len(encoded):
        start = position
        tag, position, length = header(encoded, start)
        end = position + length
        if end > len(encoded):
            raise ValueError("an element is cut off")
        yield tag, encoded[position:end], encoded[start:end]
        position = end
