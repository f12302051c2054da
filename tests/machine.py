"""Measure how slow the machine is now, for tests that limit a cost.

CPU time is not constant: a busy neighbour on the same core, or an older processor, makes every
instruction cost more. Each limit is therefore set for a quiet machine and scaled by the current
cost of a fixed piece of work.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

QUIET_SECONDS = 0.014
"""CPU time of the fixed work on the quiet machine for which the limits were set."""

_SOURCE = "\n".join(
    f"def f{number}(a, b=1):\n    return [a + {number} for _ in range(b)]" for number in range(150)
)


def slowness() -> float:
    """Return the factor by which this machine is slower now, in CPU time; at least 1."""
    return max(1.0, min(_fixed_work_seconds() for _ in range(3)) / QUIET_SECONDS)


def slowness_on_the_wall() -> float:
    """Return the slowdown in real time, which includes waiting for the processor; at least 1."""
    rounds = 10
    seconds = sum(_fixed_work_seconds(time.perf_counter) for _ in range(rounds))
    return max(1.0, seconds / rounds / QUIET_SECONDS)


def stolen_seconds() -> float:
    """Return the processor seconds that the host has taken from this machine since boot.

    This is the steal time of `/proc/stat`, summed over all processors. Return 0 on systems that do
    not report steal time.
    """
    try:
        ticks = Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=9)[8]
    except FileNotFoundError:
        return 0.0
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def _fixed_work_seconds(clock: Callable[[], float] = time.process_time) -> float:
    """Return the duration of work that resembles a start: objects, strings, byte code."""
    started = clock()
    values = {f"k{number % 977}": [number, str(number)] for number in range(20_000)}
    assert json.loads(json.dumps(values)) == values
    compile(_SOURCE, "<fixed work>", "exec")
    return clock() - started
