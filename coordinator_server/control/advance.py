"""The time of a running cluster with virtual clocks: advance, freeze, resume.

Such a cluster has two virtual clocks. `clock` is the broker's time: timestamps, and the timers of
groups, offsets and logs. `client_clock` measures how long clients wait: a fetch with a wait of
500 ms is answered after 500 ms even if the broker's time is frozen, because the client waits no
longer. An advance moves both clocks.

An advance does not simply add to the clock. Time moves from timer to timer: each timer fires at its
own millisecond, and all resulting work is done before time moves on. No request is handled
meanwhile, so an advance takes no time for clients, and its work is bounded: the pending timers, the
work that results from them, and a limited number of maintenance rounds.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from coordinator_server.clock.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster

MAINTENANCE_ROUNDS = 20
"""Limit of maintenance rounds (retention, compaction, expiry of offsets) during an advance. A due
round at the end of the advance is run in addition."""

INTAKE_ITERATIONS = 100
"""Limit of event loop iterations to handle requests that arrived before an advance."""

_IDLE_INTAKE_ITERATIONS = 3  # a connection is accepted, opened and read in separate iterations

_TIMER_ITERATIONS = 4  # one each for timer, mailbox, response, and fetches woken by an append
_IDLE_ITERATIONS = 2
_BUSY_ITERATIONS = 50
_PAUSE_SECONDS = 0.001
QUIESCENCE_SECONDS = 30.0


class ClockError(Exception):
    """The time cannot be changed, for the reason in the message."""


class ClockController:
    """Changes the time of one cluster, one change at a time.

    Raises ClockError if the cluster has no virtual clock.
    """

    def __init__(self, cluster: Cluster) -> None:
        clock, client_clock = cluster.clock, cluster.client_clock
        if not isinstance(clock, VirtualClock) or not isinstance(client_clock, VirtualClock):
            raise ClockError("this broker has no virtual clock")
        self.clock = clock
        self._cluster = cluster
        self._clocks = (clock, client_clock)

    @property
    def is_frozen(self) -> bool:
        """Whether the broker's time is frozen, as it is also during an advance."""
        return self.clock.is_frozen

    async def advance(self, elapsed_ms: int) -> None:
        """Advance the time; return when all work that is due by then has been done.

        Afterwards each clock is frozen or running as before. Raises ClockError if the broker stays
        busy; the time then stays at the point reached.
        """
        cluster = self._cluster
        async with cluster.changing:
            await self._take_in_requests()
            cluster.servers.hold_requests()
            running = [clock for clock in self._clocks if not clock.is_frozen]
            offsets_ms = [clock.offset_ms for clock in running]
            try:
                for clock in self._clocks:
                    clock.freeze()
                    clock.maintenance_pause_ms = elapsed_ms // MAINTENANCE_ROUNDS
                await self._quiesce(_IDLE_ITERATIONS, with_groups=True)
                await self._fire_until(elapsed_ms)
                await self._quiesce(_IDLE_ITERATIONS, with_groups=True)
                offsets_ms = [offset_ms + elapsed_ms for offset_ms in offsets_ms]
            finally:
                for clock, offset_ms in zip(running, offsets_ms, strict=True):
                    # The offset includes the real time that the advance took.
                    clock.resume(offset_ms)
                cluster.servers.release_requests()

    async def wait(self) -> None:
        """Wait for a change in progress to finish."""
        async with self._cluster.changing:
            pass

    async def freeze(self) -> None:
        """Freeze the broker's time; no effect if already frozen."""
        async with self._cluster.changing:
            self.clock.freeze()

    async def resume(self) -> None:
        """Let frozen time run on from its current value; no effect if it already runs."""
        async with self._cluster.changing:
            self.clock.resume()

    async def _fire_until(self, elapsed_ms: int) -> None:
        """Move both clocks, which must be frozen, from timer to timer for `elapsed_ms`."""
        while True:
            # Timers that are already due fire first, without moving the time.
            step_ms = min(_until_due_ms(clock, elapsed_ms) for clock in self._clocks)
            for clock in self._clocks:
                clock.advance(step_ms)
            elapsed_ms -= step_ms
            is_over = not elapsed_ms
            fired = sum([clock.fire(with_maintenance=is_over) for clock in self._clocks])
            if not fired and is_over:
                return
            await self._quiesce(_TIMER_ITERATIONS, with_groups=False)

    async def _take_in_requests(self) -> None:
        """Handle the requests that clients have sent, for a bounded time: some never stop sending.

        The pauses let the kernel deliver data that did not fit into a socket's window at first.
        """
        idle = 0
        for _ in range(INTAKE_ITERATIONS):
            is_behind = self._cluster.servers.are_behind
            idle = 0 if is_behind else idle + 1
            if idle > _IDLE_INTAKE_ITERATIONS:
                return
            await asyncio.sleep(0 if is_behind else _PAUSE_SECONDS)

    async def _quiesce(self, idle_iterations: int, *, with_groups: bool) -> None:
        """Run the event loop until it was idle for `idle_iterations` in a row. Raises ClockError.

        `with_groups` also checks the mailbox of every group. Without this check, a few iterations
        are enough to empty the mailboxes.
        """
        give_up_s = time.monotonic() + QUIESCENCE_SECONDS
        iterations = idle = 0
        while idle < idle_iterations:
            await asyncio.sleep(0 if iterations < _BUSY_ITERATIONS else _PAUSE_SECONDS)
            iterations += 1
            busy_with = self._cluster.busy_with(with_groups=with_groups)
            idle = 0 if busy_with else idle + 1
            if busy_with and time.monotonic() > give_up_s:
                raise ClockError(
                    f"the broker is still busy with {busy_with} after {QUIESCENCE_SECONDS:.0f} s"
                )


def _until_due_ms(clock: VirtualClock, most_ms: int) -> int:
    """Return the time until the next timer fires, at most `most_ms`."""
    due_ms = clock.next_due_ms()
    return most_ms if due_ms is None else min(max(due_ms - clock.now_ms(), 0), most_ms)
