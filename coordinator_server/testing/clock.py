"""The broker's virtual clock: a test can let five minutes pass in one call.

    broker.clock.advance(300)    # sessions of 45 s expire, as they would in five minutes
    broker.clock.freeze()        # the time stops
    broker.clock.resume()        # and runs on from there

Only the broker's time changes. The client libraries in the test keep the machine's time.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from coordinator_server.testing.control import Control

_TIMEOUT_SECONDS = 120.0


class ClockState(NamedTuple):
    """The state of the broker's clock.

    `now_ms` is in ms since 1970-01-01 UTC. `offset_ms` is the difference to the machine's clock in
    ms (negative after a freeze).
    """

    now_ms: int
    frozen: bool
    offset_ms: int


class Clock:
    """The clock of all brokers in one process; available as `broker.clock`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def advance(self, seconds: float | timedelta) -> ClockState:
        """Advance the clock and return once every timer that falls due has run.

        Requests that clients sent before are handled first, requests sent meanwhile afterwards. A
        frozen clock stays frozen. Raises BrokerError for a time that is negative, not a number or
        more than ten years.
        """
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        return self._call("POST", "/clock/advance", {"seconds": seconds})

    def freeze(self) -> ClockState:
        """Freeze the clock: no timer fires, and all records and commits get the same timestamp."""
        return self._call("POST", "/clock/freeze")

    def resume(self) -> ClockState:
        """Let a frozen clock continue from the time at which it was frozen."""
        return self._call("POST", "/clock/resume")

    def state(self) -> ClockState:
        """Return the time and whether the clock is frozen."""
        return self._call("GET", "/clock")

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, by the broker's clock."""
        return self.state().now_ms

    @property
    def is_frozen(self) -> bool:
        """Whether the clock is frozen."""
        return self.state().frozen

    def _call(self, method: str, path: str, query: dict[str, object] | None = None) -> ClockState:
        answer = self._control.call(method, path, query, timeout=_TIMEOUT_SECONDS)
        return ClockState(answer["now_ms"], answer["frozen"], answer["offset_ms"])
