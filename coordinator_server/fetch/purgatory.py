"""The purgatory: operations that wait for something to happen to a key, or for their time.

Kafka's DelayedOperationPurgatory for one thread. An operation is parked under the keys it waits
for; `notify(key)` has it look again. Keys that change during one turn of the loop are looked at
once, after the handlers of that turn, so a producer gets its answer before the consumers are
served and ten appends wake a fetch one time. All deadlines share one loop timer. An operation
that completes or is dropped leaves nothing behind under its keys; its entry in the heap of
deadlines goes when it is popped, or when most of the heap is of that kind. Operations whose
client is gone are dropped when their key changes, at their deadline, or when the number of
waiting ones has doubled since the last sweep, so they cannot pile up either.
"""

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush

from coordinator_server.clock.broker_clock import Scheduler, Timer

_STALE_ENTRIES_KEPT = 64


class KeyedOperation:
    """Something that completes once: when `try_complete` says so, when it expires, or never.

    Subclasses give `try_complete` (ends with `return self.force_complete()` when the time has
    come), `on_complete` (the work, called once) and perhaps `on_expiration` (called before it, when
    the deadline did it). `deadline_ms` is on the clock of the purgatory.
    """

    __slots__ = ("_keys", "deadline_ms", "is_completed")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.is_completed = False
        self._keys: tuple[Hashable, ...] = ()

    def try_complete(self) -> bool:
        """Complete if what was waited for is there; tell whether it was."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Do what was delayed."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Take note that the deadline has passed; `on_complete` follows."""

    def is_abandoned(self) -> bool:
        """Whether no client waits for the outcome any more; the operation is then dropped."""
        return False

    def force_complete(self) -> bool:
        """Complete now, unless that was done before; tell whether it was done by this call."""
        if self.is_completed:
            return False
        self.is_completed = True
        self.on_complete()
        return True


class KeyedPurgatory:
    """Where delayed operations wait. `now_ms` is the clock of the deadlines."""

    __slots__ = ("_changed", "_heap", "_now_ms", "_order", "_scheduler", "_sweep_at", "_timer",
                 "_timer_due_ms", "_waiting", "_watchers", "changes")  # fmt: skip

    def __init__(self, scheduler: Scheduler, now_ms: Callable[[], int]) -> None:
        self.changes = 0
        """How often a key has changed: who looks in steps sees whether to look once more."""
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
        """How many operations wait."""
        return self._waiting

    @property
    def is_busy(self) -> bool:
        """Whether another look is due."""
        return bool(self._changed)

    @property
    def watched_keys(self) -> int:
        """How many keys operations wait for."""
        return len(self._watchers)

    @property
    def deadlines_held(self) -> int:
        """Length of the heap of deadlines, with those that are settled already."""
        return len(self._heap)

    def watch(self, operation: KeyedOperation, keys: Iterable[Hashable]) -> None:
        """Park an operation that is known to have to wait."""
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
        """Tell that `key` has changed; who waits for it looks again after this turn of the loop."""
        self.changes += 1
        if key in self._watchers:
            if not self._changed:
                self._scheduler.call_soon(self._look_again)
            self._changed[key] = None

    def check_and_complete(self, key: Hashable) -> int:
        """Have all that wait for `key` look again now; how many completed."""
        completed = 0
        for operation in tuple(self._watchers.get(key, ())):
            if operation.is_completed:
                continue  # by one that was looked at before it
            if operation.is_abandoned():
                self.drop(operation)
            elif operation.try_complete():
                self._forget(operation)
                completed += 1
        return completed

    def drop(self, operation: KeyedOperation) -> None:
        """Forget an operation that no client waits for any more; it never completes."""
        if not operation.is_completed:
            operation.is_completed = True
            self._forget(operation)

    def expire(self) -> None:
        """Complete what is past its deadline. The timer calls this."""
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
        """Complete everything that waits, before its time: the broker stops."""
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
        """Have the timer ring at the first deadline; one that rings too early does no harm."""
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
