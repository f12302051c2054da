"""The small worlds as part of the test suite; `python -m tests.sim.small_worlds` goes deeper."""

import pytest

from tests.sim.fingerprint import fingerprint
from tests.sim.small_worlds import DEFAULT_DEPTH, WORLDS, SmallWorld, explore


def follow(name: str, path: str) -> SmallWorld:
    """Return a world after the events of `path`."""
    world = SmallWorld(WORLDS[name])
    for event in path.split():
        world.go(event)
    return world


@pytest.mark.parametrize("name", ["one alone", "two from nothing"])
def test_every_order_of_events_is_right(name: str) -> None:
    """No order of a few requests and faults violates an invariant."""
    explored = explore(name, DEFAULT_DEPTH)
    assert explored.events > explored.states > 100


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A.heartbeat", ""),
        ("A.commit A.commit", "B.commit"),
        ("A.join B.join A.sync B.sync", "crash"),
    ],
)
def test_what_makes_no_difference(one: str, other: str) -> None:
    """Worlds that differ only in names, absolute times or generations have one fingerprint."""
    worlds = [follow("two in a stable group", path) for path in (one, other)]
    assert fingerprint(worlds[0]) == fingerprint(worlds[1])


@pytest.mark.parametrize("path", ["A.commit", "A.change", "fail", "hold", "time", "A.leave"])
def test_what_makes_a_difference(path: str) -> None:
    """A difference that changes the possible next events changes the fingerprint."""
    assert fingerprint(follow("two in a stable group", path)) != fingerprint(
        follow("two in a stable group", "")
    )


def test_a_violation_says_how_to_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A violation has a note with the command that walks the same path."""

    def broken(world: SmallWorld) -> None:
        assert world.broker.group is None, "the moon is gone"

    monkeypatch.setattr(SmallWorld, "check", broken)
    with pytest.raises(AssertionError) as caught:
        explore("two from nothing", 3)
    assert caught.value.__notes__ == [
        'to see it: python -m tests.sim.small_worlds --world "two from nothing" --path "A.join"'
    ]
