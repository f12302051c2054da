"""A clock that tests can turn: it can stand, go on, and be put forward; it never goes back.

Its timers wait in heaps of its own. While it goes, one timer of the machine's clock rings for the
earliest of them; while it stands they ring as `turning` puts it forward.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import BrokerClock, Timer

_CANCELLED_KEPT = 64


class TurnableTimer:
    """A call that is planned for `due_ms` of a TurnableClock."""

    __slots__ = ("_callback", "due_ms", "heap")

    def __init__(self, due_ms: int, callback: Callable[[], None], heap: _Heap) -> None:
        self.due_ms = due_ms
        self.heap: _Heap | None = heap
        self._callback: Callable[[], None] | None = callback

    @property
    def is_over(self) -> bool:
        """Whether it was cancelled, or has rung."""
        return self._callback is None

    def cancel(self) -> None:
        """Forget the call."""
        if self._callback is not None:
            self._callback = None
            if self.heap is not None:
                self.heap.one_cancelled()

    def ring(self) -> None:
        """Call, unless that was cancelled after all."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class _Heap:
    """Timers by due time; those of one millisecond in the order in which they were planned."""

    __slots__ = ("_cancelled", "_entries", "_planned")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, TurnableTimer]] = []
        self._planned = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, due_ms: int, callback: Callable[[], None]) -> TurnableTimer:
        """Plan a call."""
        timer = TurnableTimer(due_ms, callback, self)
        self._planned += 1
        heappush(self._entries, (due_ms, self._planned, timer))
        return timer

    def next_due_ms(self) -> int | None:
        """The earliest due time; None if nothing is planned."""
        entries = self._entries
        while entries and entries[0][2].is_over:
            heappop(entries)
            self._cancelled -= 1
        return entries[0][0] if entries else None

    def take_due(self, now_ms: int) -> list[TurnableTimer]:
        """Take out what is due, in order."""
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
        self._entries = [(timer.due_ms, number, timer) for _, number, timer in self._entries]

    def one_cancelled(self) -> None:
        """Drop cancelled entries once they are most of the heap."""
        self._cancelled += 1
        if self._cancelled > _CANCELLED_KEPT and 2 * self._cancelled > len(self._entries):
            self._entries = [entry for entry in self._entries if not entry[2].is_over]
            heapify(self._entries)
            self._cancelled = 0


class TurnableClock:
    """A BrokerClock on top of the machine's clock.

    As long as nobody turns it, it tells the machine's time. `upkeep_pause_ms` is the least time
    between two rounds of what was planned by `call_upkeep`, for as long as the clock stands.
    """

    __slots__ = (
        "_ahead_ms",
        "_alarm",
        "_alarm_due_ms",
        "_machine",
        "_standing_ms",
        "_timers",
        "_upkeep",
        "_upkeep_from_ms",
        "upkeep_pause_ms",
    )

    def __init__(self, machine: BrokerClock) -> None:
        self._machine = machine
        self._ahead_ms = 0
        self._standing_ms: int | None = None
        self._timers = _Heap()
        self._upkeep = _Heap()
        self._upkeep_from_ms = 0
        self.upkeep_pause_ms = 0
        self._alarm: Timer | None = None
        self._alarm_due_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, by this clock."""
        standing_ms = self._standing_ms
        if standing_ms is not None:
            return standing_ms
        return self._machine.now_ms() + self._ahead_ms

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call after the callbacks that are due now."""
        return self._machine.call_soon(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Call after `delay` seconds of this clock, on the millisecond."""
        return self._plan(self._timers, delay, callback)

    def call_upkeep(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """As `call_later`; `upkeep_pause_ms` may put it off."""
        return self._plan(self._upkeep, delay, callback)

    # --- to turn it -------------------------------------------------------------------------------

    @property
    def is_standing(self) -> bool:
        """Whether it stands."""
        return self._standing_ms is not None

    @property
    def ahead_ms(self) -> int:
        """How much later it is here than by the machine's clock; negative after it stood."""
        return self.now_ms() - self._machine.now_ms()

    def stand(self) -> None:
        """Stop at this millisecond; what is due by then rings, nothing else does."""
        if self._standing_ms is None:
            self._standing_ms = self.now_ms()
            self._arm()

    def go_on(self, ahead_ms: int | None = None) -> None:
        """Go on from where it stands, or `ahead_ms` later than the machine if that is later."""
        if self._standing_ms is not None:
            self._ahead_ms = self._standing_ms - self._machine.now_ms()
            if ahead_ms is not None:
                self._ahead_ms = max(self._ahead_ms, ahead_ms)
            self._standing_ms = None
            self.upkeep_pause_ms = self._upkeep_from_ms = 0
            self._arm()

    def put_forward(self, elapsed_ms: int) -> None:
        """Stand so much later. Nothing rings by that: `ring` comes next."""
        assert self._standing_ms is not None, "only while it stands"
        assert elapsed_ms >= 0, elapsed_ms
        self._standing_ms += elapsed_ms

    def next_due_ms(self) -> int | None:
        """When something rings next; None if nothing is planned."""
        due_ms = self._timers.next_due_ms()
        upkeep_ms = self._upkeep.next_due_ms()
        if upkeep_ms is not None:
            upkeep_ms = max(upkeep_ms, self._upkeep_from_ms)
            due_ms = upkeep_ms if due_ms is None else min(due_ms, upkeep_ms)
        return due_ms

    def ring(self, *, with_upkeep: bool = False) -> int:
        """Have the loop call what is due, in order; how much that is.

        `with_upkeep` rings for the upkeep that is due even if it shall pause.
        """
        now_ms = self.now_ms()
        due = self._timers.take_due(now_ms)
        if with_upkeep or now_ms >= self._upkeep_from_ms:
            upkeep = self._upkeep.take_due(now_ms)
            if upkeep:
                self._upkeep_from_ms = now_ms + self.upkeep_pause_ms
                due += upkeep
        for timer in due:
            # By the loop, so that one that fails does not take the others with it.
            self._machine.call_soon(timer.ring)
        return len(due)

    def set_back(self) -> None:
        """Tell the machine's time again. Timers wait for as long as they would have waited.

        Only for who has nothing that remembers times of this clock.
        """
        self.go_on()
        ahead_ms, self._ahead_ms = self._ahead_ms, 0
        for heap in (self._timers, self._upkeep):
            heap.shift(-ahead_ms)
        self._arm()

    # --- details ----------------------------------------------------------------------------------

    def _plan(self, heap: _Heap, delay: float, callback: Callable[[], None]) -> Timer:
        # Rounded first: in floating point 0.3 s may be a little more than 300 ms.
        delay_ms = max(-(-round(delay * 1_000_000) // 1000), 0)
        timer = heap.add(self.now_ms() + delay_ms, callback)
        if self._alarm is None or timer.due_ms < self._alarm_due_ms:
            self._arm()
        return timer

    def _arm(self) -> None:
        """Have the machine's clock ring for what is due next, if time goes on until then."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due_ms = self.next_due_ms()
        if due_ms is None:
            return
        delay_ms = max(due_ms - self.now_ms(), 0)
        if delay_ms and self.is_standing:
            return
        self._alarm_due_ms = due_ms
        self._alarm = self._machine.call_later(delay_ms / 1000, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self.ring()
        self._arm()
