"""The virtual clock, on top of a machine clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator_server.clock.virtual_clock import VirtualClock
from tests.harness.clock import START_MS, ManualClock


class VirtualTime:
    """A VirtualClock and its machine; `fired` has the names of fired timers and their times."""

    def __init__(self) -> None:
        self.machine = ManualClock()
        self.clock = VirtualClock(self.machine)
        self.fired: list[tuple[str, int]] = []

    def note(self, name: str) -> Callable[[], None]:
        """Return a callback that records the time of its call, in ms since the start."""
        return lambda: self.fired.append((name, self.clock.now_ms() - START_MS))

    def fire_next(self) -> None:
        """Advance the frozen clock to the next due timer, and fire it."""
        due_ms = self.clock.next_due_ms()
        assert due_ms is not None
        self.clock.advance(due_ms - self.clock.now_ms())
        self.clock.fire()
        self.machine.turn()


def test_untouched_it_is_the_machines_clock() -> None:
    """Until it is changed, the clock has the time and timers of the machine."""
    time = VirtualTime()
    time.clock.call_later(0.3, time.note("later"))
    time.clock.call_maintenance(0.1, time.note("maintenance"))
    time.clock.call_soon(time.note("soon"))
    time.machine.pass_time(99)
    assert time.fired == [("soon", 0)]
    time.machine.pass_time(1)
    time.machine.pass_time(200)
    assert time.fired == [("soon", 0), ("maintenance", 100), ("later", 300)]
    assert time.clock.offset_ms == 0


def test_while_it_is_frozen_no_timer_fires() -> None:
    """A frozen clock and its timers stand still, and both continue without going back."""
    time = VirtualTime()
    time.clock.call_later(0.5, time.note("a"))
    time.machine.pass_time(200)
    time.clock.freeze()
    time.clock.freeze()
    time.machine.pass_time(10_000)
    assert time.clock.now_ms() == START_MS + 200
    assert time.fired == []
    time.clock.resume()
    time.clock.resume()
    assert time.clock.now_ms() == START_MS + 200
    assert time.clock.offset_ms == -10_000
    time.machine.pass_time(299)
    assert time.fired == []
    time.machine.pass_time(1)
    assert time.fired == [("a", 500)]


def test_what_is_due_fires_though_time_is_frozen() -> None:
    """A call that is due now runs even if the clock is frozen."""
    time = VirtualTime()
    time.clock.freeze()
    time.clock.call_later(0, time.note("now"))
    time.clock.call_later(0.001, time.note("later"))
    time.machine.pass_time(1)
    assert time.fired == [("now", 0)]


def test_timers_fire_in_the_order_of_their_times() -> None:
    """Timers fire at their own millisecond.

    Timers of the same millisecond fire in the order in which they were set.
    """
    time = VirtualTime()
    for name, seconds in (("c", 300.0), ("a", 45.0), ("d", 300.0), ("b", 299.9)):
        time.clock.call_later(seconds, time.note(name))
    time.clock.freeze()
    for _ in range(3):
        time.fire_next()
    assert time.fired == [("a", 45_000), ("b", 299_900), ("c", 300_000), ("d", 300_000)]
    assert time.clock.next_due_ms() is None


def test_a_timer_sets_the_next_one_from_its_own_time() -> None:
    """A timer set by a firing timer is relative to that timer's due time.

    A periodic timer thus fires at the same times as in real time.
    """
    time = VirtualTime()

    def again() -> None:
        time.note("tick")()
        time.clock.call_later(10, again)

    time.clock.call_later(10, again)
    time.clock.freeze()
    for _ in range(3):
        time.fire_next()
    assert time.fired == [("tick", 10_000), ("tick", 20_000), ("tick", 30_000)]


def test_a_cancelled_timer_does_not_fire() -> None:
    """A cancelled timer does not fire, even if a timer due at the same time cancels it."""
    time = VirtualTime()
    second = time.clock.call_later(0.1, time.note("cancelled later"))
    time.clock.call_later(0.05, time.note("cancelled")).cancel()
    first = time.clock.call_later(0.09, second.cancel)
    time.machine.pass_time(1000)
    first.cancel()
    second.cancel()
    assert time.fired == []


def test_cancelled_timers_do_not_pile_up() -> None:
    """A timer that is moved again and again leaves only a few entries in the queue."""
    time = VirtualTime()
    for _ in range(10_000):
        time.clock.call_later(300, time.note("never")).cancel()
    assert len(time.clock._timers) < 200
    time.clock.call_later(0.001, time.note("a"))
    time.machine.pass_time(1)
    assert time.fired == [("a", 1)]


def test_maintenance_pauses_while_time_is_advanced() -> None:
    """While time is advanced, most maintenance rounds are skipped; `fire` can force a round."""
    time = VirtualTime()

    def round_() -> None:
        time.note("maintenance")()
        time.clock.call_maintenance(1, round_)

    time.clock.call_maintenance(1, round_)
    time.clock.freeze()
    time.clock.maintenance_pause_ms = 50_000
    time.fire_next()
    time.fire_next()
    assert time.fired == [("maintenance", 1_000), ("maintenance", 51_000)]
    time.clock.advance(10_000)
    assert time.clock.fire() == 0
    assert time.clock.fire(with_maintenance=True) == 1
    time.machine.turn()
    assert time.fired[2:] == [("maintenance", 61_000)]
    time.clock.resume()
    time.machine.pass_time(1_000)
    assert time.fired[3:] == [("maintenance", 62_000)]


def test_a_failing_timer_does_not_take_the_others_with_it() -> None:
    """An exception in a timer is reported by the loop and does not stop other timers."""
    time = VirtualTime()

    def fail() -> None:
        raise ZeroDivisionError

    time.clock.call_later(0.1, fail)
    time.clock.call_later(0.1, time.note("b"))
    time.clock.freeze()
    time.clock.advance(100)
    assert time.clock.fire() == 2
    with pytest.raises(ZeroDivisionError):
        time.machine.soon.popleft().run()
    time.machine.turn()
    assert time.fired == [("b", 100)]


def test_after_a_reset_it_has_the_machines_time() -> None:
    """After a reset the clock has the machine's time, and timers keep their remaining delays."""
    time = VirtualTime()
    time.clock.call_later(10, time.note("a"))
    time.clock.call_maintenance(20, time.note("b"))
    time.clock.freeze()
    time.clock.advance(4_000)
    time.clock.reset()
    assert time.clock.now_ms() == time.machine.now_ms()
    time.machine.pass_time(5_999)
    assert time.fired == []
    time.machine.pass_time(1)
    time.machine.pass_time(10_000)
    assert time.fired == [("a", 6_000), ("b", 16_000)]
