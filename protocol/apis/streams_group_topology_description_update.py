"""StreamsGroupTopologyDescriptionUpdate (key 93): a member describes its topology (KIP-1331).

Version 0. A broker requests descriptions only if it has a plugin that stores them.
"""

from __future__ import annotations

from protocol.apis.streams_group_describe import TopologyDescription
from protocol.schema import INT16, INT32, STRING, Message, field


class StreamsGroupTopologyDescriptionUpdateRequest(Message, versions=(0, 0), flexible_since=0):
    """The processing graph of the topology with this epoch."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    topology_epoch: int = field(INT32)
    topology_description: TopologyDescription = field(TopologyDescription)


class StreamsGroupTopologyDescriptionUpdateResponse(Message, versions=(0, 0), flexible_since=0):
    """The error code; NONE if the description was accepted."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
