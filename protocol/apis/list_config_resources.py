"""ListConfigResources (key 74): lists resources with their own configs. Versions 0-1, all flexible.

Version 0 lists only client metrics (KIP-1000), 1 lists resources of the requested types (KIP-1142).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, STRING, Message, field


class ListConfigResourcesRequest(Message, versions=(0, 1), flexible_since=0):
    """The types to list; an empty list means all."""

    resource_types: list[int] = field(ARRAY(INT8), since=1)


class ListedConfigResource(Message):
    """One resource (2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group)."""

    resource_name: str = field(STRING)
    resource_type: int = field(INT8, since=1, default=16)


class ListConfigResourcesResponse(Message, versions=(0, 1), flexible_since=0):
    """The resources of the requested types that have configs of their own."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    config_resources: list[ListedConfigResource] = field(ARRAY(ListedConfigResource))
