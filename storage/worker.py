"""Runs blocking work, such as an fsync, in a thread beside the event loop.

`storage` creates no threads: the owner of the data directory can supply a worker, such as a
`ThreadPoolExecutor`. Without a worker the work is done inline, on the calling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Protocol


class Pause(Enum):
    """Yielded by a generator of small steps while it waits for work in a worker thread."""

    WAITING = "waiting"


class Job(Protocol):
    """Work that was submitted to a worker."""

    def done(self) -> bool:
        """Return whether the work is finished."""

    def result(self) -> object:
        """Raise the exception of the work, if any."""


class Worker(Protocol):
    """Runs work, sequentially or concurrently."""

    def submit(self, work: Callable[[], None], /) -> Job:
        """Start the work."""


class _Finished:
    """A job that was done inline; errors were raised to the caller."""

    def done(self) -> bool:
        """Return True."""
        return True

    def result(self) -> None:
        """Do nothing: the work has succeeded."""


class OnTheSpot:
    """Runs work inline, on the calling thread."""

    def submit(self, work: Callable[[], None], /) -> Job:
        """Do the work now. Raises the exception of the work."""
        work()
        return _Finished()


ON_THE_SPOT = OnTheSpot()


def in_worker(worker: Worker, work: Callable[[], None]) -> Iterator[Pause]:
    """Submit the work; yield until it is done. Raises the exception of the work."""
    job = worker.submit(work)
    while not job.done():
        yield Pause.WAITING
    job.result()
