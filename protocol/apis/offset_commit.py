"""OffsetCommit (key 8): commits offsets of a group. Versions 2-10.

Versions 2-4 have a retention time, which is stored with the committed offset. Version 6 adds the
leader epoch, 7 the group instance id (KIP-345). Version 8 is flexible. Version 9 supports members
of KIP-848 and adds GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH. Version 10 identifies topics by id
and adds UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, UUID, Message, field


class OffsetCommitRequestPartition(Message):
    """The next offset to read, with the client's metadata."""

    BY_COLUMNS = True

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=6, default=-1)
    committed_metadata: str | None = field(STRING, nullable_since=0)


class OffsetCommitRequestTopic(Message):
    """One topic's offsets."""

    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetCommitRequestPartition] = field(ARRAY(OffsetCommitRequestPartition))


class OffsetCommitRequest(Message, versions=(2, 10), flexible_since=8):
    """Offsets to commit; a commit without group membership has generation -1 and no member id."""

    group_id: str = field(STRING)
    generation_id_or_member_epoch: int = field(INT32, default=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=7, nullable_since=7, default=None)
    retention_time_ms: int = field(INT64, until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = field(ARRAY(OffsetCommitRequestTopic))


class OffsetCommitResponsePartition(Message):
    """One partition's error code."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class OffsetCommitResponseTopic(Message):
    """One topic's results."""

    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetCommitResponsePartition] = field(ARRAY(OffsetCommitResponsePartition))


class OffsetCommitResponse(Message, versions=(2, 10), flexible_since=8):
    """An error code per partition."""

    throttle_time_ms: int = field(INT32, since=3)
    topics: list[OffsetCommitResponseTopic] = field(ARRAY(OffsetCommitResponseTopic))
