"""The purgatory of delayed operations."""

from coordinator_server.fetch.purgatory import KeyedOperation, KeyedPurgatory
from tests.harness.clock import START_MS, ManualClock


class Probe(KeyedOperation):
    """An operation that completes when the test allows."""

    def __init__(self, wait_ms: int = 100) -> None:
        super().__init__(START_MS + wait_ms)
        self.ready = False
        self.abandoned = False
        self.looks = 0
        self.events: list[str] = []

    def try_complete(self) -> bool:
        """Return whether the operation could be completed, which the test decides."""
        self.looks += 1
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        """Record the completion."""
        self.events.append("completed")

    def on_expiration(self) -> None:
        """Record the expiry."""
        self.events.append("expired")

    def is_abandoned(self) -> bool:
        """Return the value that the test set."""
        return self.abandoned


def purgatory() -> tuple[KeyedPurgatory, ManualClock]:
    """Return an empty purgatory and its clock."""
    clock = ManualClock()
    return KeyedPurgatory(clock, clock.now_ms), clock


def test_a_changed_key_completes_who_waits_for_it() -> None:
    """After a notify the operation is tried once, at the end of the turn."""
    waiting, clock = purgatory()
    probe, other = Probe(), Probe()
    waiting.watch(probe, ["a", "b", "a"])
    waiting.watch(other, ["c"])
    probe.ready = True
    waiting.notify("a")
    waiting.notify("a")
    waiting.notify("b")
    assert probe.events == []
    clock.turn()
    assert probe.events == ["completed"]
    assert probe.looks == 1
    assert other.looks == 0
    assert (len(waiting), waiting.watched_keys) == (1, 1)


def test_nobody_waits_costs_nothing() -> None:
    """A notify for a key without watchers schedules nothing."""
    waiting, clock = purgatory()
    waiting.notify("a")
    assert not clock.soon


def test_the_deadline_completes() -> None:
    """An operation expires and completes exactly at its deadline."""
    waiting, clock = purgatory()
    probe = Probe(wait_ms=100)
    waiting.watch(probe, ["a"])
    clock.pass_time(99)
    assert probe.events == []
    clock.pass_time(1)
    assert probe.events == ["expired", "completed"]
    assert len(waiting) == waiting.watched_keys == 0


def test_one_timer_serves_all() -> None:
    """One timer serves all waiting operations, set for the first deadline."""
    waiting, clock = purgatory()
    probes = [Probe(wait_ms=wait) for wait in (300, 100, 200, 400)]
    for probe in probes:
        waiting.watch(probe, ["a"])
    planned = clock.timers
    assert [timer.due_ms - START_MS for timer in planned] == [100]
    clock.pass_time(250)
    assert [bool(probe.events) for probe in probes] == [False, True, True, False]
    clock.pass_time(1000)
    assert all(probe.events for probe in probes)
    assert clock.timers == []


def test_a_dropped_operation_never_completes() -> None:
    """A dropped operation never completes, and nothing refers to it."""
    waiting, clock = purgatory()
    probe = Probe()
    waiting.watch(probe, ["a"])
    waiting.drop(probe)
    waiting.drop(probe)
    probe.ready = True
    waiting.notify("a")
    clock.pass_time(1000)
    assert probe.events == []
    assert len(waiting) == waiting.watched_keys == 0


def test_completed_operations_do_not_pile_up_until_their_deadline() -> None:
    """Ten thousand completed operations with a deadline in an hour leave a small heap."""
    waiting, _ = purgatory()
    for _ in range(10_000):
        probe = Probe(wait_ms=3_600_000)
        waiting.watch(probe, ["a"])
        probe.ready = True
        assert waiting.check_and_complete("a") == 1
    assert waiting.deadlines_held < 200


def test_abandoned_operations_are_swept() -> None:
    """Abandoned operations are removed once there are many."""
    waiting, clock = purgatory()
    for _ in range(10_000):
        probe = Probe(wait_ms=3_600_000)
        waiting.watch(probe, [object()])
        probe.abandoned = True
    assert len(waiting) < 200
    assert waiting.watched_keys < 200
    clock.pass_time(1)


def test_an_abandoned_operation_is_not_completed_for_nobody() -> None:
    """A notification drops an operation whose client has disconnected."""
    waiting, clock = purgatory()
    probe = Probe()
    waiting.watch(probe, ["a"])
    probe.ready = probe.abandoned = True
    waiting.notify("a")
    clock.turn()
    assert probe.events == []
    assert len(waiting) == 0


def test_close_completes_everything() -> None:
    """Closing completes every waiting operation and leaves no timer."""
    waiting, clock = purgatory()
    probe = Probe()
    waiting.watch(probe, ["a"])
    waiting.close()
    clock.pass_time(1000)
    assert probe.events == ["completed"]
    assert len(waiting) == waiting.watched_keys == waiting.deadlines_held == 0
