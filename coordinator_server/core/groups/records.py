"""Records of `__consumer_offsets` as the core sees them, and their versions on disk.

A record is a pair (key message, value message or None for a tombstone); all durable state comes
from records. The offsets of one request are kept together (`OffsetRecords`): they are encoded in
one pass, and replayed without decoding. Source: Kafka's CoordinatorRecord and
GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coordinator_server.core.groups.offsets import NO_EXPIRE_TIMESTAMP
from coordinator_server.core.groups.settings import GroupKind
from protocol.offsets_log import (
    CONSUMER_GROUP_TYPES,
    GROUP_METADATA_VALUE_VERSION,
    OFFSET_COMMIT_VALUE_VERSION,
    OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY,
    SHARE_GROUP_TYPES,
    STREAMS_GROUP_TYPES,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
    type_of_key,
)
from protocol.schema import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.core.groups.commit_layout import CommitLayout
    from coordinator_server.core.groups.offsets import CommittedOffset

_KINDS = {
    **dict.fromkeys(CONSUMER_GROUP_TYPES, GroupKind.CONSUMER),
    **dict.fromkeys(SHARE_GROUP_TYPES, GroupKind.SHARE),
    **dict.fromkeys(STREAMS_GROUP_TYPES, GroupKind.STREAMS),
}
"""Record key type -> kind of group."""

CoordinatorRecord = tuple[Message, Message | None]
"""(key message, value message); None is a tombstone."""


class OffsetRecords:
    """The offset records of one commit; iterating yields (key, value) pairs.

    `topics` holds (topic, offsets by partition) in record order; a topic may occur more than once.
    With a `layout`, `topics` are the topics of the layout, and no offset has metadata or an
    expiry. For a large commit, `make_pairs` builds the pairs in advance, in steps.
    """

    __slots__ = ("_count", "_pairs", "group_id", "layout", "topics")

    def __init__(
        self,
        group_id: str,
        topics: Sequence[tuple[str, dict[int, CommittedOffset]]],
        layout: CommitLayout | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.layout = layout
        self._pairs: list[CoordinatorRecord] = []
        self._count = sum([len(offsets) for _, offsets in topics])

    def __len__(self) -> int:
        return self._count

    def make_pairs(self) -> Iterator[None]:
        """Build the pairs, one per step."""
        for pair in self._made():
            self._pairs.append(pair)
            yield

    def __iter__(self) -> Iterator[CoordinatorRecord]:
        return iter(self._pairs) if self._pairs else self._made()

    def _made(self) -> Iterator[CoordinatorRecord]:
        for topic, offsets in self.topics:
            for partition, offset in offsets.items():
                key = OffsetCommitKey(group=self.group_id, topic=topic, partition=partition)
                yield key, offset.to_value()


CoordinatorRecords = Sequence[CoordinatorRecord] | OffsetRecords
"""Records that are written together."""


def kind_of(key: Message) -> GroupKind:
    """Return the kind of group that a record key belongs to, for keys other than offset keys."""
    return _KINDS.get(type_of_key(key), GroupKind.CLASSIC)


def value_version(value: Message) -> int:
    """Return the value version that Kafka writes.

    Offsets have version 4, or 1 with an expiry; classic groups 3; all other kinds of groups 0.
    """
    if isinstance(value, OffsetCommitValue):
        if value.expire_timestamp != NO_EXPIRE_TIMESTAMP:
            return OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY
        return OFFSET_COMMIT_VALUE_VERSION
    return GROUP_METADATA_VALUE_VERSION if isinstance(value, GroupMetadataValue) else 0


def encode_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Encode key and value; the value is None for a tombstone."""
    key, value = record
    if value is None:
        return encode_key(key), None
    return encode_key(key), encode_value(value, value_version(value))


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Return the record that deletes a committed offset."""
    return OffsetCommitKey(group=group_id, topic=topic, partition=partition), None
