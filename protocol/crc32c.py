"""CRC-32C (Castagnoli) of record batches, by the kept C package, imported on first use."""

from __future__ import annotations


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """The checksum as an unsigned 32-bit number."""
    import google_crc32c

    # The C function takes bytes only; a slice of anything else is copied, once.
    checksum: int = google_crc32c.value(data if type(data) is bytes else bytes(data))
    return checksum
