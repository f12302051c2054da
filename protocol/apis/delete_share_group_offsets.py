"""DeleteShareGroupOffsets (key 92): deletes offsets of a share group (KIP-932). Version 0.

The group must be empty.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, UUID, Message, field


class DeleteShareGroupOffsetsRequestTopic(Message):
    """One topic, with all its partitions."""

    topic_name: str = field(STRING)


class DeleteShareGroupOffsetsRequest(Message, versions=(0, 0), flexible_since=0):
    """The topics of one group."""

    group_id: str = field(STRING)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(
        ARRAY(DeleteShareGroupOffsetsRequestTopic)
    )


class DeleteShareGroupOffsetsResponseTopic(Message):
    """One topic's result."""

    topic_name: str = field(STRING)
    topic_id: bytes = field(UUID)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class DeleteShareGroupOffsetsResponse(Message, versions=(0, 0), flexible_since=0):
    """One result per topic, or the error of the group."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(
        ARRAY(DeleteShareGroupOffsetsResponseTopic)
    )
