"""Offsets that were committed in transactions which have not ended: durable state of a group.

They count for nothing until the marker of their transaction comes (KIP-447, KIP-98). Then each one
replaces the stored offset, unless what is stored lies later in the log. So for each partition the
pending offsets are kept in the order of the log, and what is stored after one of them supersedes
it: it stays pending, but will not replace anything. Source: OffsetMetadataManager's
pendingTransactionalOffsets, replay and replayEndTransactionMarker.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.core.groups.offsets import CommittedOffset


class PendingOffsets:
    """Pending offsets by topic, partition and producer id; None marks a superseded one.

    The producers of one partition come in the order in which their offsets lie in the log.
    """

    __slots__ = ("_partitions_of", "by_topic")

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, dict[int, CommittedOffset | None]]] = {}
        # By producer id: the partitions in which it has pending offsets, at least one.
        self._partitions_of: dict[int, set[tuple[str, int]]] = {}

    def __bool__(self) -> bool:
        """Whether any offset is pending."""
        return bool(self._partitions_of)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PendingOffsets):
            return NotImplemented
        # Two dicts with the same entries are equal in any order: here the order counts.
        return self._partitions_of == other._partitions_of and sorted(self) == sorted(other)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __iter__(self) -> Iterator[tuple[str, int, list[tuple[int, CommittedOffset | None]]]]:
        """Topic, partition, and the pending offsets there: (producer id, value) in log order."""
        for topic, partitions in self.by_topic.items():
            for partition, by_producer in partitions.items():
                yield topic, partition, list(by_producer.items())

    @property
    def producer_ids(self) -> tuple[int, ...]:
        """The producers whose transactions are open here."""
        return tuple(self._partitions_of)

    def has(self, topic: str, partition: int) -> bool:
        """Whether the offset of this partition is unstable."""
        return partition in self.by_topic.get(topic, ())

    def add(
        self, producer_id: int, topic: str, partition: int, value: CommittedOffset | None
    ) -> None:
        """An offset of an open transaction; the one before it of the same transaction is void."""
        by_producer = self.by_topic.setdefault(topic, {}).setdefault(partition, {})
        by_producer.pop(producer_id, None)
        by_producer[producer_id] = value
        self._partitions_of.setdefault(producer_id, set()).add((topic, partition))

    def supersede(self, topic: str, partition: int) -> None:
        """An offset is stored that lies later in the log than everything pending here."""
        by_producer = self.by_topic.get(topic, {}).get(partition)
        if by_producer is not None:
            for producer_id in by_producer:
                by_producer[producer_id] = None

    def remove(self, topic: str, partition: int) -> None:
        """The offset of a partition is deleted: pending ones go with it."""
        for producer_id in self._pop(topic, partition):
            partitions = self._partitions_of[producer_id]
            partitions.remove((topic, partition))
            if not partitions:
                del self._partitions_of[producer_id]

    def commit(self, producer_id: int) -> list[tuple[str, int, CommittedOffset]]:
        """A transaction was committed: its offsets are no longer pending; those that count.

        What is pending before such an offset is superseded by it.
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
        """A transaction was aborted: drop its offsets."""
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
