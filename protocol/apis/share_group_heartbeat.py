"""ShareGroupHeartbeat (key 76): heartbeat of a share group member (KIP-932). Version 1.

Version 0 of Kafka 4.0's early access was removed.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, UUID, Message, field


class ShareGroupHeartbeatRequest(Message, versions=(1, 1), flexible_since=1):
    """Changes since the last heartbeat; null means unchanged.

    The client generates its member id. The member epoch is 0 to join, -1 to leave.
    """

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    rack_id: str | None = field(STRING, nullable_since=0, default=None)
    subscribed_topic_names: list[str] | None = field(ARRAY(STRING), nullable_since=0, default=None)


class ShareAssignedPartitions(Message):
    """Partitions of one topic that are assigned to the member."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(ARRAY(INT32))


class ShareAssignment(Message):
    """All partitions of the member; other members may have the same partitions."""

    topic_partitions: list[ShareAssignedPartitions] = field(ARRAY(ShareAssignedPartitions))


class ShareGroupHeartbeatResponse(Message, versions=(1, 1), flexible_since=1):
    """The member's epoch, and its assignment if it has changed. The interval is in ms."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    member_id: str | None = field(STRING, nullable_since=0, default=None)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    assignment: ShareAssignment | None = field(ShareAssignment, nullable_since=0, default=None)
