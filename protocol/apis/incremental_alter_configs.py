"""IncrementalAlterConfigs (key 44): changes single configs (KIP-339). Versions 0-1.

Version 1 is flexible.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, STRING, Message, field


class AlterableConfig(Message):
    """One change: 0 set, 1 delete, 2 append to a list, 3 subtract from a list."""

    name: str = field(STRING)
    config_operation: int = field(INT8)
    value: str | None = field(STRING, nullable_since=0)


class AlterConfigsResource(Message):
    """One resource (2 topic, 4 broker, 32 group) and its changes."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field(ARRAY(AlterableConfig))


class IncrementalAlterConfigsRequest(Message, versions=(0, 1), flexible_since=1):
    """The resources to change, or only to validate."""

    resources: list[AlterConfigsResource] = field(ARRAY(AlterConfigsResource))
    validate_only: bool = field(BOOL)


class AlterConfigsResourceResponse(Message):
    """One resource's result."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


class IncrementalAlterConfigsResponse(Message, versions=(0, 1), flexible_since=1):
    """One result per resource."""

    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field(ARRAY(AlterConfigsResourceResponse))
