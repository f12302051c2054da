"""The time of a running cluster with virtual clocks: advance, freeze, resume.

Such a cluster has two of them. `clock` is the broker's time: timestamps, and the timers of groups,
offsets and logs. `client_clock` is the time that clients wait: a fetch that is parked for 500 ms is
answered after 500 ms although the broker's time is frozen, since its client would not wait longer.
An advance moves both.

To advance by five minutes is not to add five minutes to the clock: time moves from one timer to the
next, each fires at its own millisecond, and everything that follows from it is done before time
moves on. Meanwhile no request is handled: for clients an advance takes no time. So an advance is
bounded work: what is pending when it begins, what follows from that, and a number of rounds of
maintenance.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from coordinator_server.clock.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster

MAINTENANCE_ROUNDS = 20
"""The rounds of maintenance (retention, compaction, expiry of offsets) in an advance at most,
however many of its intervals pass; one more is done at the end, if it is due then."""

INTAKE_ITERATIONS = 100
"""Iterations of the loop for the requests that have arrived when an advance is asked for."""

_IDLE_INTAKE_ITERATIONS = 3  # to accept a connection, open it and read from it

_TIMER_ITERATIONS = 4  # of the loop: timer, mailbox, answer, and fetches that a log wakes up
_IDLE_ITERATIONS = 2
_BUSY_ITERATIONS = 50
_PAUSE_SECONDS = 0.001
QUIESCENCE_SECONDS = 30.0


class ClockError(Exception):
    """The time could not be changed; the text says why."""


class ClockController:
    """Changes the time of one cluster, one change after the other."""

    def __init__(self, cluster: Cluster) -> None:
        clock, client_clock = cluster.clock, cluster.client_clock
        if not isinstance(clock, VirtualClock) or not isinstance(client_clock, VirtualClock):
            raise ClockError("this broker has no virtual clock")
        self.clock = clock
        self._cluster = cluster
        self._clocks = (clock, client_clock)

    @property
    def is_frozen(self) -> bool:
        """Whether the broker's time does not run; during an advance it does not."""
        return self.clock.is_frozen

    async def advance(self, elapsed_ms: int) -> None:
        """Advance the time; returns when everything that is due by then has been done.

        A clock that was frozen is frozen afterwards, one that ran runs on. Raises ClockError if the
        broker does not come to rest: the time is then what it has come to.
        """
        cluster = self._cluster
        async with cluster.changing:
            await self._take_in_requests()
            cluster.hold_requests()
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
                    clock.resume(offset_ms)  # the time that this took the machine has passed too
                cluster.release_requests()

    async def wait(self) -> None:
        """Wait until a change that is under way is done."""
        async with self._cluster.changing:
            pass

    async def freeze(self) -> None:
        """Freeze the broker's time, if it runs."""
        async with self._cluster.changing:
            self.clock.freeze()

    async def resume(self) -> None:
        """Let the broker's time run on from where it is, if it is frozen."""
        async with self._cluster.changing:
            self.clock.resume()

    async def _fire_until(self, elapsed_ms: int) -> None:
        """Move both clocks from timer to timer. They are frozen."""
        while True:
            # What is due already costs no time: it fires before anything else.
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
        """Handle what clients have sent so far; not without end, as some never stop sending.

        The pauses are for the kernel: what does not fit into a socket's window at first follows a
        little after the rest.
        """
        idle = 0
        for _ in range(INTAKE_ITERATIONS):
            is_behind = self._cluster.is_behind
            idle = 0 if is_behind else idle + 1
            if idle > _IDLE_INTAKE_ITERATIONS:
                return
            await asyncio.sleep(0 if is_behind else _PAUSE_SECONDS)

    async def _quiesce(self, idle_iterations: int, *, with_groups: bool) -> None:
        """Let the loop run until it was idle for so many iterations in a row. Raises ClockError.

        `with_groups` looks into the mailbox of every group; a few iterations empty all of them
        anyway.
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
    """How long it is until a timer fires, `most_ms` at most."""
    due_ms = clock.next_due_ms()
    return most_ms if due_ms is None else min(max(due_ms - clock.now_ms(), 0), most_ms)
