"""The lazy heap of delayed operations."""

import random

import pytest

from coordinator_server.core.groups.classic.metadata import GroupMetadata
from coordinator_server.core.groups.effects import Effects
from coordinator_server.core.groups.purgatory import SMALLEST_SWEEP, DelayedOperation, Purgatory
from tests.harness.one_group import next_deadline_ms


class Ring(DelayedOperation[GroupMetadata]):
    """An operation with a name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def on_expiration(self, group: GroupMetadata, now_ms: int, effects: Effects) -> None:
        """Record the expiry."""
        effects.event(self.name)


def names(purgatory: Purgatory[GroupMetadata], now_ms: int) -> list[str]:
    """Return the names of the operations that expire."""
    return [one.name for one in purgatory.expired(now_ms) if isinstance(one, Ring)]


def test_operations_expire_in_order_of_their_deadlines() -> None:
    """Operations expire in the order of their deadlines, never earlier."""
    purgatory: Purgatory[GroupMetadata] = Purgatory()
    for deadline_ms in (30, 10, 20):
        purgatory.schedule(Ring(str(deadline_ms)), deadline_ms)
    assert next_deadline_ms(purgatory) == 10
    assert names(purgatory, 9) == []
    assert names(purgatory, 20) == ["10", "20"]
    assert names(purgatory, 30) == ["30"]
    assert next_deadline_ms(purgatory) is None


def test_a_later_deadline_only_moves_a_number() -> None:
    """Moving a deadline later adds no entry to the heap, as for a thousand heartbeats."""
    purgatory: Purgatory[GroupMetadata] = Purgatory()
    ring = Ring("a")
    for deadline_ms in range(10, 1010):
        purgatory.schedule(ring, deadline_ms)
    assert len(purgatory) == len(purgatory._heap) == 1
    assert next_deadline_ms(purgatory) == 1009
    assert names(purgatory, 1008) == []
    assert names(purgatory, 1009) == ["a"]


def test_a_moved_operation_does_not_overtake() -> None:
    """An operation whose deadline was moved expires after operations with earlier deadlines."""
    purgatory: Purgatory[GroupMetadata] = Purgatory()
    moved, other = Ring("moved"), Ring("other")
    purgatory.schedule(moved, 10)
    purgatory.schedule(other, 20)
    purgatory.schedule(moved, 50)
    assert names(purgatory, 100) == ["other", "moved"]


def test_an_earlier_deadline_counts_at_once() -> None:
    """Moving a deadline earlier replaces the queued entry, which never fires."""
    purgatory: Purgatory[GroupMetadata] = Purgatory()
    ring = Ring("a")
    purgatory.schedule(ring, 100)
    purgatory.schedule(ring, 10)
    assert names(purgatory, 10) == ["a"]
    assert names(purgatory, 1000) == []


def test_what_is_cancelled_never_expires() -> None:
    """Cancelled and cleared operations do not expire, and can be scheduled again."""
    purgatory: Purgatory[GroupMetadata] = Purgatory()
    one, two = Ring("one"), Ring("two")
    purgatory.schedule(one, 10)
    purgatory.schedule(two, 20)
    purgatory.cancel(one)
    assert names(purgatory, 15) == []
    purgatory.clear()
    assert next_deadline_ms(purgatory) is None
    purgatory.schedule(two, 30)
    assert names(purgatory, 30) == ["two"]


def test_cancelled_then_scheduled_before_its_entry_comes_up() -> None:
    """An operation that is scheduled again reuses its old entry in the heap."""
    purgatory: Purgatory[GroupMetadata] = Purgatory()
    ring = Ring("a")
    purgatory.schedule(ring, 10)
    purgatory.cancel(ring)
    purgatory.schedule(ring, 25)
    assert names(purgatory, 24) == []
    assert names(purgatory, 25) == ["a"]


def test_a_look_is_due_at_the_earliest_deadline_or_before() -> None:
    """The next check is due at the earliest heap entry, which may be before any deadline."""
    purgatory: Purgatory[GroupMetadata] = Purgatory()
    moved, cancelled = Ring("moved"), Ring("cancelled")
    purgatory.schedule(moved, 20)
    purgatory.schedule(cancelled, 10)
    assert purgatory.next_look_ms() == 10
    purgatory.cancel(cancelled)
    purgatory.schedule(moved, 50)
    assert purgatory.next_look_ms() == 20
    assert names(purgatory, 20) == []
    assert purgatory.next_look_ms() == 50
    purgatory.cancel(moved)
    assert purgatory.next_look_ms() is None


def test_entries_of_what_is_cancelled_do_not_pile_up() -> None:
    """Entries of cancelled operations are removed, so that the heap stays small."""
    purgatory: Purgatory[GroupMetadata] = Purgatory()
    session = Ring("session")
    purgatory.schedule(session, 10)
    for number in range(1000):
        join = Ring(str(number))
        purgatory.schedule(join, 60_000 + number)
        purgatory.cancel(join)
    assert len(purgatory._heap) <= SMALLEST_SWEEP
    assert names(purgatory, 100_000) == ["session"]


@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_a_plain_dictionary(seed: int) -> None:
    """After any schedule, move and cancel, expiry agrees with a simple dictionary."""
    rng = random.Random(seed)
    purgatory: Purgatory[GroupMetadata] = Purgatory()
    rings = [Ring(str(number)) for number in range(6)]
    deadlines: dict[str, int] = {}
    now_ms = 0
    for _ in range(300):
        ring = rng.choice(rings)
        match rng.randrange(4):
            case 0:
                purgatory.cancel(ring)
                deadlines.pop(ring.name, None)
            case 1:
                now_ms += rng.randrange(12)
                due = sorted(name for name, at_ms in deadlines.items() if at_ms <= now_ms)
                assert sorted(names(purgatory, now_ms)) == due
                for name in due:
                    del deadlines[name]
            case _:
                deadlines[ring.name] = now_ms + rng.randrange(20)
                purgatory.schedule(ring, deadlines[ring.name])
        assert next_deadline_ms(purgatory) == min(deadlines.values(), default=None)
