"""DescribeGroups (key 15): describes groups and their members. Versions 0-6.

Version 1 adds the throttle time, 3 authorized operations, 4 the group instance id, 5 is flexible, 6
returns GROUP_ID_NOT_FOUND with a message; older versions return a Dead group (KIP-1043).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, BYTES, INT16, INT32, STRING, Message, field


class DescribeGroupsRequest(Message, versions=(0, 6), flexible_since=5):
    """The groups to describe."""

    groups: list[str] = field(ARRAY(STRING))
    include_authorized_operations: bool = field(BOOL, since=3)


class DescribedGroupMember(Message):
    """One member with its metadata and assignment as opaque bytes."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=4, nullable_since=4, default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    member_metadata: bytes = field(BYTES)
    member_assignment: bytes = field(BYTES)


class DescribedGroup(Message):
    """State, protocol and members of one group, or its error."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=6, nullable_since=6, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    protocol_type: str = field(STRING)
    protocol_data: str = field(STRING)
    members: list[DescribedGroupMember] = field(ARRAY(DescribedGroupMember))
    authorized_operations: int = field(INT32, since=3, default=-(2**31))


class DescribeGroupsResponse(Message, versions=(0, 6), flexible_since=5):
    """One description per requested group."""

    throttle_time_ms: int = field(INT32, since=1)
    groups: list[DescribedGroup] = field(ARRAY(DescribedGroup))
