"""ListGroups (key 16): the groups that a broker coordinates. Versions 0-5.

Version 1 adds the throttle time, 3 is flexible, 4 adds the state and a filter by state (KIP-518), 5
the type and a filter by type (KIP-848). An empty filter matches everything.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, Message, field


class ListGroupsRequest(Message, versions=(0, 5), flexible_since=3):
    """Filters; an empty filter matches all groups."""

    states_filter: list[str] = field(ARRAY(STRING), since=4)
    types_filter: list[str] = field(ARRAY(STRING), since=5)


class ListedGroup(Message):
    """A listed group with its protocol type, state and type."""

    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, since=4)
    group_type: str = field(STRING, since=5)


class ListGroupsResponse(Message, versions=(0, 5), flexible_since=3):
    """The matching groups."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    groups: list[ListedGroup] = field(ARRAY(ListedGroup))
