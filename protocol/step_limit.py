"""A limit on the work that one call may do, for callers on the event loop."""

from __future__ import annotations

import sys


class TooLargeError(Exception):
    """A payload exceeds the caller's limit of bytes or parts."""


class StepLimit:
    """Limits the parts of a batch that are read one by one to `most`; no limit by default.

    Parts are gzip members, snappy chunks, lz4 blocks, zstd frames and record headers. A payload of
    a megabyte may have hundreds of thousands of empty parts.
    """

    def __init__(self, most: int = sys.maxsize) -> None:
        self._left = most

    def take(self, count: int = 1) -> None:
        """Count parts. Raises TooLargeError above the limit."""
        self._left -= count
        if self._left < 0:
            raise TooLargeError
