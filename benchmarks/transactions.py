"""CPU per transaction of 10 records, compared with Kafka in one run.

    python -m benchmarks.transactions [ROUNDS]

Only the CPU time of the brokers counts, so that the client (confluent-kafka, transactions v1) is
not measured. Rounds alternate after a warm-up. Kafka needs Java and Maven.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tests.oracle.kafka_process import Kafka
from tests.support import Broker, cpu_seconds

WARM_UP, TRANSACTIONS, RECORDS = 1500, 300, 10
SECONDS = 30


class Side:
    """A broker under measurement."""

    def __init__(self, name: str, bootstrap: str, cpu: Callable[[], float]) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.cpu = cpu
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for made in admin.create_topics([NewTopic("t", 10, 1)]).values():
            made.result(SECONDS)
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "bench",
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self.producer.init_transactions(SECONDS)

    def run(self, transactions: int, partitions: int) -> float:
        """Return milliseconds of the broker's CPU per transaction."""
        before = self.cpu()
        for _ in range(transactions):
            self.producer.begin_transaction()
            for number in range(RECORDS):
                self.producer.produce("t", b"x" * 100, partition=number % partitions)
            self.producer.commit_transaction(SECONDS)
        return (self.cpu() - before) / transactions * 1000


def main() -> None:
    """Print a table of medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as directory, Broker(data_dir=f"{directory}/ours") as ours:
        kafka = Kafka(Path(directory), {})
        kafka.start()
        try:
            sides = [
                Side("ours", ours.bootstrap_servers, ours.cpu_seconds),
                Side("Kafka", kafka.bootstrap_servers, lambda: cpu_seconds(kafka.pid)),
            ]
            for side in sides:
                side.run(WARM_UP, 10)
            print("| partitions | ours, ms | Kafka, ms | Kafka / ours |\n|---|---|---|---|")
            for partitions in (1, 10):
                figures: dict[str, list[float]] = {side.name: [] for side in sides}
                for _ in range(rounds):
                    for side in sides:
                        figures[side.name].append(side.run(TRANSACTIONS, partitions))
                a, b = (statistics.median(figures[side.name]) for side in sides)
                print(f"| {partitions} | {a:.2f} | {b:.2f} | {b / a:.1f} |", flush=True)
        finally:
            kafka.end()


if __name__ == "__main__":
    main()
