"""The authorized operations in descriptions of groups (KIP-430)."""

from __future__ import annotations

_ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""All operations on a group, as bits of Kafka's AclOperation: READ, DELETE, DESCRIBE,
DESCRIBE_CONFIGS, ALTER_CONFIGS. Without an authorizer, every operation is allowed."""
_NOT_REQUESTED = -(2**31)


def authorized_operations(*, are_requested: bool) -> int:
    """Return the authorized-operations field of a group description."""
    return _ALL_OPERATIONS if are_requested else _NOT_REQUESTED
