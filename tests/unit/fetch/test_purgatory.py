"""The purgatory of delayed operations."""

from coordinator_server.fetch.purgatory import KeyedOperation, KeyedPurgatory
from tests.unit.topics.fakes import START_MS, FakeClock, FakeScheduler


class Probe(KeyedOperation):
    """An operation that completes when it is told that it may."""

    def __init__(self, wait_ms: int = 100) -> None:
        super().__init__(START_MS + wait_ms)
        self.ready = False
        self.abandoned = False
        self.looks = 0
        self.events: list[str] = []

    def try_complete(self) -> bool:
        """Count the looks."""
        self.looks += 1
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        """Note it."""
        self.events.append("completed")

    def on_expiration(self) -> None:
        """Note it."""
        self.events.append("expired")

    def is_abandoned(self) -> bool:
        """As the test says."""
        return self.abandoned


def purgatory() -> tuple[KeyedPurgatory, FakeScheduler]:
    """An empty purgatory and its loop."""
    clock = FakeClock()
    scheduler = FakeScheduler(clock)
    return KeyedPurgatory(scheduler, clock.now_ms), scheduler


def test_a_changed_key_completes_who_waits_for_it() -> None:
    """After a notify the operation looks again, once, at the end of the turn."""
    waiting, scheduler = purgatory()
    probe, other = Probe(), Probe()
    waiting.watch(probe, ["a", "b", "a"])
    waiting.watch(other, ["c"])
    probe.ready = True
    waiting.notify("a")
    waiting.notify("a")
    waiting.notify("b")
    assert probe.events == []
    scheduler.turn()
    assert probe.events == ["completed"]
    assert probe.looks == 1
    assert other.looks == 0
    assert (len(waiting), waiting.watched_keys) == (1, 1)


def test_nobody_waits_costs_nothing() -> None:
    """A notify for a key without watchers plans nothing."""
    waiting, scheduler = purgatory()
    waiting.notify("a")
    assert scheduler.soon == []


def test_the_deadline_completes() -> None:
    """At its deadline an operation expires and completes; not a millisecond before."""
    waiting, scheduler = purgatory()
    probe = Probe(wait_ms=100)
    waiting.watch(probe, ["a"])
    scheduler.advance(99)
    assert probe.events == []
    scheduler.advance(1)
    assert probe.events == ["expired", "completed"]
    assert len(waiting) == waiting.watched_keys == 0


def test_one_timer_serves_all() -> None:
    """However many wait, one timer is planned, for the first deadline."""
    waiting, scheduler = purgatory()
    probes = [Probe(wait_ms=wait) for wait in (300, 100, 200, 400)]
    for probe in probes:
        waiting.watch(probe, ["a"])
    planned = [timer for timer in scheduler.timers if not timer.cancelled]
    assert [timer.due_ms - START_MS for timer in planned] == [100]
    scheduler.advance(250)
    assert [bool(probe.events) for probe in probes] == [False, True, True, False]
    scheduler.advance(1000)
    assert all(probe.events for probe in probes)
    assert [timer for timer in scheduler.timers if not timer.cancelled] == []


def test_a_dropped_operation_never_completes() -> None:
    """After a drop neither key nor deadline do anything, and nothing is held."""
    waiting, scheduler = purgatory()
    probe = Probe()
    waiting.watch(probe, ["a"])
    waiting.drop(probe)
    waiting.drop(probe)
    probe.ready = True
    waiting.notify("a")
    scheduler.advance(1000)
    assert probe.events == []
    assert len(waiting) == waiting.watched_keys == 0


def test_completed_operations_do_not_pile_up_until_their_deadline() -> None:
    """Ten thousand operations of an hour that completed early leave a small heap."""
    waiting, _ = purgatory()
    for _ in range(10_000):
        probe = Probe(wait_ms=3_600_000)
        waiting.watch(probe, ["a"])
        probe.ready = True
        assert waiting.check_and_complete("a") == 1
    assert waiting.deadlines_held < 200


def test_abandoned_operations_are_swept() -> None:
    """Operations whose client is gone are dropped once there are many of them."""
    waiting, scheduler = purgatory()
    for _ in range(10_000):
        probe = Probe(wait_ms=3_600_000)
        waiting.watch(probe, [object()])
        probe.abandoned = True
    assert len(waiting) < 200
    assert waiting.watched_keys < 200
    scheduler.advance(1)


def test_an_abandoned_operation_is_not_completed_for_nobody() -> None:
    """A key that changes drops an operation whose client is gone."""
    waiting, scheduler = purgatory()
    probe = Probe()
    waiting.watch(probe, ["a"])
    probe.ready = probe.abandoned = True
    waiting.notify("a")
    scheduler.turn()
    assert probe.events == []
    assert len(waiting) == 0


def test_close_completes_everything() -> None:
    """A purgatory that closes completes what waits, and holds nothing and no timer."""
    waiting, scheduler = purgatory()
    probe = Probe()
    waiting.watch(probe, ["a"])
    waiting.close()
    scheduler.advance(1000)
    assert probe.events == ["completed"]
    assert len(waiting) == waiting.watched_keys == waiting.deadlines_held == 0
