"""The virtual clock of a broker in a test: the time moves only as the test says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from coordinator_server.clock.broker_clock import HeapTimer, Timer
from coordinator_server.clock.virtual_clock import VirtualClock

START_MS = 1_700_000_000_000


class _Callback:
    """A queued callback, which can be cancelled."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Cancel the callback."""
        self.call = None

    def run(self) -> None:
        """Call back unless the callback was cancelled."""
        if self.call is not None:
            self.call()


class _Machine:
    """A machine whose time stands still; its callbacks are queued.

    Within a running event loop each turn of the loop runs the callbacks that were queued before.
    """

    def __init__(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.soon: deque[_Callback] = deque()
        self._is_scheduled = False

    def now_ms(self) -> int:
        return self.start_ms

    def call_soon(self, callback: Callable[[], None], /) -> _Callback:
        queued = _Callback(callback)
        self.soon.append(queued)
        if not self._is_scheduled and (loop := _running_loop()) is not None:
            self._is_scheduled = True
            loop.call_soon(self._turn_once)
        return queued

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer:
        # The virtual clock is frozen and calls this only for timers that are due, so run the
        # callback at once.
        return self.call_soon(callback)

    call_maintenance = call_later

    def _turn_once(self) -> None:
        self._is_scheduled = False
        for _ in range(len(self.soon)):
            self.run_next()
        if self.soon and not self._is_scheduled and (loop := _running_loop()) is not None:
            self._is_scheduled = True
            loop.call_soon(self._turn_once)

    def run_next(self) -> None:
        """Run the oldest callback."""
        self.soon.popleft().run()


class ManualClock(VirtualClock):
    """The broker's virtual clock, frozen: `pass_time` moves it, `turn` runs its callbacks.

    With `runs_maintenance=False` the periodic work of `call_maintenance` never runs.
    """

    __slots__ = ("_callbacks", "runs_maintenance")

    def __init__(self, now_ms: int = START_MS, *, runs_maintenance: bool = True) -> None:
        self._callbacks = _Machine(now_ms)
        self.runs_maintenance = runs_maintenance
        super().__init__(self._callbacks)
        self.freeze()

    @property
    def time_ms(self) -> int:
        """The time in ms since the epoch; setting it fires no timers."""
        return self.now_ms()

    @time_ms.setter
    def time_ms(self, now_ms: int) -> None:
        self._frozen_ms = now_ms

    @property
    def soon(self) -> deque[_Callback]:
        """The callbacks that the next turn runs."""
        return self._callbacks.soon

    def take_soon(self) -> list[_Callback]:
        """Take the queued callbacks, which do not run unless they are queued again."""
        taken = list(self.soon)
        self.soon.clear()
        return taken

    @property
    def timers(self) -> list[HeapTimer]:
        """The timers that are set, except the timers of maintenance, in no order."""
        return list(self._timers)

    def call_maintenance(self, delay: float, callback: Callable[[], None], /) -> Timer:
        """Set a timer; with `runs_maintenance=False` the timer never fires."""
        if not self.runs_maintenance:
            return _Callback(callback)
        return super().call_maintenance(delay, callback)

    def call_soon_threadsafe(self, callback: Callable[..., None], /, *args: object) -> object:
        """Queue a callback, as the event loop does for a thread."""
        return self.call_soon(lambda: callback(*args))

    def is_closed(self) -> bool:
        """Return False: callbacks are always run."""
        return False

    def turn(self) -> None:
        """Run the queued callbacks and the callbacks that they queue."""
        while self.soon:
            self._callbacks.run_next()

    def pass_time(self, elapsed_ms: int) -> None:
        """Advance the time from timer to timer, each of which fires at its own millisecond."""
        self.turn()
        end_ms = self.now_ms() + elapsed_ms
        while (due_ms := self.next_due_ms()) is not None and due_ms <= end_ms:
            self._frozen_ms = max(due_ms, self.now_ms())
            self.fire()
            self.turn()
        self._frozen_ms = end_ms


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def settle() -> None:
    """Let the running event loop finish waiting callbacks and the callbacks that they queue."""
    for _ in range(20):
        await asyncio.sleep(0)
