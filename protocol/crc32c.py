"""CRC-32C (Castagnoli) of record batches, with a C package that is imported on first use."""

from __future__ import annotations

from collections.abc import Callable

_checksum: Callable[[bytes], int] | None = None


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the checksum as an unsigned 32-bit number."""
    checksum = _checksum or _load()
    # The C function accepts only bytes, so other buffers are copied.
    return checksum(data if type(data) is bytes else bytes(data))


def _load() -> Callable[[bytes], int]:
    # The function is cached, because an import statement costs more than the checksum of a small
    # batch.
    global _checksum
    import google_crc32c

    checksum: Callable[[bytes], int] = google_crc32c.value
    _checksum = checksum
    return checksum
