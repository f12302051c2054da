"""CreateAcls (key 30): creates ACLs. Versions 1-3.

Version 2 is flexible, version 3 adds resources of type USER (KIP-373).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, STRING, Message, field


class AclCreation(Message):
    """One ACL."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    resource_pattern_type: int = field(INT8, default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class CreateAclsRequest(Message, versions=(1, 3), flexible_since=2):
    """The ACLs to create."""

    creations: list[AclCreation] = field(ARRAY(AclCreation))


class AclCreationResult(Message):
    """The result of one ACL."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)


class CreateAclsResponse(Message, versions=(1, 3), flexible_since=2):
    """One result per ACL, in the order of the request."""

    throttle_time_ms: int = field(INT32)
    results: list[AclCreationResult] = field(ARRAY(AclCreationResult))
