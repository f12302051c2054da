"""The purgatory: delayed operations that wait for a change of a key or for their deadline.

This is a single-threaded version of Kafka's DelayedOperationPurgatory. An operation is registered
under the keys it watches; `notify(key)` schedules another check. Keys that change during one turn
of the event loop are checked once, after the handlers of that turn, so a producer gets its
response before consumers are served, and ten appends wake a fetch once. All deadlines share one
timer. A completed or dropped operation is removed from its keys at once; its heap entry is removed
when popped or when most heap entries are stale. Operations whose client has disconnected are
dropped when their key changes, at their deadline, or when the number of waiting operations has
doubled since the last sweep, so they cannot accumulate.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from coordinator_server.clock.broker_clock import Scheduler, Timer

if TYPE_CHECKING:
    from coordinator_server.net.call import Call


_STALE_ENTRIES_KEPT = 64


class KeyedOperation:
    """An operation that completes at most once: by `try_complete` or when its deadline passes.

    Subclasses define `try_complete` (which ends with `return self.force_complete()` if the
    condition holds), `on_complete` (the work, called once) and optionally `on_expiration` (called
    before `on_complete` when the deadline has passed). `deadline_ms` is a time of the purgatory's
    clock.
    """

    __slots__ = ("_keys", "deadline_ms", "is_completed")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.is_completed = False
        self._keys: tuple[Hashable, ...] = ()

    def try_complete(self) -> bool:
        """Complete the operation if its condition holds; return whether it did."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Do the delayed work."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Record that the deadline has passed; `on_complete` follows."""

    def is_abandoned(self) -> bool:
        """Return whether no client waits for the result; such operations are dropped."""
        return False

    def force_complete(self) -> bool:
        """Complete the operation now; return False if it was completed before."""
        if self.is_completed:
            return False
        self.is_completed = True
        self.on_complete()
        return True


class KeyedPurgatory:
    """Holds delayed operations. `now_ms` is the clock of the deadlines."""

    __slots__ = ("_changed", "_heap", "_now_ms", "_order", "_scheduler", "_sweep_at", "_timer",
                 "_timer_due_ms", "_waiting", "_watchers", "changes")  # fmt: skip

    def __init__(self, scheduler: Scheduler, now_ms: Callable[[], int]) -> None:
        self.changes = 0
        """Number of `notify` calls; work in steps compares it to detect changes between steps."""
        self._scheduler = scheduler
        self._now_ms = now_ms
        self._watchers: dict[Hashable, dict[KeyedOperation, None]] = {}
        self._changed: dict[Hashable, None] = {}
        self._heap: list[tuple[int, int, KeyedOperation]] = []
        self._order = 0
        self._waiting = 0
        self._sweep_at = _STALE_ENTRIES_KEPT
        self._timer: Timer | None = None
        self._timer_due_ms = 0

    def __len__(self) -> int:
        """Return the number of waiting operations."""
        return self._waiting

    def operations(self) -> list[KeyedOperation]:
        """Return the waiting operations."""
        return [entry[2] for entry in self._heap if not entry[2].is_completed]

    @property
    def is_busy(self) -> bool:
        """Whether changed keys are still to be checked."""
        return bool(self._changed)

    @property
    def watched_keys(self) -> int:
        """Number of keys that operations watch."""
        return len(self._watchers)

    @property
    def deadlines_held(self) -> int:
        """Number of entries in the deadline heap, including completed operations."""
        return len(self._heap)

    def watch(self, operation: KeyedOperation, keys: Iterable[Hashable]) -> None:
        """Register an operation that has just been found incomplete."""
        assert not operation.is_completed
        assert not operation._keys
        operation._keys = tuple(dict.fromkeys(keys))
        assert operation._keys, "an operation waits for something"
        for key in operation._keys:
            self._watchers.setdefault(key, {})[operation] = None
        self._waiting += 1
        self._order += 1
        heappush(self._heap, (operation.deadline_ms, self._order, operation))
        if self._waiting > self._sweep_at:
            self._sweep()
        self._arm()

    def notify(self, key: Hashable) -> None:
        """Report a change of `key`; its operations are checked after this event loop turn."""
        self.changes += 1
        if key in self._watchers:
            if not self._changed:
                self._scheduler.call_soon(self._look_again)
            self._changed[key] = None

    def check_and_complete(self, key: Hashable) -> int:
        """Check all operations that watch `key` now; return how many completed."""
        completed = 0
        for operation in tuple(self._watchers.get(key, ())):
            if operation.is_completed:
                continue  # another check has already completed this operation
            if operation.is_abandoned():
                self.drop(operation)
            elif operation.try_complete():
                self._forget(operation)
                completed += 1
        return completed

    def drop(self, operation: KeyedOperation) -> None:
        """Remove an operation without completing it, because no client waits for it."""
        if not operation.is_completed:
            operation.is_completed = True
            self._forget(operation)

    def expire(self) -> None:
        """Complete the operations whose deadline has passed. Called by the timer."""
        self._timer = None
        now_ms = self._now_ms()
        while self._heap and (self._heap[0][2].is_completed or self._heap[0][0] <= now_ms):
            operation = heappop(self._heap)[2]
            if operation.is_completed:
                continue
            if operation.is_abandoned():
                self.drop(operation)
                continue
            self._forget(operation)
            operation.on_expiration()
            operation.force_complete()
        self._arm()

    def close(self) -> None:
        """Complete all waiting operations immediately, because the broker stops."""
        for _, _, operation in tuple(self._heap):
            if not operation.is_completed:
                self._forget(operation)
                operation.force_complete()
        self._heap.clear()
        self._changed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_again(self) -> None:
        changed, self._changed = self._changed, {}
        for key in changed:
            self.check_and_complete(key)

    def _sweep(self) -> None:
        for _, _, operation in tuple(self._heap):
            if not operation.is_completed and operation.is_abandoned():
                self.drop(operation)
        self._sweep_at = 2 * self._waiting + _STALE_ENTRIES_KEPT

    def _forget(self, operation: KeyedOperation) -> None:
        if not operation._keys:
            return
        for key in operation._keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
        operation._keys = ()
        self._waiting -= 1
        if len(self._heap) > 2 * self._waiting + _STALE_ENTRIES_KEPT:
            self._heap = [entry for entry in self._heap if not entry[2].is_completed]
            heapify(self._heap)

    def _arm(self) -> None:
        """Set the timer for the earliest deadline; a timer that fires early does no harm."""
        if not self._heap:
            return
        due_ms = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_due_ms = due_ms
        delay_ms = max(due_ms - self._now_ms(), 0)
        self._timer = self._scheduler.call_later(delay_ms / 1000, self.expire)


class DelayedAnswer(KeyedOperation):
    """Calls `answer` at `deadline_ms` of the client's clock, unless the client has disconnected.

    Nothing else ends the wait: the operation is its own key, which is never notified.
    """

    __slots__ = ("_answer", "_call")

    def __init__(self, call: Call, deadline_ms: int, answer: Callable[[], None]) -> None:
        super().__init__(deadline_ms)
        self._call = call
        self._answer = answer

    def on_complete(self) -> None:
        """Send the response."""
        self._answer()

    def is_abandoned(self) -> bool:
        """Return whether the client has disconnected."""
        return self._call.connection.closed
