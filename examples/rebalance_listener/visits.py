"""Visits per page, counted in memory and kept in SQLite: what to do when partitions come and go.

    python visits.py 127.0.0.1:9092 visits.db

Counts and offsets are written in one transaction, so the counts always match the offset beside
them. Writing for every record would be slow; it is done every `flush_every`
records, and at the three moments that a rebalance listener is called at:

- revoked: the partitions are still ours. Write, so that the next owner begins where we stopped.
- lost: the session has expired, someone else may have them by now. Write nothing, forget.
- assigned: read counts and offset of what is ours now, and seek there.

kafka-python calls the listener from a thread of its own, hence the lock.
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
    """Counts by partition and page, and the next offset of each partition; in one file."""

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
        """Counts by page, and where to go on reading."""
        rows = self._database.execute(
            "SELECT page, visits FROM counts WHERE partition = ?", (partition,)
        )
        counts = Counter(dict(rows.fetchall()))
        row = self._database.execute(
            "SELECT next_offset FROM offsets WHERE partition = ?", (partition,)
        ).fetchone()
        return counts, row[0] if row else 0

    def write(self, partition: int, counts: Counter[str], next_offset: int) -> None:
        """Keep both, or neither."""
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
        """Visits by page over all partitions, as far as they are kept."""
        rows = self._database.execute("SELECT page, SUM(visits) FROM counts GROUP BY page")
        return Counter(dict(rows.fetchall()))

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class VisitCounter:
    """One consumer of the group, and what it has counted since it last wrote."""

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
            enable_auto_commit=False,  # the offsets that count are those in the store
            **options,
        )
        self._consumer.subscribe([VISITS], listener=_Listener(self))
        # kafka-python 3.0.12 joins without waiting for metadata: a first member would assign
        # nothing, rejoin, and lose what it gets if its poll ends meanwhile. So ask before.
        self._consumer.partitions_for_topic(VISITS)

    def run_once(self, timeout_ms: int = 200) -> int:
        """Count what comes within `timeout_ms`; how many visits that was."""
        before = self._rebalances
        polled = self._consumer.poll(timeout_ms=timeout_ms)
        with self._lock:
            if self._rebalances != before:
                # It is unknown whether these records were fetched before or after it: once more.
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
        """Write what was counted in these partitions."""
        with self._lock:
            # One that closes amid a rebalance may be called twice for what it has let go already.
            for partition in self._counts.keys() & set(partitions):
                self._store.write(partition, self._counts[partition], self._positions[partition])
            self._unwritten = 0

    def take(self, partition: Any) -> None:
        """Begin with a partition where its last owner stopped."""
        with self._lock:
            counts, position = self._store.read(partition.partition)
            self._counts[partition.partition] = counts
            self._positions[partition.partition] = position
            self._rebalances += 1
            self._consumer.seek(partition, position)

    def forget(self, partitions: Iterable[int]) -> None:
        """Drop what was counted in partitions that are not ours any more."""
        with self._lock:
            self._rebalances += 1
            for partition in partitions:
                self._counts.pop(partition, None)
                self._positions.pop(partition, None)

    def close(self) -> None:
        """Leave the group; the listener sees everything revoked."""
        self._consumer.close(autocommit=False)


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Passes on what the consumer reports of its partitions."""

    def __init__(self, counter: VisitCounter) -> None:
        self._counter = counter

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """The partitions are still ours for this moment: write."""
        numbers = self._note("revoked", revoked)
        self._counter.flush(numbers)
        self._counter.forget(numbers)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        """They are not ours any more: what we counted, the new owner counts again."""
        self._counter.forget(self._note("lost", lost))

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Go on where the last owner stopped."""
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
