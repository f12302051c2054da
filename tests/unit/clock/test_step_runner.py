"""StepRunner: long work in slices, between which the event loop runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator
from typing import cast

import pytest

from coordinator_server.clock.broker_clock import Scheduler
from coordinator_server.clock.step_runner import SHORT_SLICE_MS, SLICE_MS, StepRunner
from coordinator_server.steps import Steps, run_all

STEP_MS = 1


class Loop:
    """An event loop driven by the test, and a timer that each step advances."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.seconds = 0.0
        self.runner = StepRunner(cast("Scheduler", self), lambda: self.seconds)

    def call_soon(self, callback: Callable[[], None]) -> object:
        """Schedule a callback for the next turn."""
        self.soon.append(callback)
        return None

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> object:
        """Schedule a callback, which `later` has with its delay."""
        self.later.append((delay_s, callback))
        return None

    def turn(self) -> None:
        """Run one turn of the loop."""
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()

    def work(self, steps: int, done: list[str], name: str = "") -> Steps:
        """Return this number of steps, each of which takes 1 ms and is noted in `done`."""
        for _ in range(steps):
            self.seconds += STEP_MS / 1000
            done.append(name)
            yield


@pytest.fixture
def loop() -> Iterator[Loop]:
    """Return a loop; enable garbage collection afterwards."""
    yield Loop()
    gc.enable()


def test_short_work_is_done_at_once(loop: Loop) -> None:
    """Work shorter than a slice is finished without a turn of the loop."""
    done: list[str] = []
    assert loop.runner.run_now(loop.work(SLICE_MS - 1, done))
    assert len(done) == SLICE_MS - 1
    assert not loop.soon
    assert len(loop.runner) == 0


def test_long_work_gives_the_loop_a_turn_after_each_slice(loop: Loop) -> None:
    """A slice ends when its time is over, and the next slice runs in the next turn."""
    done: list[str] = []
    assert not loop.runner.run_now(loop.work(3 * SLICE_MS - 1, done))
    for slices in (1, 2):
        assert len(done) == slices * SLICE_MS
        assert len(loop.runner) == 1
        loop.turn()
    assert len(done) == 3 * SLICE_MS - 1
    assert len(loop.runner) == 0
    assert not loop.soon


def test_several_pieces_of_work_take_turns(loop: Loop) -> None:
    """Several pieces of work take turns, with one slice per turn of the loop."""
    done: list[str] = []
    loop.runner.run(loop.work(2 * SLICE_MS, done, "a"))
    loop.runner.run(loop.work(SLICE_MS, done, "b"))
    loop.turn()
    assert set(done) == {"a"}
    done.clear()
    loop.turn()
    assert set(done) == {"b"}


def test_the_collector_waits_for_the_end(loop: Loop) -> None:
    """Garbage collection is off during long work, which creates many objects."""
    loop.runner.run(loop.work(1, []))
    assert not gc.isenabled()
    loop.turn()
    assert gc.isenabled()


def test_work_that_raises_ends(loop: Loop) -> None:
    """An exception in one piece of work reaches the loop, and the other work continues."""

    def broken() -> Steps:
        yield
        raise KeyError("a bug")

    done: list[str] = []
    loop.runner.run(broken())
    loop.runner.run(loop.work(1, done))
    with pytest.raises(KeyError):
        loop.turn()
    loop.turn()
    assert len(done) == 1


def test_run_all_returns_what_the_steps_return() -> None:
    """`run_all` runs all steps at once and returns their result."""

    def steps() -> Generator[None, None, int]:
        yield
        return 7

    assert run_all(steps()) == 7


def test_new_work_gets_little_time_while_other_work_is_under_way(loop: Loop) -> None:
    """New work during other work gets less than a slice, which is enough for short work.

    With a whole slice each, many long requests in one turn would block the loop.
    """
    done: list[str] = []
    assert not loop.runner.run_now(loop.work(2 * SLICE_MS, done, "first"))
    assert not loop.runner.run_now(loop.work(2 * SLICE_MS, done, "second"))
    assert done.count("second") == SHORT_SLICE_MS
    loop.runner.run_long(loop.work(2 * SLICE_MS, done, "third"))
    assert "third" not in done
    assert loop.runner.run_now(loop.work(SHORT_SLICE_MS - 1, done, "short"))
    while loop.soon:
        loop.turn()
    assert done.count("third") == done.count("second") == 2 * SLICE_MS


def test_long_work_begins_at_once_if_there_is_no_other(loop: Loop) -> None:
    """Long work starts at once if no other work is running."""
    done: list[str] = []
    loop.runner.run_long(loop.work(2 * SLICE_MS, done))
    assert len(done) == SLICE_MS


def test_after_the_end_nothing_is_done(loop: Loop) -> None:
    """A closed StepRunner drops running and new work."""
    done: list[str] = []
    assert not loop.runner.run_now(loop.work(3 * SLICE_MS, done))
    loop.runner.close()
    loop.runner.run(loop.work(SLICE_MS, done))
    loop.runner.run_long(loop.work(SLICE_MS, done))
    assert loop.runner.run_now(loop.work(SLICE_MS, done))
    while loop.soon:
        loop.turn()
    assert len(done) == SLICE_MS
    assert len(loop.runner) == 0
    assert gc.isenabled()


def test_work_can_begin_later(loop: Loop) -> None:
    """Steps that are to run later wait for their timer, not for a turn of the loop."""
    done: list[str] = []
    loop.runner.run_later(2.5, loop.work(1, done, "later"))
    loop.turn()
    ((delay_s, callback),) = loop.later
    assert (delay_s, done) == (2.5, [])
    callback()
    loop.turn()
    assert done == ["later"]
