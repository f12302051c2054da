"""How long scenarios wait.

`--patience` sets `scale`, which multiplies waits and short timeouts for a busy machine.
"""

from __future__ import annotations

import time

PARKED_SECONDS = 0.25
"""A request without an answer after this time is recorded as parked."""
ANSWER_SECONDS = 4.0
"""How long an answer that is due may take."""
SCENARIO_SECONDS = 25.0
"""How long one scenario may take."""

scale = 1.0


def deadline(seconds: float) -> float:
    """Return the monotonic time in `seconds` times `scale` from now."""
    return time.monotonic() + seconds * scale
