"""Control requests about the clock.

Each response has the state after the request: `now_ms` since 1970, `frozen`, and `offset_ms`, the
difference to the machine's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.control.advance import ClockController, ClockError
from coordinator_server.control.request import ControlError

if TYPE_CHECKING:
    from coordinator_server.control.request import ControlRequest

MOST_SECONDS = 10 * 366 * 24 * 3600
"""Ten years; a larger advance is rejected as a typing error."""


async def state(request: ControlRequest) -> dict[str, Any]:
    """GET /clock: return the broker's time. Raises ControlError."""
    controller = _controller(request)
    await controller.wait()
    return _state(controller)


async def advance(request: ControlRequest) -> dict[str, Any]:
    """POST /clock/advance?seconds=N: advance the time and do all work that becomes due.

    Raises ControlError.
    """
    elapsed_ms = _elapsed_ms(request)
    controller = _controller(request)
    try:
        await controller.advance(elapsed_ms)
    except ClockError as error:
        raise ControlError(500, str(error)) from error
    return _state(controller)


async def freeze(request: ControlRequest) -> dict[str, Any]:
    """POST /clock/freeze: stop the time; no effect if already frozen. Raises ControlError."""
    controller = _controller(request)
    await controller.freeze()
    return _state(controller)


async def resume(request: ControlRequest) -> dict[str, Any]:
    """POST /clock/resume: let the time run; no effect if already running. Raises ControlError."""
    controller = _controller(request)
    await controller.resume()
    return _state(controller)


def _controller(request: ControlRequest) -> ClockController:
    try:
        return ClockController(request.cluster)
    except ClockError as error:
        raise ControlError(400, str(error)) from error


def _state(controller: ClockController) -> dict[str, Any]:
    clock = controller.clock
    return {
        "now_ms": clock.now_ms(),
        "frozen": controller.is_frozen,
        "offset_ms": clock.offset_ms,
    }


def _elapsed_ms(request: ControlRequest) -> int:
    """Return the parameter `seconds` in milliseconds. Raises ControlError."""
    seconds, text = request.values["seconds"], request.query["seconds"]
    if seconds < 0:
        raise ControlError(400, f"seconds={text} is negative: time does not go back")
    if seconds > MOST_SECONDS:
        raise ControlError(400, f"seconds={text} is more than ten years ({MOST_SECONDS})")
    return round(float(seconds) * 1000)
