"""DeleteAcls (key 31): deletes ACLs. Versions 1-3.

Version 2 is flexible, version 3 adds resources of type USER (KIP-373).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, STRING, Message, field


class DeleteAclsFilter(Message):
    """A filter for the ACLs to delete; null matches every name, principal or host."""

    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable_since=0)
    pattern_type_filter: int = field(INT8, default=3)
    principal_filter: str | None = field(STRING, nullable_since=0)
    host_filter: str | None = field(STRING, nullable_since=0)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DeleteAclsRequest(Message, versions=(1, 3), flexible_since=2):
    """Filters; all matching ACLs are deleted."""

    filters: list[DeleteAclsFilter] = field(ARRAY(DeleteAclsFilter))


class DeleteAclsMatchingAcl(Message):
    """A deleted ACL."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DeleteAclsFilterResult(Message):
    """The ACLs that one filter has deleted."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    matching_acls: list[DeleteAclsMatchingAcl] = field(ARRAY(DeleteAclsMatchingAcl))


class DeleteAclsResponse(Message, versions=(1, 3), flexible_since=2):
    """One result per filter, in the order of the request."""

    throttle_time_ms: int = field(INT32)
    filter_results: list[DeleteAclsFilterResult] = field(ARRAY(DeleteAclsFilterResult))
