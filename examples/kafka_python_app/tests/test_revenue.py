"""Tests of the service with a real broker; `kafka` is a fixture of coordinator_server.testing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from revenue import GROUP, ORDERS, REJECTED, REVENUE, RevenueService, parse_order

from coordinator_server.testing import Broker

Start = Callable[[], RevenueService]


@pytest.fixture
def start(kafka: Broker) -> Iterator[Start]:
    """Return a function that starts a service; services are closed after the test."""
    kafka.create_topic(ORDERS, 2)
    started: list[RevenueService] = []

    def start_one() -> RevenueService:
        started.append(RevenueService(kafka.bootstrap_servers, heartbeat_interval_ms=200))
        return started[-1]

    yield start_one
    for service in started:
        service.close()


def order(number: int, customer: str, cents: object) -> str:
    """Return an order in the shop's format."""
    return json.dumps({"order": f"o-{number}", "customer": customer, "cents": cents})


def process(service: RevenueService, count: int) -> None:
    """Run the service until it has processed `count` records."""
    while count > 0:
        count -= service.run_once(10_000)


def revenue(kafka: Broker) -> Counter[str]:
    """Return cents by customer, over all results."""
    cents: Counter[str] = Counter()
    for record in kafka.consume(REVENUE, None):
        assert record.key is not None
        assert record.value is not None
        cents[record.key.decode()] += json.loads(record.value)["cents"]
    return cents


def test_orders_are_added_up_and_committed(kafka: Broker, start: Start) -> None:
    """Every order counts once, and the committed offsets show that all are processed."""
    kafka.produce(ORDERS, order(1, "ada", 1250), order(2, "bob", 300), order(3, "ada", 50))
    process(start(), 3)
    assert revenue(kafka) == {"ada": 1300, "bob": 300}
    assert sum(kafka.committed(GROUP).values()) == 3


def test_what_is_no_order_is_put_aside(kafka: Broker, start: Start) -> None:
    """Invalid orders go to their own topic with the reason, and valid orders are processed."""
    kafka.produce(ORDERS, "{", order(1, "ada", -1), order(2, "ada", 7))
    process(start(), 3)
    assert revenue(kafka) == {"ada": 7}
    reasons = [dict(record.headers)["reason"] for record in kafka.consume(REJECTED, 2)]
    assert b"cents=-1 is no amount" in reasons


def test_a_crash_before_the_commit_loses_nothing(
    kafka: Broker, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next instance starts with the batch that was not committed."""
    kafka.produce(ORDERS, order(1, "ada", 10), partition=0)
    first = start()

    def crash() -> None:
        raise ZeroDivisionError("a crash")

    monkeypatch.setattr(first._consumer, "commit", crash)
    with pytest.raises(ZeroDivisionError):
        process(first, 1)
    first.close()
    assert kafka.committed(GROUP) == {}
    process(start(), 1)
    assert sum(kafka.committed(GROUP).values()) == 1
    # An order is counted twice: the service promises at-least-once.
    assert revenue(kafka) == {"ada": 20}


def test_two_instances_share_the_work(kafka: Broker, start: Start) -> None:
    """In a stable group each instance has a partition; together they process every record once."""
    services = (start(), start())
    # Start both at once, as two processes would: each waits in its poll for the other to join. The
    # polls are long, because a poll that ends during a rebalance may stop kafka-python's
    # heartbeats.
    with ThreadPoolExecutor() as pool:

        def run_both() -> list[int]:
            return list(pool.map(lambda service: service.run_once(2000), services))

        group = kafka.group(GROUP)
        while group is None or group.state != "Stable" or len(group.members) != 2:
            run_both()
            group = kafka.group(GROUP)
        kafka.produce(ORDERS, *[order(number, "ada", 1) for number in range(100)])
        done = [0, 0]
        while sum(done) < 100:
            done = [before + now for before, now in zip(done, run_both(), strict=True)]
    assert all(done)
    assert revenue(kafka) == {"ada": 100}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"[]", "no order"),
        (b'{"order": "o-1"}', "no order: 'customer'"),
        (b'"text"', "no order"),
        (b"{", "Expecting property name"),
        (b"\xff", "can't decode"),
    ],
)
def test_only_orders_are_orders(value: bytes, reason: str) -> None:
    """Invalid orders raise ValueError."""
    with pytest.raises(ValueError, match=reason):
        parse_order(value)
