"""Turning the clock of a running cluster: put it forward, let it stand, let it go on.

A cluster has two clocks that can be turned. `clock` is the broker's time: timestamps, and the
timers of groups, offsets and logs. `client_clock` is the time that clients wait: a fetch that is
parked for 500 ms is answered after 500 ms although the broker's time stands, as its client would
not wait longer. Both are put forward together.

To put the clock forward by five minutes is not to add five minutes to it: time goes from one timer
to the next, each rings at its own millisecond, and what it leads to is done before time goes on.
Meanwhile clients are not listened to: for them an advance takes no time. So what may ring is what
waits when the advance begins, what follows from that, and a number of rounds of upkeep.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from coordinator_server.clock.virtual_clock import TurnableClock

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster

UPKEEP_ROUNDS = 20
"""Upkeep (retention, compaction, expiry of offsets) comes so often in an advance at most, however
many of its intervals go by; and once at its end, if it is due then."""

LISTEN_TURNS = 100
"""Turns of the loop that are given to requests which had come when the advance was asked for."""

_LEAST_TURNS = 4  # of the loop: timer, mailbox, answer, and whoever waits for a changed log
_QUIET_TURNS = 2
_HASTY_TURNS = 50
_PAUSE_SECONDS = 0.001
PATIENCE_SECONDS = 30.0


class TurningError(Exception):
    """The clock could not be turned; the text says why."""


class ClockTurner:
    """Turns the clocks of one cluster, one order after the other."""

    def __init__(self, cluster: Cluster) -> None:
        clock, client_clock = cluster.clock, cluster.client_clock
        if not isinstance(clock, TurnableClock) or not isinstance(client_clock, TurnableClock):
            raise TurningError("the clock of this broker cannot be turned")
        self.clock = clock
        self._cluster = cluster
        self._clocks = (clock, client_clock)

    @property
    def is_frozen(self) -> bool:
        """Whether time stands; while it is being put forward, it does."""
        return self.clock.is_standing

    async def advance(self, elapsed_ms: int) -> None:
        """Put the clock forward; returns when everything that is due by then has been done.

        A clock that stood stands afterwards, one that went goes on. Raises TurningError if the
        broker does not come to rest: the time is then where it got to.
        """
        cluster = self._cluster
        async with cluster.changing:
            await self._listen()
            cluster.hold_requests()
            going = [clock for clock in self._clocks if not clock.is_standing]
            ahead_ms = [clock.ahead_ms for clock in going]
            try:
                for clock in self._clocks:
                    clock.stand()
                    clock.upkeep_pause_ms = elapsed_ms // UPKEEP_ROUNDS
                await self._rest(_QUIET_TURNS, with_groups=True)
                await self._go(elapsed_ms)
                await self._rest(_QUIET_TURNS, with_groups=True)
                ahead_ms = [one + elapsed_ms for one in ahead_ms]
            finally:
                for clock, later_ms in zip(going, ahead_ms, strict=True):
                    clock.go_on(later_ms)  # what this took the machine has gone by as well
                cluster.release_requests()

    async def settle(self) -> None:
        """Wait for who is turning the clock."""
        async with self._cluster.changing:
            pass

    async def freeze(self) -> None:
        """Let the broker's time stand, if it does not."""
        async with self._cluster.changing:
            self.clock.stand()

    async def resume(self) -> None:
        """Let the broker's time go on from where it stands, if it stands."""
        async with self._cluster.changing:
            self.clock.go_on()

    async def _go(self, elapsed_ms: int) -> None:
        """From timer to timer. The clocks stand."""
        while True:
            # What is due already costs no time: it rings before anything else.
            step_ms = min(_until_due_ms(clock, elapsed_ms) for clock in self._clocks)
            for clock in self._clocks:
                clock.put_forward(step_ms)
            elapsed_ms -= step_ms
            is_over = not elapsed_ms
            if not sum([clock.ring(with_upkeep=is_over) for clock in self._clocks]) and is_over:
                return
            await self._rest(_LEAST_TURNS, with_groups=False)

    async def _listen(self) -> None:
        """Take in what clients have sent so far, but not for ever: some never stop to send."""
        for turn in range(LISTEN_TURNS):
            await asyncio.sleep(0)
            if turn >= _QUIET_TURNS and not self._cluster.is_behind:
                return

    async def _rest(self, quiet_turns: int, *, with_groups: bool) -> None:
        """Let the loop run until nothing is to be done any more, for so many turns in a row.

        `with_groups` looks into the mailbox of every group; a few turns empty all of them anyway.
        """
        give_up_s = time.monotonic() + PATIENCE_SECONDS
        turn = quiet = 0
        while quiet < quiet_turns:
            await asyncio.sleep(0 if turn < _HASTY_TURNS else _PAUSE_SECONDS)
            turn += 1
            busy_with = self._cluster.busy_with(with_groups=with_groups)
            quiet = 0 if busy_with else quiet + 1
            if busy_with and time.monotonic() > give_up_s:
                raise TurningError(
                    f"the broker is still busy with {busy_with} after {PATIENCE_SECONDS:.0f} s"
                )


def _until_due_ms(clock: TurnableClock, most_ms: int) -> int:
    """How long it is until something rings, `most_ms` at most."""
    due_ms = clock.next_due_ms()
    return most_ms if due_ms is None else min(max(due_ms - clock.now_ms(), 0), most_ms)
