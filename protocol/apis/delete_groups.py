"""DeleteGroups (key 42): deletes empty groups and their offsets. Versions 0-3.

Version 1 is the same as 0, 2 is flexible, 3 adds an error message.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, Message, field


class DeleteGroupsRequest(Message, versions=(0, 3), flexible_since=2):
    """The groups to delete."""

    groups_names: list[str] = field(ARRAY(STRING))


class DeletableGroupResult(Message):
    """One group's result."""

    group_id: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=3, nullable_since=3, default=None)


class DeleteGroupsResponse(Message, versions=(0, 3), flexible_since=2):
    """One result per group."""

    throttle_time_ms: int = field(INT32)
    results: list[DeletableGroupResult] = field(ARRAY(DeletableGroupResult))
