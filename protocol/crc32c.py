"""CRC-32C (Castagnoli) of record batches, by the kept C package, imported on first use."""

from __future__ import annotations

from collections.abc import Callable

_checksum: Callable[[bytes], int] | None = None


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """The checksum as an unsigned 32-bit number."""
    checksum = _checksum or _load()
    # The C function takes bytes only; a slice of anything else is copied, once.
    return checksum(data if type(data) is bytes else bytes(data))


def _load() -> Callable[[bytes], int]:
    # Kept in the module: an import statement costs more than the checksum of a small batch.
    global _checksum
    import google_crc32c

    checksum: Callable[[bytes], int] = google_crc32c.value
    _checksum = checksum
    return checksum
