"""A clock that can be turned, on top of a machine whose time the test moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator_server.clock.broker_clock import SystemClock
from coordinator_server.clock.virtual_clock import TurnableClock
from tests.unit.topics.fakes import START_MS, FakeClock, FakeScheduler, FakeTimer


class Machine(FakeScheduler):
    """The machine's clock; `advance` lets its time pass and rings."""

    def __init__(self) -> None:
        super().__init__(FakeClock())

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def call_upkeep(self, delay: float, callback: Callable[[], None], /) -> FakeTimer:
        return self.call_later(delay, callback)


class Turned:
    """A TurnableClock, its machine, and the names of what rang with the times at which it did."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.clock = TurnableClock(self.machine)
        self.rung: list[tuple[str, int]] = []

    def note(self, name: str) -> Callable[[], None]:
        """A callback that notes when it is called, in milliseconds since the start."""
        return lambda: self.rung.append((name, self.clock.now_ms() - START_MS))

    def step_to_the_next(self) -> None:
        """Put the standing clock forward to what is due next, and ring."""
        due_ms = self.clock.next_due_ms()
        assert due_ms is not None
        self.clock.put_forward(due_ms - self.clock.now_ms())
        self.clock.ring()
        self.machine.turn()


def test_untouched_it_is_the_machines_clock() -> None:
    """Time and timers are those of the machine until somebody turns it."""
    turned = Turned()
    turned.clock.call_later(0.3, turned.note("later"))
    turned.clock.call_upkeep(0.1, turned.note("upkeep"))
    turned.clock.call_soon(turned.note("soon"))
    turned.machine.advance(99)
    assert turned.rung == [("soon", 0)]
    turned.machine.advance(1)
    turned.machine.advance(200)
    assert turned.rung == [("soon", 0), ("upkeep", 100), ("later", 300)]
    assert turned.clock.ahead_ms == 0


def test_while_it_stands_nothing_rings() -> None:
    """Neither time nor timers move; then both go on from there, never back."""
    turned = Turned()
    turned.clock.call_later(0.5, turned.note("a"))
    turned.machine.advance(200)
    turned.clock.stand()
    turned.clock.stand()
    turned.machine.advance(10_000)
    assert turned.clock.now_ms() == START_MS + 200
    assert turned.rung == []
    turned.clock.go_on()
    turned.clock.go_on()
    assert turned.clock.now_ms() == START_MS + 200
    assert turned.clock.ahead_ms == -10_000
    turned.machine.advance(299)
    assert turned.rung == []
    turned.machine.advance(1)
    assert turned.rung == [("a", 500)]


def test_what_is_due_rings_though_time_stands() -> None:
    """A call planned for now is made now, as it waits for no time."""
    turned = Turned()
    turned.clock.stand()
    turned.clock.call_later(0, turned.note("now"))
    turned.clock.call_later(0.001, turned.note("later"))
    turned.machine.advance(1)
    assert turned.rung == [("now", 0)]


def test_timers_ring_in_the_order_of_their_times() -> None:
    """Each at its own millisecond; those of one millisecond as they were planned."""
    turned = Turned()
    for name, seconds in (("c", 300.0), ("a", 45.0), ("d", 300.0), ("b", 299.9)):
        turned.clock.call_later(seconds, turned.note(name))
    turned.clock.stand()
    for _ in range(3):
        turned.step_to_the_next()
    assert turned.rung == [("a", 45_000), ("b", 299_900), ("c", 300_000), ("d", 300_000)]
    assert turned.clock.next_due_ms() is None


def test_what_a_timer_plans_is_planned_from_its_own_time() -> None:
    """A timer that plans the next one meets it at the time at which it would be in real time."""
    turned = Turned()

    def again() -> None:
        turned.note("tick")()
        turned.clock.call_later(10, again)

    turned.clock.call_later(10, again)
    turned.clock.stand()
    for _ in range(3):
        turned.step_to_the_next()
    assert turned.rung == [("tick", 10_000), ("tick", 20_000), ("tick", 30_000)]


def test_a_cancelled_timer_does_not_ring() -> None:
    """Not even if it is cancelled by one that was due at the same time."""
    turned = Turned()
    second = turned.clock.call_later(0.1, turned.note("cancelled later"))
    turned.clock.call_later(0.05, turned.note("cancelled")).cancel()
    first = turned.clock.call_later(0.09, second.cancel)
    turned.machine.advance(1000)
    first.cancel()
    second.cancel()
    assert turned.rung == []


def test_cancelled_timers_do_not_pile_up() -> None:
    """A timer that is moved for ever costs no more than a few entries."""
    turned = Turned()
    for _ in range(10_000):
        turned.clock.call_later(300, turned.note("never")).cancel()
    assert len(turned.clock._timers) < 200
    turned.clock.call_later(0.001, turned.note("a"))
    turned.machine.advance(1)
    assert turned.rung == [("a", 1)]


def test_upkeep_pauses_while_time_is_put_forward() -> None:
    """Rounds of upkeep in between are left out; the last one is rung for if it is asked for."""
    turned = Turned()

    def round_() -> None:
        turned.note("upkeep")()
        turned.clock.call_upkeep(1, round_)

    turned.clock.call_upkeep(1, round_)
    turned.clock.stand()
    turned.clock.upkeep_pause_ms = 50_000
    turned.step_to_the_next()
    turned.step_to_the_next()
    assert turned.rung == [("upkeep", 1_000), ("upkeep", 51_000)]
    turned.clock.put_forward(10_000)
    assert turned.clock.ring() == 0
    assert turned.clock.ring(with_upkeep=True) == 1
    turned.machine.turn()
    assert turned.rung[2:] == [("upkeep", 61_000)]
    turned.clock.go_on()
    turned.machine.advance(1_000)
    assert turned.rung[3:] == [("upkeep", 62_000)]


def test_a_failing_timer_does_not_take_the_others_with_it() -> None:
    """Every call is the loop's own, which reports what is raised and goes on."""
    turned = Turned()

    def fail() -> None:
        raise ZeroDivisionError

    turned.clock.call_later(0.1, fail)
    turned.clock.call_later(0.1, turned.note("b"))
    turned.clock.stand()
    turned.clock.put_forward(100)
    assert turned.clock.ring() == 2
    with pytest.raises(ZeroDivisionError):
        turned.machine.soon.pop(0)()
    turned.machine.turn()
    assert turned.rung == [("b", 100)]


def test_set_back_it_tells_the_machines_time() -> None:
    """Timers wait for as long as they would have waited."""
    turned = Turned()
    turned.clock.call_later(10, turned.note("a"))
    turned.clock.call_upkeep(20, turned.note("b"))
    turned.clock.stand()
    turned.clock.put_forward(4_000)
    turned.clock.set_back()
    assert turned.clock.now_ms() == turned.machine.now_ms()
    turned.machine.advance(5_999)
    assert turned.rung == []
    turned.machine.advance(1)
    turned.machine.advance(10_000)
    assert turned.rung == [("a", 6_000), ("b", 16_000)]


async def test_the_system_clock_goes_forward_and_rings() -> None:
    """It tells a time after the epoch of this file, and its timers are the loop's."""
    import asyncio

    clock = SystemClock()
    started_ms = clock.now_ms()
    assert started_ms > START_MS
    rung = asyncio.Event()
    clock.call_later(0.01, rung.set)
    await rung.wait()
    assert clock.now_ms() >= started_ms + 10
