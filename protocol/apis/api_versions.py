"""ApiVersions (key 18): the APIs that a broker supports. Versions 0-5.

Version 1 adds the throttle time, 3 is flexible and adds the client's software name and version
(KIP-511), 4 can return features with minimum version 0. Version 5 adds the cluster and node that
the client expects (KIP-1242). The response header is always version 0, and the response to an
unknown version has a v0 body with error 35, so that any client can read the response.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT16, INT32, INT64, STRING, Message, field


class ApiVersionsRequest(Message, versions=(0, 5), flexible_since=3):
    """The client's software since version 3, and the broker that it expects since version 5."""

    client_software_name: str = field(STRING, since=3)
    client_software_version: str = field(STRING, since=3)
    cluster_id: str | None = field(STRING, since=5, nullable_since=5, default=None)
    node_id: int = field(INT32, since=5, default=-1)


class ApiVersion(Message):
    """An API and its supported versions, inclusive."""

    api_key: int = field(INT16)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


class SupportedFeatureKey(Message):
    """A feature and the levels that this broker supports."""

    name: str = field(STRING, since=3)
    min_version: int = field(INT16, since=3)
    max_version: int = field(INT16, since=3)


class FinalizedFeatureKey(Message):
    """A feature and the level of the cluster."""

    name: str = field(STRING, since=3)
    max_version_level: int = field(INT16, since=3)
    min_version_level: int = field(INT16, since=3)


class ApiVersionsResponse(Message, versions=(0, 5), flexible_since=3):
    """The version range of every API, and the cluster's features."""

    error_code: int = field(INT16)
    api_keys: list[ApiVersion] = field(ARRAY(ApiVersion))
    throttle_time_ms: int = field(INT32, since=1)
    supported_features: list[SupportedFeatureKey] = field(
        ARRAY(SupportedFeatureKey), since=3, tag=0
    )
    finalized_features_epoch: int = field(INT64, since=3, default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field(
        ARRAY(FinalizedFeatureKey), since=3, tag=2
    )
    zk_migration_ready: bool = field(BOOL, since=3, tag=3)
