"""LeaveGroup (key 13): members leave. Versions 0-5.

Up to version 2, a request names one member by its id. From version 3 on, it names several members
by id or instance id (KIP-345), each with its own error. Version 4 is flexible. Version 5 adds a
reason (KIP-800).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, Message, field


class MemberIdentity(Message):
    """A leaving member, by member id or instance id."""

    member_id: str = field(STRING, since=3)
    group_instance_id: str | None = field(STRING, since=3, nullable_since=3, default=None)
    reason: str | None = field(STRING, since=5, nullable_since=5, default=None)


class LeaveGroupRequest(Message, versions=(0, 5), flexible_since=4):
    """The leaving members."""

    group_id: str = field(STRING)
    member_id: str = field(STRING, until=2)
    members: list[MemberIdentity] = field(ARRAY(MemberIdentity), since=3)


class MemberResponse(Message):
    """One member's result."""

    member_id: str = field(STRING, since=3)
    group_instance_id: str | None = field(STRING, since=3, nullable_since=3)
    error_code: int = field(INT16, since=3)


class LeaveGroupResponse(Message, versions=(0, 5), flexible_since=4):
    """The error of the whole request, and from version 3 on one error per member."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    members: list[MemberResponse] = field(ARRAY(MemberResponse), since=3)
