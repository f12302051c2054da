"""A small workload for the pipeline: three groups in half an hour, which pass in as many seconds.

    python workload.py DIR      # the broker's data in DIR; prints the time at which it ended

`old-export` read everything two days ago and left: it is abandoned. `billing` keeps up while its
members come and go. `reports` reads less than comes in: it lags. The broker's clock is
advanced by 20 seconds with every step; see docs/testing.md.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

from coordinator_server.testing import Broker

STEPS = 100
STEP_SECONDS = 20
RECORDS_A_STEP = 30
DAYS_SILENT = 2
# Longer than the workload: the clients know nothing of the broker's clock and heartbeat by theirs.
SESSION_MS = 30 * 60 * 1000
SETTINGS = {"num.partitions": "6", "offsets.topic.num.partitions": "8"}


class Member:
    """A consumer that is led by the hand: each step it reads once and commits what it read."""

    def __init__(
        self, broker: Broker, group: str, name: str, records_a_step: int, fetch_bytes: int = 1 << 20
    ) -> None:
        self._consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group,
            client_id=name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=records_a_step,
            max_partition_fetch_bytes=fetch_bytes,
            session_timeout_ms=SESSION_MS,
            max_poll_interval_ms=SESSION_MS,
            heartbeat_interval_ms=100,  # this is how a member learns of a rebalance
            request_timeout_ms=SESSION_MS + 1000,
            connections_max_idle_ms=2 * SESSION_MS,
        )
        self._consumer.partitions_for_topic("orders")  # known before the join: no second one

    def step(self) -> None:
        """Read what is there, and commit; wait for it, and for a rebalance, two seconds at most."""
        if self._consumer.poll(timeout_ms=2000):
            self._consumer.commit()

    def read_all(self) -> None:
        """Read to the end: a fetch that was under way has only the first of the new records."""
        ends = self._consumer.end_offsets(self._consumer.assignment())
        while any(self._consumer.position(one) < end for one, end in ends.items()):
            self.step()

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close(autocommit=False)


def run(broker: Broker) -> int:
    """The whole workload; returns the broker's time at its end, in milliseconds."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    _produce(broker, producer, 0)
    export = Member(broker, "old-export", "export", 1000)
    for _ in range(3):
        export.step()
    export.close()
    broker.clock.advance(DAYS_SILENT * 24 * 3600)
    billing = [Member(broker, "billing", "billing-1", 500)]
    # Little at once of each partition: it falls behind on all of them alike.
    reports = Member(broker, "reports", "reports-1", RECORDS_A_STEP // 2, fetch_bytes=500)
    with ThreadPoolExecutor(max_workers=4) as pool:
        for step in range(STEPS):
            _produce(broker, producer, step)
            if step in (20, 40):
                billing.append(Member(broker, "billing", f"billing-{len(billing) + 1}", 500))
            if step == 70:
                billing.pop(1).close()
            list(pool.map(Member.step, [*billing, reports]))
            broker.clock.advance(STEP_SECONDS)
    for member in billing:
        member.read_all()
    ended_ms = broker.clock.now_ms
    broker.stop()  # with its members: a reader of the log still finds them
    return ended_ms


def _produce(broker: Broker, producer: KafkaProducer, step: int) -> None:
    """The records of one step, at the broker's time."""
    now_ms = broker.clock.now_ms
    for number in range(RECORDS_A_STEP):
        key = f"customer {(step * 7 + number) % 97}".encode()
        producer.send("orders", key=key, value=b"an order", timestamp_ms=now_ms)
    producer.flush()


def main() -> None:
    """Run it on the directory of the command line."""
    directory = Path(sys.argv[1])
    with Broker(SETTINGS, data_dir=directory, log_level="warning") as broker:
        print(run(broker))


if __name__ == "__main__":
    main()
