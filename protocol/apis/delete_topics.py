"""DeleteTopics (key 20): deletes topics. Versions 1-6.

Version 3 adds TOPIC_DELETION_DISABLED, 4 is flexible, 5 adds an error message (KIP-599), 6 accepts
names or ids (KIP-516).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, UUID, Message, field


class DeleteTopicState(Message):
    """One topic, by name or by id."""

    name: str | None = field(STRING, since=6, nullable_since=6, default=None)
    topic_id: bytes = field(UUID, since=6)


class DeleteTopicsRequest(Message, versions=(1, 6), flexible_since=4):
    """The topics to delete: names up to version 5, then names or ids."""

    topics: list[DeleteTopicState] = field(ARRAY(DeleteTopicState), since=6)
    topic_names: list[str] = field(ARRAY(STRING), until=5)
    timeout_ms: int = field(INT32)


class DeletableTopicResult(Message):
    """One topic's result."""

    name: str | None = field(STRING, nullable_since=6)
    topic_id: bytes = field(UUID, since=6)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=5, nullable_since=5, default=None)


class DeleteTopicsResponse(Message, versions=(1, 6), flexible_since=4):
    """One result per topic."""

    throttle_time_ms: int = field(INT32)
    responses: list[DeletableTopicResult] = field(ARRAY(DeletableTopicResult))
