"""PendingOffsets: the offsets of a group's open transactions, as durable state.

Pending offsets have no effect until their transaction's marker is written (KIP-447, KIP-98). On
commit each pending offset replaces the stored offset, unless the stored offset is later in the log.
So the pending offsets of each partition are kept in log order, and a later stored offset supersedes
them: a superseded offset stays pending, but will not replace anything. Source:
OffsetMetadataManager's pendingTransactionalOffsets, replay and replayEndTransactionMarker.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.core.groups.offsets import CommittedOffset


class PendingOffsets:
    """Pending offsets by topic, partition and producer id; None marks a superseded offset.

    The producers of a partition are in the log order of their offsets.
    """

    __slots__ = ("_partitions_of", "by_topic")

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, dict[int, CommittedOffset | None]]] = {}
        # Producer id -> the partitions with a pending offset of the producer; never an empty set.
        self._partitions_of: dict[int, set[tuple[str, int]]] = {}

    def __bool__(self) -> bool:
        """Return whether any offset is pending."""
        return bool(self._partitions_of)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PendingOffsets):
            return NotImplemented
        # Equality of dicts ignores the order of entries, but the order of producers matters.
        return self._partitions_of == other._partitions_of and sorted(self) == sorted(other)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __iter__(self) -> Iterator[tuple[str, int, list[tuple[int, CommittedOffset | None]]]]:
        """Yield topic, partition and the pending offsets: (producer id, value) in log order."""
        for topic, partitions in self.by_topic.items():
            for partition, by_producer in partitions.items():
                yield topic, partition, list(by_producer.items())

    @property
    def producer_ids(self) -> tuple[int, ...]:
        """The producers with open transactions in this group."""
        return tuple(self._partitions_of)

    def has(self, topic: str, partition: int) -> bool:
        """Return whether the partition has a pending offset (UNSTABLE_OFFSET_COMMIT)."""
        return partition in self.by_topic.get(topic, ())

    def add(
        self, producer_id: int, topic: str, partition: int, value: CommittedOffset | None
    ) -> None:
        """Add a pending offset; it replaces an earlier offset of the same transaction."""
        by_producer = self.by_topic.setdefault(topic, {}).setdefault(partition, {})
        by_producer.pop(producer_id, None)
        by_producer[producer_id] = value
        self._partitions_of.setdefault(producer_id, set()).add((topic, partition))

    def supersede(self, topic: str, partition: int) -> None:
        """Mark all pending offsets of a partition as superseded by a later stored offset."""
        by_producer = self.by_topic.get(topic, {}).get(partition)
        if by_producer is not None:
            for producer_id in by_producer:
                by_producer[producer_id] = None

    def remove(self, topic: str, partition: int) -> None:
        """Drop the pending offsets of a partition whose offset was deleted."""
        for producer_id in self._pop(topic, partition):
            partitions = self._partitions_of[producer_id]
            partitions.remove((topic, partition))
            if not partitions:
                del self._partitions_of[producer_id]

    def commit(self, producer_id: int) -> list[tuple[str, int, CommittedOffset]]:
        """Remove the offsets of a committed transaction; return those that are not superseded.

        Each returned offset supersedes the offsets of other transactions that precede it in the
        log.
        """
        counting: list[tuple[str, int, CommittedOffset]] = []
        for topic, partition in sorted(self._partitions_of.pop(producer_id, ())):
            by_producer = self.by_topic[topic][partition]
            value = by_producer[producer_id]
            if value is not None:
                counting.append((topic, partition, value))
                for earlier in takewhile(producer_id.__ne__, by_producer):
                    by_producer[earlier] = None
            self._drop(topic, partition, producer_id)
        return counting

    def abort(self, producer_id: int) -> None:
        """Drop the offsets of an aborted transaction."""
        for topic, partition in self._partitions_of.pop(producer_id, ()):
            self._drop(topic, partition, producer_id)

    def _drop(self, topic: str, partition: int, producer_id: int) -> None:
        by_producer = self.by_topic[topic][partition]
        del by_producer[producer_id]
        if not by_producer:
            self._pop(topic, partition)

    def _pop(self, topic: str, partition: int) -> dict[int, CommittedOffset | None]:
        partitions = self.by_topic.get(topic, {})
        by_producer = partitions.pop(partition, {})
        if not partitions:
            self.by_topic.pop(topic, None)
        return by_producer
