"""Heartbeat (key 12): keeps a member alive and reports rebalances. Versions 0-4.

Version 1 adds the throttle time, 3 adds the group instance id (KIP-345), 4 is flexible.
"""

from __future__ import annotations

from protocol.schema import INT16, INT32, STRING, Message, field


class HeartbeatRequest(Message, versions=(0, 4), flexible_since=4):
    """The heartbeat of a member in a generation."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable_since=3, default=None)


class HeartbeatResponse(Message, versions=(0, 4), flexible_since=4):
    """NONE, or the reason why the member must rejoin."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
