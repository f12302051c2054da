"""Work that blocks for long, such as an fsync, in a thread beside the loop that serves clients.

`storage` itself knows no thread: the owner of the data directory may give it a worker (a
`ThreadPoolExecutor` is one). Without one the work is done on the spot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Protocol


class Pause(Enum):
    """What a generator of small steps yields while it waits for work in a worker thread."""

    WAITING = "waiting"


class Job(Protocol):
    """Work that was handed over."""

    def done(self) -> bool:
        """Return whether it is finished."""

    def result(self) -> object:
        """Raise what the work has raised."""


class Worker(Protocol):
    """Does work, one after the other or at the same time."""

    def submit(self, work: Callable[[], None], /) -> Job:
        """Begin the work."""


class _Finished:
    """A job that was done on the spot; errors went to the caller."""

    def done(self) -> bool:
        """It is."""
        return True

    def result(self) -> None:
        """Nothing went wrong."""


class OnTheSpot:
    """The worker for who has no thread."""

    def submit(self, work: Callable[[], None], /) -> Job:
        """Do the work now."""
        work()
        return _Finished()


ON_THE_SPOT = OnTheSpot()


def in_worker(worker: Worker, work: Callable[[], None]) -> Iterator[Pause]:
    """Have the worker do the work; yields until it is done. Raises what it raises."""
    job = worker.submit(work)
    while not job.done():
        yield Pause.WAITING
    job.result()
