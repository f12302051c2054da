"""A virtual clock: tests freeze it, resume it and advance it; it never runs backwards.

Its timers wait in heaps of its own. While it runs, one timer of the machine's clock is set for the
earliest of them; while it is frozen they fire as `control.advance` moves it.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import BrokerClock, Timer

_CANCELLED_KEPT = 64


class VirtualTimer:
    """A call that is due at `due_ms` of a VirtualClock."""

    __slots__ = ("_callback", "due_ms", "heap")

    def __init__(self, due_ms: int, callback: Callable[[], None], heap: _TimerHeap) -> None:
        self.due_ms = due_ms
        self.heap: _TimerHeap | None = heap
        self._callback: Callable[[], None] | None = callback

    @property
    def is_over(self) -> bool:
        """Whether it was cancelled, or has fired."""
        return self._callback is None

    def cancel(self) -> None:
        """Forget the call."""
        if self._callback is not None:
            self._callback = None
            if self.heap is not None:
                self.heap.count_cancelled()

    def fire(self) -> None:
        """Call, unless it was cancelled in the meantime."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class _TimerHeap:
    """Timers by due time; those of the same millisecond in the order in which they were set."""

    __slots__ = ("_cancelled", "_entries", "_sequence")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, VirtualTimer]] = []
        self._sequence = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, due_ms: int, callback: Callable[[], None]) -> VirtualTimer:
        """Set a timer."""
        timer = VirtualTimer(due_ms, callback, self)
        self._sequence += 1
        heappush(self._entries, (due_ms, self._sequence, timer))
        return timer

    def next_due_ms(self) -> int | None:
        """The earliest due time; None if no timer is set."""
        entries = self._entries
        while entries and entries[0][2].is_over:
            heappop(entries)
            self._cancelled -= 1
        return entries[0][0] if entries else None

    def pop_due(self, now_ms: int) -> list[VirtualTimer]:
        """Remove the timers that are due; returns them in order."""
        due = []
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            timer = heappop(self._entries)[2]
            timer.heap = None
            due.append(timer)
        return due

    def shift(self, shift_ms: int) -> None:
        """Move all due times."""
        for _, _, timer in self._entries:
            timer.due_ms += shift_ms
        self._entries = [(timer.due_ms, sequence, timer) for _, sequence, timer in self._entries]

    def count_cancelled(self) -> None:
        """Count a timer that was cancelled; drop such entries once they are most of the heap."""
        self._cancelled += 1
        if self._cancelled > _CANCELLED_KEPT and 2 * self._cancelled > len(self._entries):
            self._entries = [entry for entry in self._entries if not entry[2].is_over]
            heapify(self._entries)
            self._cancelled = 0


class VirtualClock:
    """A BrokerClock on top of the machine's clock, with the machine's time until it is changed.

    `maintenance_pause_ms` is the least time between two rounds of what `call_maintenance` set, for
    as long as the clock is frozen.
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
        self._timers = _TimerHeap()
        self._maintenance = _TimerHeap()
        self._maintenance_from_ms = 0
        self.maintenance_pause_ms = 0
        self._alarm: Timer | None = None
        self._alarm_due_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, by this clock."""
        frozen_ms = self._frozen_ms
        if frozen_ms is not None:
            return frozen_ms
        return self._machine.now_ms() + self._offset_ms

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call after the callbacks that are due now."""
        return self._machine.call_soon(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call after `delay` seconds of this clock, on the millisecond."""
        return self._set_timer(self._timers, delay, callback)

    def call_maintenance(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """As `call_later`; `maintenance_pause_ms` may put it off."""
        return self._set_timer(self._maintenance, delay, callback)

    # --- control ----------------------------------------------------------------------------------

    @property
    def is_frozen(self) -> bool:
        """Whether its time does not run."""
        return self._frozen_ms is not None

    @property
    def offset_ms(self) -> int:
        """How far it is ahead of the machine's clock; negative if it is behind, after a freeze."""
        return self.now_ms() - self._machine.now_ms()

    def freeze(self) -> None:
        """Stop at this millisecond: what is due by then still fires, nothing else does."""
        if self._frozen_ms is None:
            self._frozen_ms = self.now_ms()
            self._set_alarm()

    def resume(self, offset_ms: int | None = None) -> None:
        """Run on from the frozen time, or from `offset_ms` ahead of the machine, if later."""
        if self._frozen_ms is not None:
            self._offset_ms = self._frozen_ms - self._machine.now_ms()
            if offset_ms is not None:
                self._offset_ms = max(self._offset_ms, offset_ms)
            self._frozen_ms = None
            self.maintenance_pause_ms = self._maintenance_from_ms = 0
            self._set_alarm()

    def advance(self, elapsed_ms: int) -> None:
        """Move the frozen time on. No timer fires by that: call `fire` next."""
        assert self._frozen_ms is not None, "only while it is frozen"
        assert elapsed_ms >= 0, elapsed_ms
        self._frozen_ms += elapsed_ms

    def next_due_ms(self) -> int | None:
        """When the next timer fires; None if none is set."""
        due_ms = self._timers.next_due_ms()
        maintenance_ms = self._maintenance.next_due_ms()
        if maintenance_ms is not None:
            maintenance_ms = max(maintenance_ms, self._maintenance_from_ms)
            due_ms = maintenance_ms if due_ms is None else min(due_ms, maintenance_ms)
        return due_ms

    def fire(self, *, with_maintenance: bool = False) -> int:
        """Have the loop call what is due, in order; returns the number of calls.

        `with_maintenance` fires the timers of maintenance that are due even within their pause.
        """
        now_ms = self.now_ms()
        due = self._timers.pop_due(now_ms)
        if with_maintenance or now_ms >= self._maintenance_from_ms:
            maintenance = self._maintenance.pop_due(now_ms)
            if maintenance:
                self._maintenance_from_ms = now_ms + self.maintenance_pause_ms
                due += maintenance
        for timer in due:
            # By the loop, so that a callback that raises does not keep the others from it.
            self._machine.call_soon(timer.fire)
        return len(due)

    def reset(self) -> None:
        """Take the machine's time again. Timers wait for as long as they would have waited.

        Only while nothing remembers a time of this clock.
        """
        self.resume()
        offset_ms, self._offset_ms = self._offset_ms, 0
        for heap in (self._timers, self._maintenance):
            heap.shift(-offset_ms)
        self._set_alarm()

    # --- details ----------------------------------------------------------------------------------

    def _set_timer(self, heap: _TimerHeap, delay: float, callback: Callable[[], None]) -> Timer:
        # Rounded first: in floating point 0.3 s may be a little more than 300 ms.
        delay_ms = max(-(-round(delay * 1_000_000) // 1000), 0)
        timer = heap.add(self.now_ms() + delay_ms, callback)
        if self._alarm is None or timer.due_ms < self._alarm_due_ms:
            self._set_alarm()
        return timer

    def _set_alarm(self) -> None:
        """Set the machine's timer for what is due next, if time runs until then."""
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
