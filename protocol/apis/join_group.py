"""JoinGroup (key 11): become a member of a group, or take part in its next rebalance. Versions 0-9.

Version 1 adds the rebalance timeout (before, the session timeout serves as both). 4 makes a
member without id ask twice (KIP-394). 5 adds the group instance id (KIP-345). 6 is flexible.
7 answers the protocol type and allows a null protocol name (KIP-559). 8 takes a reason (KIP-800).
9 lets the leader skip the assignment (KIP-814).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, BYTES, INT16, INT32, STRING, Message, field


class JoinGroupRequestProtocol(Message):
    """One protocol the member offers, in order of preference."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


class JoinGroupRequest(Message, versions=(0, 9), flexible_since=6):
    """A member's wish to be in the next generation, with the protocols it speaks."""

    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, since=1, default=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable_since=5, default=None)
    protocol_type: str = field(STRING)
    protocols: list[JoinGroupRequestProtocol] = field(ARRAY(JoinGroupRequestProtocol))
    reason: str | None = field(STRING, since=8, nullable_since=8, default=None)


class JoinGroupResponseMember(Message):
    """One member's metadata for the chosen protocol, for the leader."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable_since=5, default=None)
    metadata: bytes = field(BYTES)


class JoinGroupResponse(Message, versions=(0, 9), flexible_since=6):
    """The generation joined; the leader also gets all members."""

    throttle_time_ms: int = field(INT32, since=2)
    error_code: int = field(INT16)
    generation_id: int = field(INT32, default=-1)
    protocol_type: str | None = field(STRING, since=7, nullable_since=7, default=None)
    protocol_name: str | None = field(STRING, nullable_since=7)
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, since=9)
    member_id: str = field(STRING)
    members: list[JoinGroupResponseMember] = field(ARRAY(JoinGroupResponseMember))
