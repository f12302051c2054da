"""AlterConfigs (key 33): replaces all configs of resources. Versions 0-2.

Version 1 may be throttled, 2 is flexible. IncrementalAlterConfigs replaces this API (KIP-339).
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, STRING, Message, field


class AlterableConfig(Message):
    """One setting and its value."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable_since=0)


class AlterConfigsResource(Message):
    """One resource (2 topic, 4 broker) and all its own settings; other settings are removed."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field(ARRAY(AlterableConfig))


class AlterConfigsRequest(Message, versions=(0, 2), flexible_since=2):
    """The resources to change, or only to validate."""

    resources: list[AlterConfigsResource] = field(ARRAY(AlterConfigsResource))
    validate_only: bool = field(BOOL)


class AlterConfigsResourceResponse(Message):
    """One resource's result."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


class AlterConfigsResponse(Message, versions=(0, 2), flexible_since=2):
    """One result per resource."""

    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field(ARRAY(AlterConfigsResourceResponse))
