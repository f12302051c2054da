"""DescribeAcls (key 29): lists ACLs. Versions 1-3.

Version 2 is flexible, version 3 adds resources of type USER (KIP-373).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, STRING, Message, field


class DescribeAclsRequest(Message, versions=(1, 3), flexible_since=2):
    """A filter; null matches every name, principal or host."""

    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable_since=0)
    pattern_type_filter: int = field(INT8, default=3)
    principal_filter: str | None = field(STRING, nullable_since=0)
    host_filter: str | None = field(STRING, nullable_since=0)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class AclDescription(Message):
    """One ACL of a resource."""

    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DescribeAclsResource(Message):
    """A resource name or prefix, and its ACLs."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, default=3)
    acls: list[AclDescription] = field(ARRAY(AclDescription))


class DescribeAclsResponse(Message, versions=(1, 3), flexible_since=2):
    """The matching ACLs, by resource."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    resources: list[DescribeAclsResource] = field(ARRAY(DescribeAclsResource))
