"""What the control server answers about the clock.

Every answer is the state afterwards: `now_ms` since the epoch, whether time is `frozen`, and
`offset_ms`, so much later it is here than on the machine.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from coordinator_server.control.advance import ClockTurner, TurningError
from coordinator_server.control.request import ControlError

if TYPE_CHECKING:
    from coordinator_server.control.request import ControlRequest

MOST_SECONDS = 10 * 366 * 24 * 3600
"""Ten years: more is a slip of the pen."""


async def state(request: ControlRequest) -> dict[str, Any]:
    """GET /clock: what time it is."""
    turner = _turner(request)
    await turner.settle()
    return _state(turner)


async def advance(request: ControlRequest) -> dict[str, Any]:
    """POST /clock/advance?seconds=N: put it forward; what falls due meanwhile has happened."""
    elapsed_ms = _elapsed_ms(request)
    turner = _turner(request)
    try:
        await turner.advance(elapsed_ms)
    except TurningError as error:
        raise ControlError(500, str(error)) from error
    return _state(turner)


async def freeze(request: ControlRequest) -> dict[str, Any]:
    """POST /clock/freeze: time stands. If it does so already, that is all right."""
    turner = _turner(request)
    await turner.freeze()
    return _state(turner)


async def resume(request: ControlRequest) -> dict[str, Any]:
    """POST /clock/resume: time goes on from where it stands. If it goes already, all right."""
    turner = _turner(request)
    await turner.resume()
    return _state(turner)


def _turner(request: ControlRequest) -> ClockTurner:
    try:
        return ClockTurner(request.cluster)
    except TurningError as error:
        raise ControlError(400, str(error)) from error


def _state(turner: ClockTurner) -> dict[str, Any]:
    clock = turner.clock
    return {
        "now_ms": clock.now_ms(),
        "frozen": turner.is_frozen,
        "offset_ms": clock.ahead_ms,
    }


def _elapsed_ms(request: ControlRequest) -> int:
    """`seconds` in milliseconds. Raises ControlError."""
    text = request.query.get("seconds")
    if text is None:
        raise ControlError(400, "seconds=N is missing: how far to put the clock forward")
    try:
        seconds = float(text)
    except ValueError as error:
        raise ControlError(400, f"seconds={text} is not a number") from error
    if math.isnan(seconds):
        raise ControlError(400, f"seconds={text} is not a number")
    if seconds < 0:
        raise ControlError(400, f"seconds={text} is negative: time does not go back")
    if seconds > MOST_SECONDS:
        raise ControlError(400, f"seconds={text} is more than ten years ({MOST_SECONDS})")
    return round(seconds * 1000)
