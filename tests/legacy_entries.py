"""Entries of message formats 0 and 1, which the product reads and never writes."""

from __future__ import annotations

import struct
import zlib

ENTRY_MS = 1_500_000_000_000


def legacy_entry(
    magic: int, offset: int, value: bytes, *, key: bytes | None = None, attributes: int = 0
) -> bytes:
    """Return a message, or the wrapper of a compressed message set (Kafka's LegacyRecord)."""
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", ENTRY_MS)
    body += struct.pack(">i", -1 if key is None else len(key)) + (key or b"")
    body += struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
