"""MaintenanceTimer: runs the maintenance of the logs step by step, for as long as the process runs.

`maintenance.scheduler` decides what a step does and when the next step is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from coordinator_server.events.log import LOG

if TYPE_CHECKING:
    from coordinator_server.clock.broker_clock import BrokerClock, Timer

FAILED_MAINTENANCE_DELAY_MS = 1000
"""Delay before maintenance continues after an error outside any one log."""


class Maintained(Protocol):
    """Logs that need maintenance; implemented by TopicManager."""

    @property
    def is_in_maintenance(self) -> bool:
        """Whether a round of maintenance has begun and is not finished."""

    def maintenance_step(self) -> float:
        """Do one step of maintenance; return the delay before the next step in ms."""


class MaintenanceTimer:
    """Calls `maintenance_step` of `maintained` whenever a step is due, after `start`."""

    def __init__(
        self, maintained: Maintained, clock: BrokerClock, machine_clock: BrokerClock
    ) -> None:
        self._maintained = maintained
        self._clock = clock
        self._machine_clock = machine_clock
        self._timer: Timer | None = None

    def start(self) -> None:
        """Do one step and set the timer for the next step.

        A failing step ends its round; the next round still runs.
        """
        delay_ms: float = FAILED_MAINTENANCE_DELAY_MS
        try:
            delay_ms = self._maintained.maintenance_step()
        except OSError as error:  # for example, a late import finds no free file descriptor
            LOG.emit("log.failed", reason=f"maintenance is interrupted: {error}")
        finally:
            # Pauses within a round use the machine's clock, the time between rounds the broker's.
            is_working = self._maintained.is_in_maintenance
            call = self._machine_clock.call_later if is_working else self._clock.call_maintenance
            self._timer = call(delay_ms / 1000, self.start)

    def stop(self) -> None:
        """Cancel the next step."""
        if self._timer is not None:
            self._timer.cancel()
