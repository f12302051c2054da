"""A flusher whose thread the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

from coordinator_server.maintenance.flusher import Flusher
from storage.errors import StorageError
from tests.harness.client import SentRequest
from tests.harness.clock import settle


class ManualFlusher(Flusher):
    """A flusher without threads: work is done when the test calls `work`."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self.jobs: list[tuple[Callable[[], None], Future[None]]] = []
        self.checks: list[tuple[Callable[[], None], Future[None]]] = []

    def submit(self, work: Callable[[], None], /) -> Future[None]:
        """Queue the work and return its future."""
        future: Future[None] = Future()
        self.jobs.append((work, future))
        return future

    def submit_check(self, work: Callable[[], None], /) -> Future[None]:
        """Queue the check and return its future."""
        future: Future[None] = Future()
        self.checks.append((work, future))
        return future

    async def run_checks(self) -> None:
        """Run the queued batch checks and let the loop handle the results."""
        checks, self.checks = self.checks, []
        for check, future in checks:
            try:
                check()
            except StorageError as error:
                future.set_exception(error)
            else:
                future.set_result(None)
        await settle()

    async def work(self) -> int:
        """Do the queued work and let the loop handle the results; return the number of jobs."""
        jobs, self.jobs = self.jobs, []
        for job, future in jobs:
            try:
                job()
            except OSError as error:
                future.set_exception(error)
            else:
                future.set_result(None)
        await settle()
        return len(jobs)


def codes(call: SentRequest) -> list[int]:
    """Return the error codes of the response."""
    return [one.error_code for one in call.replies[0].responses[0].partition_responses]
