"""ConsumerGroupHeartbeat (key 68): heartbeat of a consumer group member (KIP-848). Versions 0-1.

Since version 1, the client generates its member id and can subscribe with a regular expression.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, UUID, Message, field


class OwnedTopicPartitions(Message):
    """Partitions of one topic that the member owns."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(ARRAY(INT32))


class ConsumerGroupHeartbeatRequest(Message, versions=(0, 1), flexible_since=0):
    """Changes since the last heartbeat; null, or -1 for the timeout, means unchanged.

    The member epoch is 0 to join, -1 to leave, -2 for a static member to leave for a while.
    """

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable_since=0, default=None)
    rack_id: str | None = field(STRING, nullable_since=0, default=None)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    subscribed_topic_names: list[str] | None = field(ARRAY(STRING), nullable_since=0, default=None)
    subscribed_topic_regex: str | None = field(STRING, nullable_since=0, since=1, default=None)
    server_assignor: str | None = field(STRING, nullable_since=0, default=None)
    topic_partitions: list[OwnedTopicPartitions] | None = field(
        ARRAY(OwnedTopicPartitions), nullable_since=0, default=None
    )


class AssignedPartitions(Message):
    """Partitions of one topic that are assigned to the member."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(ARRAY(INT32))


class Assignment(Message):
    """All partitions that are assigned to the member."""

    topic_partitions: list[AssignedPartitions] = field(ARRAY(AssignedPartitions))


class ConsumerGroupHeartbeatResponse(Message, versions=(0, 1), flexible_since=0):
    """The member's epoch, and its assignment if it has changed."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    member_id: str | None = field(STRING, nullable_since=0, default=None)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    assignment: Assignment | None = field(Assignment, nullable_since=0, default=None)
