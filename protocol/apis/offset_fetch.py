"""OffsetFetch (key 9): reads committed offsets of groups. Versions 1-10.

A request names one group up to version 7, several groups from version 8 on. Version 2 adds the
error code of the group, and null to request all topics; version 3 adds the throttle time, 5 the
leader epoch; version 6 is flexible; version 7 can require stable offsets (KIP-447). Version 9 adds
the member id and epoch of KIP-848. Version 10 identifies topics by id.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT16, INT32, INT64, STRING, UUID, Message, field


class OffsetFetchRequestTopic(Message):
    """One topic of the single group (up to version 7)."""

    name: str = field(STRING, until=7)
    partition_indexes: list[int] = field(ARRAY(INT32), until=7)


class OffsetFetchRequestTopics(Message):
    """One topic of one group (from version 8)."""

    name: str = field(STRING, since=8, until=9)
    topic_id: bytes = field(UUID, since=10)
    partition_indexes: list[int] = field(ARRAY(INT32), since=8)


class OffsetFetchRequestGroup(Message):
    """One group (from version 8)."""

    group_id: str = field(STRING, since=8)
    member_id: str | None = field(STRING, since=9, nullable_since=9, default=None)
    member_epoch: int = field(INT32, since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(
        ARRAY(OffsetFetchRequestTopics), since=8, nullable_since=8
    )


class OffsetFetchRequest(Message, versions=(1, 10), flexible_since=6):
    """Groups and partitions to look up; null topics means all."""

    group_id: str = field(STRING, until=7)
    topics: list[OffsetFetchRequestTopic] | None = field(
        ARRAY(OffsetFetchRequestTopic), until=7, nullable_since=2
    )
    groups: list[OffsetFetchRequestGroup] = field(ARRAY(OffsetFetchRequestGroup), since=8)
    require_stable: bool = field(BOOL, since=7)


class OffsetFetchResponsePartition(Message):
    """One committed offset, -1 if there is none (up to version 7)."""

    partition_index: int = field(INT32, until=7)
    committed_offset: int = field(INT64, until=7)
    committed_leader_epoch: int = field(INT32, since=5, until=7, default=-1)
    metadata: str | None = field(STRING, until=7, nullable_since=0)
    error_code: int = field(INT16, until=7)


class OffsetFetchResponseTopic(Message):
    """One topic's results (up to version 7)."""

    name: str = field(STRING, until=7)
    partitions: list[OffsetFetchResponsePartition] = field(
        ARRAY(OffsetFetchResponsePartition), until=7
    )


class OffsetFetchResponsePartitions(Message):
    """One committed offset, -1 if there is none (from version 8)."""

    partition_index: int = field(INT32, since=8)
    committed_offset: int = field(INT64, since=8)
    committed_leader_epoch: int = field(INT32, since=8, default=-1)
    metadata: str | None = field(STRING, since=8, nullable_since=8)
    error_code: int = field(INT16, since=8)


class OffsetFetchResponseTopics(Message):
    """One topic's results (from version 8)."""

    name: str = field(STRING, since=8, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetFetchResponsePartitions] = field(
        ARRAY(OffsetFetchResponsePartitions), since=8
    )


class OffsetFetchResponseGroup(Message):
    """One group's results, or its error (from version 8)."""

    group_id: str = field(STRING, since=8)
    topics: list[OffsetFetchResponseTopics] = field(ARRAY(OffsetFetchResponseTopics), since=8)
    error_code: int = field(INT16, since=8)


class OffsetFetchResponse(Message, versions=(1, 10), flexible_since=6):
    """The committed offsets: of one group up to version 7, by group from version 8."""

    throttle_time_ms: int = field(INT32, since=3)
    topics: list[OffsetFetchResponseTopic] = field(ARRAY(OffsetFetchResponseTopic), until=7)
    error_code: int = field(INT16, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = field(ARRAY(OffsetFetchResponseGroup), since=8)
