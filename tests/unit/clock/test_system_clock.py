"""The system clock: the time of day, and timers on the running event loop."""

from __future__ import annotations

import asyncio
from functools import partial

from coordinator_server.clock.broker_clock import TIMERS_PER_TURN, SystemClock
from tests.harness.clock import START_MS


async def test_it_runs_and_fires() -> None:
    """The clock's time is after the epoch of the tests, and no timer fires early."""
    clock = SystemClock()
    started_ms = clock.now_ms()
    assert started_ms > START_MS
    started_s = asyncio.get_running_loop().time()
    fired = asyncio.Event()
    clock.call_later(0.0101, fired.set)
    await fired.wait()
    assert asyncio.get_running_loop().time() - started_s >= 0.0101


async def test_timers_fire_in_the_order_of_their_time() -> None:
    """A later timer does not delay an earlier timer, in whichever order they were set."""
    clock = SystemClock()
    fired: list[str] = []
    ended = asyncio.Event()
    clock.call_later(0.03, ended.set)
    clock.call_later(0.02, partial(fired.append, "second"))
    clock.call_later(0, partial(fired.append, "first"))
    clock.call_later(0.02, partial(fired.append, "third"))
    await ended.wait()
    assert fired == ["first", "second", "third"]


async def test_a_cancelled_timer_does_not_fire() -> None:
    """A cancelled timer does not fire, whether it is first in the queue or due in this turn."""
    clock = SystemClock()
    fired: list[str] = []
    ended = asyncio.Event()
    first = clock.call_later(0.001, partial(fired.append, "first"))
    first.cancel()
    clock.call_later(0.002, lambda: last.cancel())
    last = clock.call_later(0.002, partial(fired.append, "last"))
    clock.call_later(0.02, ended.set)
    await ended.wait()
    assert fired == []


async def test_the_loop_is_free_between_many_timers() -> None:
    """Timers that are due together fire TIMERS_PER_TURN at a time, leaving turns for the loop."""
    clock = SystemClock()
    turns: list[int] = []
    turn = 0
    left = 3 * TIMERS_PER_TURN
    ended = asyncio.Event()

    def fire() -> None:
        nonlocal left
        turns.append(turn)
        left -= 1
        if not left:
            ended.set()

    def count_turns() -> None:
        nonlocal turn
        turn += 1
        if left:
            asyncio.get_running_loop().call_soon(count_turns)

    for _ in range(left):
        clock.call_later(0.001, fire)
    count_turns()
    await ended.wait()
    assert max(turns.count(one) for one in set(turns)) == TIMERS_PER_TURN
