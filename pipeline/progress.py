"""Lines that say how far a long run is, on standard error, with the time since its beginning."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Tell = Callable[[str], None]


def teller() -> Tell:
    """A function that writes such lines."""
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - began:7.1f} s] {text}", file=sys.stderr, flush=True)

    return tell


def silent(text: str) -> None:
    """For who wants no lines."""
