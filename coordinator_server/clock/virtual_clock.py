"""A virtual clock, which tests freeze, resume and advance. It never runs backwards.

The clock keeps its timers in heaps. While it runs, one timer of the machine's clock is set for the
earliest timer. While it is frozen, timers fire as `control.advance` moves the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.clock.broker_clock import TimerHeap, milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import BrokerClock, Timer


class VirtualClock:
    """A BrokerClock on top of the machine's clock; it has the machine's time until changed.

    `maintenance_pause_ms` is the shortest time between two rounds of `call_maintenance` timers
    while the clock is frozen.
    """

    __slots__ = (
        "_alarm",
        "_alarm_due_ms",
        "_frozen_ms",
        "_machine",
        "_maintenance",
        "_maintenance_from_ms",
        "_offset_ms",
        "_timers",
        "maintenance_pause_ms",
    )

    def __init__(self, machine: BrokerClock) -> None:
        self._machine = machine
        self._offset_ms = 0
        self._frozen_ms: int | None = None
        self._timers = TimerHeap()
        self._maintenance = TimerHeap()
        self._maintenance_from_ms = 0
        self.maintenance_pause_ms = 0
        self._alarm: Timer | None = None
        self._alarm_due_ms = 0

    def now_ms(self) -> int:
        """Return the milliseconds since 1970-01-01 UTC, by this clock."""
        frozen_ms = self._frozen_ms
        if frozen_ms is not None:
            return frozen_ms
        return self._machine.now_ms() + self._offset_ms

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call back after the callbacks that are due now."""
        return self._machine.call_soon(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call back after `delay` seconds of this clock, rounded up to a millisecond."""
        return self._set_timer(self._timers, delay, callback)

    def call_maintenance(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Like `call_later`, but `maintenance_pause_ms` may delay the call."""
        return self._set_timer(self._maintenance, delay, callback)

    # --- advance, freeze and resume ---------------------------------------------------------------

    @property
    def is_frozen(self) -> bool:
        """Whether the time is frozen."""
        return self._frozen_ms is not None

    @property
    def offset_ms(self) -> int:
        """The time of this clock minus the machine's time, in ms; negative after a freeze."""
        return self.now_ms() - self._machine.now_ms()

    def freeze(self) -> None:
        """Stop at the current millisecond. Only timers that are already due still fire."""
        if self._frozen_ms is None:
            self._frozen_ms = self.now_ms()
            self._set_alarm()

    def resume(self, offset_ms: int | None = None) -> None:
        """Continue from the frozen time, or from the machine's time plus `offset_ms` if later."""
        if self._frozen_ms is not None:
            self._offset_ms = self._frozen_ms - self._machine.now_ms()
            if offset_ms is not None:
                self._offset_ms = max(self._offset_ms, offset_ms)
            self._frozen_ms = None
            self.maintenance_pause_ms = self._maintenance_from_ms = 0
            self._set_alarm()

    def advance(self, elapsed_ms: int) -> None:
        """Move the frozen time forward. This fires no timers: call `fire` next."""
        assert self._frozen_ms is not None, "only while it is frozen"
        assert elapsed_ms >= 0, elapsed_ms
        self._frozen_ms += elapsed_ms

    def next_due_ms(self) -> int | None:
        """Return the time of the next timer; None if no timer is set."""
        due_ms = self._timers.next_due_ms()
        maintenance_ms = self._maintenance.next_due_ms()
        if maintenance_ms is not None:
            maintenance_ms = max(maintenance_ms, self._maintenance_from_ms)
            due_ms = maintenance_ms if due_ms is None else min(due_ms, maintenance_ms)
        return due_ms

    def fire(self, *, with_maintenance: bool = False) -> int:
        """Schedule the callbacks of due timers in order; return the number of timers.

        `with_maintenance` fires due maintenance timers even within `maintenance_pause_ms`.
        """
        now_ms = self.now_ms()
        due = self._timers.pop_due(now_ms)
        if with_maintenance or now_ms >= self._maintenance_from_ms:
            maintenance = self._maintenance.pop_due(now_ms)
            if maintenance:
                self._maintenance_from_ms = now_ms + self.maintenance_pause_ms
                due += maintenance
        for timer in due:
            # Schedule each timer on the event loop, so that an exception in one timer does not
            # prevent the other timers from firing.
            self._machine.call_soon(timer.fire)
        return len(due)

    def reset(self) -> None:
        """Return to the machine's time. The remaining delay of each timer is unchanged.

        Must only be called while no state contains a time of this clock.
        """
        self.resume()
        offset_ms, self._offset_ms = self._offset_ms, 0
        for heap in (self._timers, self._maintenance):
            heap.shift(-offset_ms)
        self._set_alarm()

    # --- timers -----------------------------------------------------------------------------------

    def _set_timer(self, heap: TimerHeap, delay: float, callback: Callable[[], None]) -> Timer:
        timer = heap.add(self.now_ms() + milliseconds(delay), callback)
        if self._alarm is None or timer.due_ms < self._alarm_due_ms:
            self._set_alarm()
        return timer

    def _set_alarm(self) -> None:
        """Set a timer of the machine's clock for the next timer of this clock.

        While this clock is frozen, the timer is set only for a timer that is already due.
        """
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due_ms = self.next_due_ms()
        if due_ms is None:
            return
        delay_ms = max(due_ms - self.now_ms(), 0)
        if delay_ms and self.is_frozen:
            return
        self._alarm_due_ms = due_ms
        self._alarm = self._machine.call_later(delay_ms / 1000, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self.fire()
        self._set_alarm()
