"""Tests of the service in an event loop; `kafka.aio` has the fixture's helpers as coroutines."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from shipping import GROUP, ORDERS, SHIPMENTS, ShippingService

from coordinator_server.testing import Broker


class Warehouses:
    """Finds every article in `north`; lookups of articles in `unknown` fail."""

    def __init__(self) -> None:
        self.unknown: set[str] = set()
        self.asked: Counter[str] = Counter()

    async def find(self, article: str) -> str:
        """Return the warehouse of an article. Raises LookupError for unknown articles."""
        self.asked[article] += 1
        if article in self.unknown:
            raise LookupError(article)
        return "north"


@asynccontextmanager
async def running(kafka: Broker, warehouses: Warehouses) -> AsyncIterator[ShippingService]:
    """Run a service in the background."""
    service = ShippingService(kafka.bootstrap_servers, warehouses.find, heartbeat_interval_ms=200)
    async with service:
        task = asyncio.create_task(service.run())
        try:
            yield service
        finally:
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled(), task.exception()


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition is true."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def order(number: int, article: str = "pen") -> str:
    """Return an order in the shop's format."""
    return json.dumps({"order": f"o-{number}", "article": article})


async def shipped_orders(kafka: Broker) -> Counter[str]:
    """Return how often each order was shipped."""
    records = await kafka.aio.consume(SHIPMENTS, None)
    return Counter(json.loads(record.value or b"")["order"] for record in records)


async def test_every_order_is_shipped_once(kafka: Broker) -> None:
    """All orders are shipped, and the group has committed them."""
    await kafka.aio.create_topic(ORDERS, 3)
    await kafka.aio.produce(ORDERS, *[order(number) for number in range(30)])
    async with running(kafka, Warehouses()):
        await kafka.aio.consume(SHIPMENTS, 30)
        await until(lambda: sum(kafka.committed(GROUP).values()) == 30)
    assert await shipped_orders(kafka) == Counter(f"o-{number}" for number in range(30))


async def test_a_failing_lookup_holds_up_its_partition_only(kafka: Broker) -> None:
    """The other partition continues; the failed order is retried until the lookup succeeds."""
    await kafka.aio.create_topic(ORDERS, 2)
    await kafka.aio.produce(ORDERS, order(1), order(2, "rare"), order(3), partition=0)
    await kafka.aio.produce(ORDERS, order(4), order(5), partition=1)
    warehouses = Warehouses()
    warehouses.unknown.add("rare")
    async with running(kafka, warehouses):
        await until(lambda: warehouses.asked["rare"] >= 3)
        await until(lambda: kafka.committed(GROUP) == {(ORDERS, 0): 1, (ORDERS, 1): 2})
        assert set(await shipped_orders(kafka)) == {"o-1", "o-4", "o-5"}
        warehouses.unknown.clear()
        await until(lambda: kafka.committed(GROUP) == {(ORDERS, 0): 3, (ORDERS, 1): 2})
    assert await shipped_orders(kafka) == Counter(f"o-{number}" for number in range(1, 6))


async def test_who_stays_takes_over(kafka: Broker) -> None:
    """If one of two instances stops cleanly, the other ships the rest, and nothing twice."""
    await kafka.aio.create_topic(ORDERS, 2)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running(kafka, Warehouses()))
        async with running(kafka, Warehouses()) as second:
            await kafka.aio.wait_for_group(GROUP, members=2)
            await kafka.aio.produce(ORDERS, *[order(number) for number in range(20)])
            await until(lambda: first.shipped and second.shipped)
            await until(lambda: sum(kafka.committed(GROUP).values()) == 20)
        await kafka.aio.wait_for_group(GROUP, members=1)
        await kafka.aio.produce(ORDERS, *[order(number) for number in range(20, 40)])
        await until(lambda: sum(kafka.committed(GROUP).values()) == 40)
    assert await shipped_orders(kafka) == Counter(f"o-{number}" for number in range(40))


async def test_an_expired_session_is_survived(kafka: Broker) -> None:
    """After a minute without heartbeats (one call) the service rejoins and continues to ship."""
    await kafka.aio.create_topic(ORDERS, 2)
    async with running(kafka, Warehouses()):
        before = await kafka.aio.wait_for_group(GROUP, members=1)
        await kafka.aio.clock.advance(60)
        await kafka.aio.produce(ORDERS, *[order(number) for number in range(10)])
        await until(lambda: sum(kafka.committed(GROUP).values()) == 10)
        after = await kafka.aio.wait_for_group(GROUP, members=1)
        assert after.generation > before.generation
        assert after.members[0].member_id != before.members[0].member_id
    # Orders shipped but not committed before the session expired are shipped again.
    shipped = await shipped_orders(kafka)
    assert set(shipped) == {f"o-{number}" for number in range(10)}
    assert max(shipped.values()) <= 2
