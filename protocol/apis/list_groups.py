"""ListGroups (key 16): all groups this broker coordinates. Versions 0-5.

Version 1 answers the throttle time, 3 is flexible, 4 filters by and shows the state (KIP-518),
5 the same for the type (KIP-848). An empty filter lets everything through.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, Message, field


class ListGroupsRequest(Message, versions=(0, 5), flexible_since=3):
    """Filters; empty means all."""

    states_filter: list[str] = field(ARRAY(STRING), since=4)
    types_filter: list[str] = field(ARRAY(STRING), since=5)


class ListedGroup(Message):
    """One group."""

    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, since=4)
    group_type: str = field(STRING, since=5)


class ListGroupsResponse(Message, versions=(0, 5), flexible_since=3):
    """The groups found."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    groups: list[ListedGroup] = field(ARRAY(ListedGroup))
