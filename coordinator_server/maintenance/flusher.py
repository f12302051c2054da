"""Flusher: runs fsync in threads, so that the event loop is not blocked.

With `flush.messages` the response to an append waits for a sync. All appends during a sync of a log
share the next sync. Several logs are synced concurrently, which a journaling file system combines
into one commit.

The Flusher also does other long work of storage (see `storage.worker`), and checks batches in one
additional thread. More threads that compute would slow down the event loop.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol

from coordinator_server.events.log import LOG
from storage.errors import StorageError
from storage.flush import Flush

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    from storage.flush import Check, Done
    from storage.partition_log import PartitionLog

_THREADS = 4


class Loop(Protocol):
    """The methods of an event loop by which threads report their results."""

    def is_closed(self) -> bool:
        """Return whether the event loop is closed and runs no more callbacks."""

    def call_soon_threadsafe(self, callback: Callable[..., None], /, *args: object) -> object:
        """Call back in the thread of the event loop."""


class Flusher:
    """Syncs the logs of one data directory. Threads start with the first work."""

    __slots__ = ("_checker", "_checks", "_is_closed", "_loop", "_pool", "_running", "_waiting")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._pool: ThreadPoolExecutor | None = None
        self._checker: ThreadPoolExecutor | None = None
        self._checks: set[Check] = set()
        self._is_closed = False
        self._running: set[PartitionLog] = set()
        # For each log: the offsets up to which to sync, with their callbacks.
        self._waiting: dict[PartitionLog, list[tuple[int, Done]]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a sync is running."""
        return bool(self._running)

    @property
    def is_checking(self) -> bool:
        """Whether a request waits for the check of a batch."""
        return bool(self._checks)

    def submit(self, work: Callable[[], None], /) -> Future[None]:
        """Run the work in a thread."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
        return self._pool.submit(work)

    def submit_check(self, work: Callable[[], None], /) -> Future[None]:
        """Run the work in the thread for checks."""
        if self._checker is None:
            from concurrent.futures import ThreadPoolExecutor

            self._checker = ThreadPoolExecutor(1, thread_name_prefix="check")
        return self._checker.submit(work)

    def check(self, check: Check, done: Callable[[], None]) -> None:
        """Run a check in a thread, then call `done` in the event loop unless it was cancelled."""
        self._checks.add(check)
        self.submit_check(check.run).add_done_callback(partial(self._check_ended, check, done))

    def cancel_checks(self) -> None:
        """Cancel all checks in progress; their callbacks are not called."""
        for check in self._checks:
            check.cancel()

    def _check_ended(self, check: Check, done: Callable[[], None], _: Future[None]) -> None:
        """Schedule `_finish_check` in the event loop if it is open. Runs in the thread."""
        if not self._is_closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish_check, check, done)

    def _finish_check(self, check: Check, done: Callable[[], None]) -> None:
        self._checks.discard(check)
        if not self._is_closed and not check.is_cancelled:
            done()

    def when_flushed(self, log: PartitionLog, done: Done) -> None:
        """Call `done(None)` when the log is synced up to its current end, or `done(error)`."""
        self._waiting.setdefault(log, []).append((log.log_end_offset, done))
        if log not in self._running:
            self._start(log)

    def close(self) -> None:
        """Finish running syncs and cancel checks.

        Callbacks of syncs run in the next turn of the event loop; callbacks of checks do not run.
        """
        self._is_closed = True
        self.cancel_checks()
        self._checks.clear()
        if self._checker is not None:
            self._checker.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.shutdown()

    def _start(self, log: PartitionLog) -> None:
        self._running.add(log)
        flush = Flush(log)
        self.submit(flush.run).add_done_callback(partial(self._ended, flush))

    def _ended(self, flush: Flush, future: Future[None]) -> None:
        """Schedule `_finish` in the event loop if it is open. Runs in the thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish, flush, future)

    def _finish(self, flush: Flush, future: Future[None]) -> None:
        log = flush.log
        self._running.discard(log)
        try:
            future.result()
        except OSError as failure:
            self._give_up(log, log.give_up(failure))
            return
        if not log.closed:
            flush.done()
        waiting = self._waiting.pop(log, [])
        later = [waiter for waiter in waiting if waiter[0] > flush.end_offset]
        if later:
            self._waiting[log] = later
            self._start(log)
        _tell([done for end_offset, done in waiting if end_offset <= flush.end_offset], None)

    def _give_up(self, log: PartitionLog, error: StorageError) -> None:
        """Report a failed sync to all waiting requests; the log will be opened again."""
        LOG.emit("log.failed", topic=log.topic, partition=log.partition, reason=error.message)
        _tell([done for _, done in self._waiting.pop(log, [])], error)


def _tell(waiting: Sequence[Done], error: StorageError | None) -> None:
    """Call all callbacks, even if one of them raises."""
    with ExitStack() as stack:
        for done in reversed(waiting):
            stack.callback(done, error)
