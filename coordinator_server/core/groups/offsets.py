"""CommittedOffsets: the durable committed offsets of a group of any kind.

Only records change the offsets (`replay`), live and while the log is loaded, so replaying the log
from empty always gives the offsets of the running group. `replay_offsets` does the same for many
offsets at once, from one request or a snapshot. Source: OffsetMetadataManager.Offsets.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from protocol.offsets_log import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.schema import ZERO_UUID, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


NO_LEADER_EPOCH = -1
NO_EXPIRE_TIMESTAMP = -1


def is_too_long(metadata: str | None, limit: int) -> bool:
    """Return whether metadata exceeds `offset.metadata.max.bytes`.

    The length counts UTF-16 units, like Java's String.length().
    """
    if not metadata or len(metadata) * 2 <= limit:
        return False
    return len(metadata) + sum(character > "\uffff" for character in metadata) > limit


class CommittedOffset(NamedTuple):
    """The committed offset of one partition; timestamps in ms. Source: OffsetAndMetadata."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = NO_EXPIRE_TIMESTAMP
    topic_id: bytes = ZERO_UUID

    @classmethod
    def of(cls, value: Message) -> CommittedOffset:
        """Return the offset from a record value of any version."""
        if isinstance(value, LegacyOffsetCommitValue):  # written by brokers before Kafka 0.9
            return cls(
                value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
            )
        assert isinstance(value, OffsetCommitValue)
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )

    def to_value(self) -> OffsetCommitValue:
        """Return the record value."""
        return OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp=self.commit_timestamp,
            expire_timestamp=self.expire_timestamp,
            topic_id=self.topic_id,
        )


class Revision:
    """A version of a group's offsets, compared by identity."""

    __slots__ = ()


class CommittedOffsets:
    """Committed offsets by topic and partition, in `by_topic`.

    `pending` are the offsets of open transactions. Every change of `by_topic` sets a new `revision`
    object, so that results derived from the offsets can be cached.
    """

    __slots__ = ("by_topic", "pending", "revision")

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, CommittedOffset]] = {}
        self.pending = PendingOffsets()
        self.revision = Revision()

    def __bool__(self) -> bool:
        """Return whether the group has a committed offset or a pending transactional offset."""
        return bool(self.by_topic) or bool(self.pending)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CommittedOffsets):
            return NotImplemented
        return self.by_topic == other.by_topic and self.pending == other.pending

    __hash__ = None  # type: ignore[assignment]  # mutable

    def replay(self, key: OffsetCommitKey | LegacyOffsetCommitKey, value: Message | None) -> None:
        """Apply one offset record; None is a tombstone."""
        self.revision = Revision()
        if value is None:
            self._remove(key.topic, key.partition)
            if self.pending:
                self.pending.remove(key.topic, key.partition)
            return
        self.by_topic.setdefault(key.topic, {})[key.partition] = CommittedOffset.of(value)
        if self.pending:
            self.pending.supersede(key.topic, key.partition)

    def replay_offsets(self, topic: str, offsets: dict[int, CommittedOffset]) -> None:
        """Apply the offset records of one topic, by partition, like replaying each record."""
        self.revision = Revision()
        stored = self.by_topic.get(topic)
        if stored is None:
            stored = self.by_topic[topic] = {}
        stored.update(offsets)
        if self.pending:
            for partition in offsets:
                self.pending.supersede(topic, partition)

    def replay_pending(
        self, topic: str, partition: int, value: CommittedOffset, producer_id: int
    ) -> None:
        """Apply an offset record of an open transaction."""
        self.pending.add(producer_id, topic, partition, value)

    def replay_end(self, producer_id: int, *, commits: bool) -> None:
        """Apply the marker that ends a transaction."""
        self.revision = Revision()
        if not commits:
            self.pending.abort(producer_id)
            return
        for topic, partition, value in self.pending.commit(producer_id):
            self.by_topic.setdefault(topic, {})[partition] = value

    def partitions_of(self, topic: str) -> Iterable[int]:
        """Return the partitions of a topic that have a stored or pending offset."""
        stored = self.by_topic.get(topic, {})
        pending = self.pending.by_topic.get(topic)
        return stored if pending is None else stored.keys() | pending.keys()

    def _remove(self, topic: str, partition: int) -> None:
        partitions = self.by_topic.get(topic)
        if partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del self.by_topic[topic]


class PendingOffsets:
    """Pending offsets by topic, partition and producer id; None marks a superseded offset.

    The offsets have no effect until the marker of their transaction is written (KIP-447). When the
    transaction commits, each of its offsets replaces the stored offset of the partition, unless the
    stored offset is later in the log. To decide this, the producers of a partition are kept in the
    log order of their offsets, and a later stored offset marks all of them as superseded. A
    superseded offset stays pending, but never replaces the stored offset. Source:
    OffsetMetadataManager's pendingTransactionalOffsets.
    """

    __slots__ = ("_partitions_of", "by_topic")

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, dict[int, CommittedOffset | None]]] = {}
        # For each producer id: the partitions with a pending offset. A producer without pending
        # offsets has no entry.
        self._partitions_of: dict[int, set[tuple[str, int]]] = {}

    def __bool__(self) -> bool:
        """Return whether any offset is pending."""
        return bool(self._partitions_of)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PendingOffsets):
            return NotImplemented
        # dicts compare equal in any order, but the order of producers matters
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
        """Remove the offsets of a committed transaction; return all that are not superseded.

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
