"""CommittedOffsets: the durable committed offsets of a group of any kind.

Only records change the offsets (`replay`), live and while the log is loaded, so replaying the log
from empty always gives the offsets of the running group. `replay_offsets` does the same for many
offsets at once, from one request or a snapshot. Source: OffsetMetadataManager.Offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.core.groups.pending_offsets import PendingOffsets
from protocol.offsets_log import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.schema import ZERO_UUID, Message

if TYPE_CHECKING:
    from collections.abc import Iterable

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
