"""JoinGroup (key 11): joins a group or its next rebalance. Versions 0-9.

Version 1 adds the rebalance timeout (before, the session timeout is used for both). Version 4
requires a second request of members without id (KIP-394). Version 5 adds the group instance id
(KIP-345). Version 6 is flexible. Version 7 returns the protocol type and allows a null protocol
name (KIP-559). Version 8 adds a reason (KIP-800). Version 9 lets the leader skip the assignment
(KIP-814).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, BYTES, INT16, INT32, STRING, Message, field


class JoinGroupRequestProtocol(Message):
    """One protocol that the member supports, in order of preference."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


class JoinGroupRequest(Message, versions=(0, 9), flexible_since=6):
    """A request to join the next generation, with the protocols that the member supports."""

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
    """The joined generation; the leader also gets all members."""

    throttle_time_ms: int = field(INT32, since=2)
    error_code: int = field(INT16)
    generation_id: int = field(INT32, default=-1)
    protocol_type: str | None = field(STRING, since=7, nullable_since=7, default=None)
    protocol_name: str | None = field(STRING, nullable_since=7)
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, since=9)
    member_id: str = field(STRING)
    members: list[JoinGroupResponseMember] = field(ARRAY(JoinGroupResponseMember))
