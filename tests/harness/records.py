"""Record batches as clients send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.batch import Record, build_batch
from tests.harness.clock import START_MS


def batch(
    *values: bytes,
    key: bytes | None = b"k",
    times_ms: Sequence[int] = (),
    **fields: Any,
) -> bytes:
    """Return a client's batch of records with these values, at START_MS or at `times_ms`."""
    times_ms = times_ms or [START_MS] * len(values)
    records = [
        Record(offset, time_ms, key, value)
        for offset, (time_ms, value) in enumerate(zip(times_ms, values, strict=True))
    ]
    return build_batch(records, **fields).to_bytes()
