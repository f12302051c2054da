"""The committed offsets of a group: durable state that every kind of group has.

Only records change it (`replay`), live and while the log is loaded, so replaying the log from empty
always gives the offsets of the running group. `restore` does the same for many offsets that a
snapshot holds together. Source: OffsetMetadataManager.Offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.group.pending_offsets import PendingOffsets
from protocol.offsets_log import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.schema import Message

if TYPE_CHECKING:
    from collections.abc import Iterable


class CommittedOffsets:
    """Committed offsets by topic and partition, in `by_topic`. Values are never changed.

    `pending` are those of open transactions.
    """

    __slots__ = ("by_topic", "pending")

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, OffsetCommitValue]] = {}
        self.pending = PendingOffsets()

    def __bool__(self) -> bool:
        """Whether there is any offset, or an open transaction that may bring one."""
        return bool(self.by_topic) or bool(self.pending)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CommittedOffsets):
            return NotImplemented
        return self.by_topic == other.by_topic and self.pending == other.pending

    __hash__ = None  # type: ignore[assignment]  # mutable

    def replay(self, key: OffsetCommitKey | LegacyOffsetCommitKey, value: Message | None) -> None:
        """Apply one offset record; None is a tombstone."""
        if value is None:
            self._remove(key.topic, key.partition)
            if self.pending:
                self.pending.remove(key.topic, key.partition)
            return
        if isinstance(value, LegacyOffsetCommitValue):
            value = _upgraded(value)
        assert isinstance(value, OffsetCommitValue)
        self.by_topic.setdefault(key.topic, {})[key.partition] = value
        if self.pending:
            self.pending.supersede(key.topic, key.partition)

    def replay_pending(
        self, key: OffsetCommitKey, value: OffsetCommitValue, producer_id: int
    ) -> None:
        """Apply an offset record of a transaction."""
        self.pending.add(producer_id, key.topic, key.partition, value)

    def replay_end(self, producer_id: int, *, commits: bool) -> None:
        """Apply the marker that ends a transaction."""
        if not commits:
            self.pending.abort(producer_id)
            return
        for topic, partition, value in self.pending.commit(producer_id):
            self.by_topic.setdefault(topic, {})[partition] = value

    def partitions_of(self, topic: str) -> Iterable[int]:
        """The partitions of a topic that have an offset, stored or pending."""
        stored = self.by_topic.get(topic, {})
        pending = self.pending.by_topic.get(topic)
        return stored if pending is None else stored.keys() | pending.keys()

    def restore(self, topic: str, offsets: dict[int, OffsetCommitValue]) -> None:
        """Apply the offsets of one topic, by partition, as if each had been replayed."""
        self.by_topic.setdefault(topic, {}).update(offsets)

    def _remove(self, topic: str, partition: int) -> None:
        partitions = self.by_topic.get(topic)
        if partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del self.by_topic[topic]


def _upgraded(value: LegacyOffsetCommitValue) -> OffsetCommitValue:
    """An offset that a broker before Kafka 0.9 wrote."""
    return OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
