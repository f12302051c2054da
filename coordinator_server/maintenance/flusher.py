"""Flusher: fsync in threads, so that the loop goes on, and many answers wait for one of them.

With `flush.messages` an answer follows the sync of what it tells of. While a log is being synced,
everything that is appended to it waits for the next sync, which then serves all of it; several logs
are synced at the same time, which a journaling file system makes one commit of.

It is also the worker that storage hands its other long work to (see `storage.worker`), and checks
batches in one more thread. One only: several threads that compute would hold up the loop.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from storage.errors import StorageError
from storage.flush import Flush

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    from storage.flush import Check, Done
    from storage.partition_log import PartitionLog

_THREADS = 4


class Flusher:
    """The syncing of the logs of one data directory. The threads begin with the first work."""

    __slots__ = ("_checker", "_checks", "_is_closed", "_loop", "_pool", "_running", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool: ThreadPoolExecutor | None = None
        self._checker: ThreadPoolExecutor | None = None
        self._checks: set[Check] = set()
        self._is_closed = False
        self._running: set[PartitionLog] = set()
        # By log: up to which offset it has to be synced, and whom to tell.
        self._waiting: dict[PartitionLog, list[tuple[int, Done]]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a request waits for a sync."""
        return bool(self._running)

    @property
    def is_checking(self) -> bool:
        """Whether a request waits for the check of a batch."""
        return bool(self._checks)

    def submit(self, work: Callable[[], None], /) -> Future[None]:
        """Do the work in a thread."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
        return self._pool.submit(work)

    def submit_check(self, work: Callable[[], None], /) -> Future[None]:
        """Do the work in the thread for checks."""
        if self._checker is None:
            from concurrent.futures import ThreadPoolExecutor

            self._checker = ThreadPoolExecutor(1, thread_name_prefix="check")
        return self._checker.submit(work)

    def check(self, check: Check, done: Callable[[], None]) -> None:
        """Run a check in its thread, then call `done` in the loop unless it is cancelled."""
        self._checks.add(check)
        self.submit_check(check.run).add_done_callback(partial(self._check_ended, check, done))

    def cancel_checks(self) -> None:
        """Have the checks under way end soon; who waits for them is not called."""
        for check in self._checks:
            check.cancel()

    def _check_ended(self, check: Check, done: Callable[[], None], _: Future[None]) -> None:
        """In the thread: go back to the loop, if there still is one."""
        if not self._is_closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish_check, check, done)

    def _finish_check(self, check: Check, done: Callable[[], None]) -> None:
        self._checks.discard(check)
        if not self._is_closed and not check.is_cancelled:
            done()

    def when_flushed(self, log: PartitionLog, done: Done) -> None:
        """Call `done` once everything that is in the log now is synced, or cannot be."""
        self._waiting.setdefault(log, []).append((log.log_end_offset, done))
        if log not in self._running:
            self._start(log)

    def close(self) -> None:
        """Finish the syncs under way, and cancel the checks.

        Callbacks of syncs run in the next turn of the loop; callbacks of checks do not run.
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
        """In the thread: go back to the loop, if there still is one."""
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
        later = [one for one in waiting if one[0] > flush.end_offset]
        if later:
            self._waiting[log] = later
            self._start(log)
        _tell([done for end_offset, done in waiting if end_offset <= flush.end_offset], None)

    def _give_up(self, log: PartitionLog, error: StorageError) -> None:
        """The disk failed: no request is acknowledged, and the log is opened again."""
        LOG.emit("log.failed", topic=log.topic, partition=log.partition, reason=error.message)
        _tell([done for _, done in self._waiting.pop(log, [])], error)


def _tell(waiting: Sequence[Done], error: StorageError | None) -> None:
    """Call all back, also when one of them raises."""
    with ExitStack() as stack:
        for done in reversed(waiting):
            stack.callback(done, error)
