"""SyncGroup (key 14): the leader sends assignments, members get theirs. Versions 0-5.

Version 1 adds the throttle time, 3 adds the group instance id (KIP-345), 4 is flexible, 5 adds
protocol type and name to both messages, checked by the coordinator (KIP-559).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BYTES, INT16, INT32, STRING, Message, field


class SyncGroupRequestAssignment(Message):
    """The assignment of one member, sent by the leader."""

    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


class SyncGroupRequest(Message, versions=(0, 5), flexible_since=4):
    """A member requests its assignment; the leader's request has all assignments."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable_since=3, default=None)
    protocol_type: str | None = field(STRING, since=5, nullable_since=5, default=None)
    protocol_name: str | None = field(STRING, since=5, nullable_since=5, default=None)
    assignments: list[SyncGroupRequestAssignment] = field(ARRAY(SyncGroupRequestAssignment))


class SyncGroupResponse(Message, versions=(0, 5), flexible_since=4):
    """This member's assignment."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, since=5, nullable_since=5, default=None)
    protocol_name: str | None = field(STRING, since=5, nullable_since=5, default=None)
    assignment: bytes = field(BYTES)
