"""The hard state of a group: what its records in the log say, and nothing else.

Only `GroupImage.replay` changes it, live and while the log is loaded; so replaying the log from
empty always gives the image of the running group. (`restore` is the same for many offsets that a
snapshot holds together.) What a rebalance has in the making (parked requests, a generation without
an assignment) is soft state and lives in `GroupMetadata`.
"""

from __future__ import annotations

from coordinator_server.group.records import Record
from protocol.offsets_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)


class GroupImage:
    """Last GroupMetadata record of a group, and its committed offsets by topic and partition."""

    __slots__ = ("group", "offsets")

    def __init__(self) -> None:
        self.group: GroupMetadataValue | None = None
        self.offsets: dict[str, dict[int, OffsetCommitValue]] = {}

    def replay(self, record: Record) -> None:
        """Apply one record of this group; records of other types are none of our business."""
        key, value = record
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            if value is None:
                self._drop_offset(key.topic, key.partition)
                return
            if isinstance(value, LegacyOffsetCommitValue):
                value = _modern(value)
            assert isinstance(value, OffsetCommitValue)
            self.offsets.setdefault(key.topic, {})[key.partition] = value
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self.group = value

    def restore(self, topic: str, offsets: dict[int, OffsetCommitValue]) -> None:
        """Apply the offsets of one topic, by partition, as if each had been replayed."""
        self.offsets.setdefault(topic, {}).update(offsets)

    def _drop_offset(self, topic: str, partition: int) -> None:
        partitions = self.offsets.get(topic)
        if partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del self.offsets[topic]

    @property
    def is_blank(self) -> bool:
        """Whether the log knows nothing (any more) of the group."""
        return self.group is None and not self.offsets

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupImage):
            return NotImplemented
        return self.group == other.group and self.offsets == other.offsets

    __hash__ = None  # type: ignore[assignment]  # mutable


def _modern(value: LegacyOffsetCommitValue) -> OffsetCommitValue:
    """An offset that a very old broker has written."""
    return OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
