"""How slow the machine is right now, for the tests that hold a cost to a limit.

CPU time is no constant: a busy neighbour on the same core, or an older processor, makes every
instruction cost more. So such a limit is set for a quiet machine, and stretched by what a fixed
piece of work costs at that moment.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

QUIET_SECONDS = 0.014
"""What the fixed work costs on the quiet machine that the limits were set on."""

_SOURCE = "\n".join(
    f"def f{number}(a, b=1):\n    return [a + {number} for _ in range(b)]" for number in range(150)
)


def slowness() -> float:
    """By how much this machine is slower at the moment; 1 where it is as fast or faster."""
    return max(1.0, min(_fixed_work_seconds() for _ in range(3)) / QUIET_SECONDS)


def slowness_on_the_wall() -> float:
    """The same for what is held to a limit in real time: also what others take of the processor."""
    rounds = 10
    seconds = sum(_fixed_work_seconds(time.perf_counter) for _ in range(rounds))
    return max(1.0, seconds / rounds / QUIET_SECONDS)


def stolen_seconds() -> float:
    """Processor seconds that the host took from this machine since it started, of all processors.

    The steal time of `/proc/stat`: somebody wanted to run and the host let them wait. 0 where the
    system does not tell.
    """
    try:
        ticks = Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=9)[8]
    except FileNotFoundError:
        return 0.0
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def _fixed_work_seconds(clock: Callable[[], float] = time.process_time) -> float:
    """Time that some work takes of the kind that a start is: objects, strings, byte code."""
    started = clock()
    values = {f"k{number % 977}": [number, str(number)] for number in range(20_000)}
    assert json.loads(json.dumps(values)) == values
    compile(_SOURCE, "<fixed work>", "exec")
    return clock() - started
