"""A small workload for the pipeline: three groups in half an hour of the broker's time.

    python workload.py DIR      # writes the broker's data to DIR; prints the end time

`old-export` read everything two days ago and left, so it is abandoned. `billing` keeps up while
members join and leave. `reports` reads less than is written, so it lags. The broker's clock is
advanced by 20 seconds per step; see docs/testing.md.
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
# Longer than the workload: clients send heartbeats by their own clock, not by the broker's.
SESSION_MS = 30 * 60 * 1000
SETTINGS = {"num.partitions": "6", "offsets.topic.num.partitions": "8"}


class Member:
    """A consumer that reads and commits once per step."""

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
            heartbeat_interval_ms=100,  # a member learns of a rebalance from a heartbeat
            request_timeout_ms=SESSION_MS + 1000,
            connections_max_idle_ms=2 * SESSION_MS,
        )
        # Requesting metadata before the join avoids a second join.
        self._consumer.partitions_for_topic("orders")

    def step(self) -> None:
        """Read the available records and commit.

        Waits for records or a rebalance up to two seconds.
        """
        if self._consumer.poll(timeout_ms=2000):
            self._consumer.commit()

    def read_all(self) -> None:
        """Read to the end of the log; a fetch in flight has only the first of the new records."""
        ends = self._consumer.end_offsets(self._consumer.assignment())
        while any(self._consumer.position(one) < end for one, end in ends.items()):
            self.step()

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close(autocommit=False)


def run(broker: Broker) -> int:
    """Run the workload and return the broker's time at its end, in milliseconds."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    _produce(broker, producer, 0)
    export = Member(broker, "old-export", "export", 1000)
    for _ in range(3):
        export.step()
    export.close()
    broker.clock.advance(DAYS_SILENT * 24 * 3600)
    billing = [Member(broker, "billing", "billing-1", 500)]
    # A small fetch size makes the group fall behind equally on all partitions.
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
    broker.stop()  # stop the broker before the members leave, so that the log still contains them
    return ended_ms


def _produce(broker: Broker, producer: KafkaProducer, step: int) -> None:
    """Write the records of one step, with the broker's time."""
    now_ms = broker.clock.now_ms
    for number in range(RECORDS_A_STEP):
        key = f"customer {(step * 7 + number) % 97}".encode()
        producer.send("orders", key=key, value=b"an order", timestamp_ms=now_ms)
    producer.flush()


def main() -> None:
    """Run the workload on the directory from the command line."""
    directory = Path(sys.argv[1])
    with Broker(SETTINGS, data_dir=directory, log_level="warning") as broker:
        print(run(broker))


if __name__ == "__main__":
    main()
