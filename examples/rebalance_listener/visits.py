"""Visits per page, counted in memory and stored in SQLite: how to handle a rebalance.

    python visits.py 127.0.0.1:9092 visits.db

Counts and offsets are written in one transaction, so the counts always match the stored offset.
Writing every record would be slow. The counter writes after `flush_every` records and uses the
three callbacks of a rebalance listener:

- revoked: write the counts while the counter still owns the partitions, so that the next owner
  continues from there.
- lost: the session has expired and other members may own the partitions. Drop their counts.
- assigned: read counts and offsets of the new partitions, and seek to the offsets.

kafka-python calls the listener in another thread, so a lock is needed.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

import kafka

VISITS = "visits"
GROUP = "visits"


class Store:
    """Counts by partition and page, and the next offset of each partition, in one file."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(
            path, isolation_level=None, timeout=10, check_same_thread=False
        )
        with self._database:
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS counts (partition, page, visits, "
                "PRIMARY KEY (partition, page))"
            )
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS offsets (partition PRIMARY KEY, next_offset)"
            )

    def read(self, partition: int) -> tuple[Counter[str], int]:
        """Return the counts by page, and the offset at which to continue."""
        rows = self._database.execute(
            "SELECT page, visits FROM counts WHERE partition = ?", (partition,)
        )
        counts = Counter(dict(rows.fetchall()))
        row = self._database.execute(
            "SELECT next_offset FROM offsets WHERE partition = ?", (partition,)
        ).fetchone()
        return counts, row[0] if row else 0

    def write(self, partition: int, counts: Counter[str], next_offset: int) -> None:
        """Store counts and offset in one transaction."""
        self._database.execute("BEGIN IMMEDIATE")
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO counts VALUES (?, ?, ?)",
                [(partition, page, visits) for page, visits in counts.items()],
            )
            self._database.execute(
                "INSERT OR REPLACE INTO offsets VALUES (?, ?)", (partition, next_offset)
            )

    def total(self) -> Counter[str]:
        """Return the stored visits by page over all partitions."""
        rows = self._database.execute("SELECT page, SUM(visits) FROM counts GROUP BY page")
        return Counter(dict(rows.fetchall()))

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class VisitCounter:
    """One consumer of the group, and the visits that it has not stored yet."""

    def __init__(
        self, bootstrap_servers: str, store: Store, flush_every: int = 1000, **options: Any
    ) -> None:
        self._store = store
        self._flush_every = flush_every
        self._counts: dict[int, Counter[str]] = {}
        self._positions: dict[int, int] = {}
        self._unwritten = 0
        self._rebalances = 0
        self._lock = threading.RLock()
        self.told: list[str] = []
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=GROUP,
            enable_auto_commit=False,  # the store keeps the offsets
            **options,
        )
        self._consumer.subscribe([VISITS], listener=_Listener(self))
        # kafka-python 3.0.12 joins without metadata: a first member would assign nothing, rejoin,
        # and lose its partitions if its poll ends meanwhile. So request metadata first.
        self._consumer.partitions_for_topic(VISITS)

    def run_once(self, timeout_ms: int = 200) -> int:
        """Count the visits that arrive within `timeout_ms` and return their number."""
        before = self._rebalances
        polled = self._consumer.poll(timeout_ms=timeout_ms)
        with self._lock:
            if self._rebalances != before:
                # The records may have been fetched before or after the rebalance, so read them
                # again.
                for partition in self._consumer.assignment():
                    if partition.partition in self._positions:
                        self._consumer.seek(partition, self._positions[partition.partition])
                return 0
            for partition, records in polled.items():
                values = [record.value.decode() for record in records]
                self._counts[partition.partition].update(values)
                self._positions[partition.partition] = records[-1].offset + 1
                self._unwritten += len(records)
            if self._unwritten >= self._flush_every:
                self.flush(self._counts)
        return sum(map(len, polled.values()))

    def flush(self, partitions: Iterable[int]) -> None:
        """Store the visits counted in these partitions."""
        with self._lock:
            # Closing during a rebalance may revoke partitions that were already given up.
            for partition in self._counts.keys() & set(partitions):
                self._store.write(partition, self._counts[partition], self._positions[partition])
            self._unwritten = 0

    def take(self, partition: Any) -> None:
        """Start reading a partition where its last owner stopped."""
        with self._lock:
            counts, position = self._store.read(partition.partition)
            self._counts[partition.partition] = counts
            self._positions[partition.partition] = position
            self._rebalances += 1
            self._consumer.seek(partition, position)

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop the counts of partitions that this consumer no longer owns."""
        with self._lock:
            self._rebalances += 1
            for partition in partitions:
                self._counts.pop(partition, None)
                self._positions.pop(partition, None)

    def close(self) -> None:
        """Leave the group; the listener is called for all revoked partitions."""
        self._consumer.close(autocommit=False)


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Forwards assignment changes of the consumer."""

    def __init__(self, counter: VisitCounter) -> None:
        self._counter = counter

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Store the counts, while this consumer still owns the partitions."""
        numbers = self._note("revoked", revoked)
        self._counter.flush(numbers)
        self._counter.forget(numbers)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        """Drop the counts; the new owner counts these visits again."""
        self._counter.forget(self._note("lost", lost))

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Continue where the last owner stopped."""
        partitions = list(assigned)
        self._note("assigned", partitions)
        for partition in partitions:
            self._counter.take(partition)

    def _note(self, event: str, partitions: Iterable[Any]) -> list[int]:
        numbers = sorted(partition.partition for partition in partitions)
        if numbers:
            self._counter.told.append(event)
        return numbers


def main() -> None:
    """Count until Ctrl-C."""
    counter = VisitCounter(sys.argv[1], Store(sys.argv[2]))
    try:
        while True:
            counter.run_once()
    except KeyboardInterrupt:
        counter.close()


if __name__ == "__main__":
    main()
