"""Revenue per customer: reads orders, adds them up, writes results, then commits.

    python revenue.py 127.0.0.1:9092

Orders are JSON, `{"order": "o-1", "customer": "ada", "cents": 1250}`. For every polled batch, one
record per customer is written to `revenue`. The order of the steps prevents data loss: first
results are acknowledged, then offsets are committed. A crash in between repeats a batch.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import kafka

ORDERS, REVENUE, REJECTED = "orders", "revenue", "orders-rejected"
GROUP = "revenue"


class Order(NamedTuple):
    """An order; `cents` is its price."""

    order: str
    customer: str
    cents: int


def parse_order(value: bytes) -> Order:
    """Parse an order from JSON. Raises ValueError for anything else."""
    try:
        fields = json.loads(value)
        order = Order(fields["order"], fields["customer"], fields["cents"])
    except (TypeError, KeyError) as error:
        raise ValueError(f"no order: {error}") from error
    if not isinstance(order.cents, int) or order.cents < 0:
        raise ValueError(f"cents={order.cents!r} is no amount")
    return order


def revenue_of(orders: list[Order]) -> dict[str, dict[str, int]]:
    """Return cents and number of orders by customer."""
    cents: Counter[str] = Counter()
    numbers: defaultdict[str, int] = defaultdict(int)
    for order in orders:
        cents[order.customer] += order.cents
        numbers[order.customer] += 1
    return {name: {"cents": cents[name], "orders": numbers[name]} for name in numbers}


class RevenueService:
    """A consumer and a producer; `run_once` processes one batch."""

    def __init__(self, bootstrap_servers: str, **consumer_options: Any) -> None:
        self._consumer = kafka.KafkaConsumer(
            ORDERS,
            bootstrap_servers=bootstrap_servers,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **consumer_options,
        )
        # kafka-python 3.0.12 joins without metadata: a first member would assign nothing, rejoin,
        # and lose its partitions if its poll ends meanwhile. So request metadata first.
        self._consumer.partitions_for_topic(ORDERS)
        self._producer = kafka.KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")

    def run_once(self, timeout_ms: int = 500) -> int:
        """Process the records of one poll of up to `timeout_ms` and return their number."""
        polled = self._consumer.poll(timeout_ms=timeout_ms)
        records = [record for batch in polled.values() for record in batch]
        if not records:
            return 0
        orders = []
        for record in records:
            try:
                orders.append(parse_order(record.value))
            except ValueError as error:
                headers = [("reason", str(error).encode())]
                self._producer.send(REJECTED, record.value, headers=headers)
        for customer, revenue in revenue_of(orders).items():
            self._producer.send(REVENUE, json.dumps(revenue).encode(), key=customer.encode())
        self._producer.flush()
        self._consumer.commit()
        return len(records)

    def close(self) -> None:
        """Leave the group without committing unprocessed records."""
        self._consumer.close()
        self._producer.close()


def main() -> None:
    """Run until Ctrl-C."""
    service = RevenueService(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
    try:
        while True:
            service.run_once()
    except KeyboardInterrupt:
        service.close()


if __name__ == "__main__":
    main()
