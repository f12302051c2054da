"""The authorized operations that descriptions of groups have on request (KIP-430)."""

from __future__ import annotations

_ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""Without an authorizer everything that can be done to a group is allowed, as bits of Kafka's
AclOperation: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""
_NOT_REQUESTED = -(2**31)


def authorized_operations(*, are_requested: bool) -> int:
    """The field of a description."""
    return _ALL_OPERATIONS if are_requested else _NOT_REQUESTED
