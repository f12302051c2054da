"""DescribeConfigs (key 32): settings of topics and brokers. Versions 1-4.

Version 1 adds source and synonyms, 3 adds type and documentation, 4 is flexible.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, STRING, Message, field


class DescribeConfigsResource(Message):
    """One resource (2 topic, 4 broker); null keys means all settings."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configuration_keys: list[str] | None = field(ARRAY(STRING), nullable_since=0)


class DescribeConfigsRequest(Message, versions=(1, 4), flexible_since=4):
    """The resources to describe."""

    resources: list[DescribeConfigsResource] = field(ARRAY(DescribeConfigsResource))
    include_synonyms: bool = field(BOOL)
    include_documentation: bool = field(BOOL, since=3)


class DescribeConfigsSynonym(Message):
    """Another source of this setting's value, in order of precedence."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable_since=0)
    source: int = field(INT8)


class DescribeConfigsResourceResult(Message):
    """One setting and the source of its value."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable_since=0)
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1)
    is_sensitive: bool = field(BOOL)
    synonyms: list[DescribeConfigsSynonym] = field(ARRAY(DescribeConfigsSynonym))
    config_type: int = field(INT8, since=3)
    documentation: str | None = field(STRING, since=3, nullable_since=3)


class DescribeConfigsResult(Message):
    """One resource's settings, or its error."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[DescribeConfigsResourceResult] = field(ARRAY(DescribeConfigsResourceResult))


class DescribeConfigsResponse(Message, versions=(1, 4), flexible_since=4):
    """One result per resource."""

    throttle_time_ms: int = field(INT32)
    results: list[DescribeConfigsResult] = field(ARRAY(DescribeConfigsResult))
