"""A push of metrics, and its decompression within limits, against decompression bombs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.compression import Compression, decompress_zstd_into
from protocol.errors import ProtocolError
from protocol.large_payload import decompress_small, zstd_bound
from protocol.step_limit import StepLimit, TooLargeError

if TYPE_CHECKING:
    from coordinator_server.telemetry.instances import Attributes

MOST_DECOMPRESSED_BYTES = 16 << 20
"""Limit of a decompressed push, even if telemetry.max.bytes is larger: decompressing more would
block the event loop for too long."""

_MOST_PARTS = 10_000


class KeptPush(NamedTuple):
    """The last push of a client instance; `number` counts the pushes of the instance."""

    attributes: Attributes
    node_id: int
    time_ms: int
    number: int
    is_terminating: bool
    compression: Compression
    metrics: bytes

    def data(self) -> bytes:
        """Return the decompressed metrics. Raises ProtocolError."""
        return decompressed(self.compression, self.metrics, MOST_DECOMPRESSED_BYTES)


def decompressed(compression: Compression, metrics: bytes, limit: int) -> bytes:
    """Return the decompressed metrics of a push.

    Raises ProtocolError for damaged metrics, and for more than `limit` bytes.
    """
    try:
        if compression is Compression.NONE:
            return metrics
        steps = StepLimit(_MOST_PARTS)
        if compression is Compression.ZSTD and zstd_bound(metrics, limit, steps) > limit:
            return _bounded_zstd(metrics, limit)
        return decompress_small(compression, metrics, limit, steps)
    except TooLargeError as error:
        raise ProtocolError(f"metrics of more than {limit} bytes, or in too many parts") from error


def _bounded_zstd(metrics: bytes, limit: int) -> bytes:
    """Decompress zstd into a buffer of `limit` bytes, if its headers permit more than `limit`.

    Raises TooLargeError, ProtocolError.
    """
    from mmap import mmap

    with mmap(-1, limit + 1) as memory:
        size = decompress_zstd_into(metrics, memory)
        if size > limit:
            raise TooLargeError
        return memory[:size]
