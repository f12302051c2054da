"""Shipping: finds a warehouse for the article of each order, and writes a shipment.

    python shipping.py 127.0.0.1:9092

Partitions are processed concurrently, the records of each partition in order. If a lookup fails,
its partition is retried from the failed record; other partitions continue. Shipped orders are
committed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import aiokafka
from aiokafka.errors import CommitFailedError, IllegalStateError

ORDERS, SHIPMENTS = "orders", "shipments"
GROUP = "shipping"

FindWarehouse = Callable[[str], Awaitable[str]]
"""Returns a warehouse that has an article. Raises LookupError if the lookup fails temporarily."""


class ShippingService:
    """The service; use it with `async with`. `run_once` processes one batch."""

    def __init__(
        self, bootstrap_servers: str, find_warehouse: FindWarehouse, **consumer_options: Any
    ) -> None:
        self._find_warehouse = find_warehouse
        self._consumer = aiokafka.AIOKafkaConsumer(
            ORDERS,
            bootstrap_servers=bootstrap_servers,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **consumer_options,
        )
        self._producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap_servers)
        self.shipped = 0

    async def __aenter__(self) -> Self:
        await self._producer.start()
        await self._consumer.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._consumer.stop()
        await self._producer.stop()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self.run_once()

    async def run_once(self, timeout_ms: int = 200) -> None:
        """Ship the orders that arrive within `timeout_ms`."""
        polled = await self._consumer.getmany(timeout_ms=timeout_ms)
        await asyncio.gather(*(self._ship(*item) for item in polled.items()))

    async def _ship(self, partition: Any, records: list[Any]) -> None:
        """Ship the records of one partition and commit the shipped ones."""
        shipped = 0
        for record in records:
            order = json.loads(record.value)
            try:
                warehouse = await self._find_warehouse(order["article"])
            except LookupError:
                break
            shipment = {"order": order["order"], "warehouse": warehouse}
            await self._producer.send_and_wait(
                SHIPMENTS, json.dumps(shipment).encode(), key=order["order"].encode()
            )
            shipped += 1
        self.shipped += shipped
        try:
            if shipped < len(records):
                self._consumer.seek(partition, records[shipped].offset)
            if shipped:
                await self._consumer.commit({partition: records[shipped - 1].offset + 1})
        except (CommitFailedError, IllegalStateError):
            # The partition was reassigned; its new owner starts at the last commit.
            return


async def _nearest(article: str) -> str:
    """Return a warehouse that always has every article."""
    return "main"


async def main() -> None:
    """Run until Ctrl-C."""
    async with ShippingService(
        sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092", _nearest
    ) as service:
        await service.run()


if __name__ == "__main__":
    asyncio.run(main())
