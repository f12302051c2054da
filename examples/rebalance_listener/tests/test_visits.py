"""Every visit counts exactly once through rebalances, which the broker's clock causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from visits import GROUP, VISITS, Store, VisitCounter

from coordinator_server.testing import Broker

PAGES = ("home", "cart", "help")
Start = Callable[[], VisitCounter]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """The database, opened by another program."""
    with closing(Store(str(tmp_path / "visits.db"))) as store:
        yield store


@pytest.fixture
def start(kafka: Broker, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a counter on the database; it writes only on demand."""
    kafka.create_topic(VISITS, 4)
    started: list[VisitCounter] = []

    def start_one() -> VisitCounter:
        store = Store(str(tmp_path / "visits.db"))
        options = {"heartbeat_interval_ms": 200, "session_timeout_ms": 300_000}
        counter = VisitCounter(kafka.bootstrap_servers, store, flush_every=10**9, **options)
        started.append(counter)
        return counter

    yield start_one
    for counter in started:
        counter.close()


def visit(kafka: Broker, times: int) -> Counter[str]:
    """Visit every page `times` times; the visits are spread over the partitions."""
    for page in PAGES:
        kafka.produce(VISITS, *[page] * times)
    return Counter(dict.fromkeys(PAGES, times))


def run(*counters: VisitCounter) -> int:
    """Run all counters once, at the same time, and return the number of counted visits.

    Each counter waits in its poll for the others to join. The poll is long, because one that ends
    during a rebalance may stop kafka-python's heartbeats.
    """
    with ThreadPoolExecutor(len(counters)) as pool:
        return sum(pool.map(lambda counter: counter.run_once(2000), counters))


def count(counters: list[VisitCounter], visits: int) -> None:
    """Run the counters until they have counted `visits` visits in total."""
    while visits > 0:
        visits -= run(*counters)
    assert visits == 0


def members(kafka: Broker) -> int:
    """Return the number of members of the group."""
    group = kafka.group(GROUP)
    return 0 if group is None else len(group.members)


def until(kafka: Broker, counters: list[VisitCounter], members: int) -> None:
    """Run the counters until the group is stable with `members` members."""
    while True:
        group = kafka.group(GROUP)
        if group is not None and group.state == "Stable" and len(group.members) == members:
            return
        run(*counters)


def test_what_is_revoked_is_written(kafka: Broker, start: Start, store: Store) -> None:
    """A new member continues where the first one stopped, with its counts."""
    first = start()
    visits = visit(kafka, 20)
    count([first], visits.total())
    assert store.total() == {}
    second = start()
    until(kafka, [first, second], 2)
    assert store.total() == visits
    more = visit(kafka, 20)
    count([first, second], more.total())
    first.close()
    second.close()
    assert store.total() == visits + more


def test_what_is_lost_is_not_written(kafka: Broker, start: Start, store: Store) -> None:
    """After five minutes without a heartbeat, the counter drops its counts and starts again."""
    counter = start()
    visits = visit(kafka, 20)
    count([counter], visits.total())
    kafka.clock.advance(300)
    while "lost" not in counter.told:
        run(counter)
    assert store.total() == {}
    count([counter], visits.total())  # visits are read again from the offset in the store
    counter.close()
    assert store.total() == visits
    assert counter.told == ["assigned", "lost", "assigned", "revoked"]


def test_a_stuck_counter_does_not_write_over_its_successor(
    kafka: Broker, start: Start, store: Store
) -> None:
    """A member that was removed because it did not poll does not write its lost partitions."""
    stuck = start()
    visits = visit(kafka, 20)
    count([stuck], visits.total())
    kafka.clock.advance(300)  # `stuck` does not poll, like a program that hangs
    successor = start()
    count([successor], visits.total())
    more = visit(kafka, 5)
    count([successor], more.total())
    successor.close()
    assert store.total() == visits + more
    while "lost" not in stuck.told:
        run(stuck)
    stuck.close()
    assert store.total() == visits + more


def test_all_members_begin_in_one_generation(start: Start, store: Store) -> None:
    """While the clock is frozen, the rebalance delay does not end, so no member starts alone."""
    with Broker(group_initial_rebalance_delay_ms=3000) as broker:
        broker.create_topic(VISITS, 4)
        broker.clock.freeze()
        counters = [
            VisitCounter(broker.bootstrap_servers, store, heartbeat_interval_ms=200)
            for _ in range(2)
        ]
        while members(broker) < 2:
            run(*counters)
        broker.clock.advance(6)
        while not all(counter.told for counter in counters):
            run(*counters)
        first = [line for line in broker.log.splitlines() if "generation=1 " in line]
        assert any("generation.started" in line and "members=2" in line for line in first)
        broker.clock.resume()
        for counter in counters:
            counter.close()
