"""UpdateFeatures (key 57): sets feature levels (KIP-584). Versions 0-2, all flexible.

Version 1 adds the upgrade type and `validate_only`, 2 removes the results per feature.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, STRING, Message, field


class FeatureUpdateKey(Message):
    """One feature to change; the type is 1 upgrade, 2 safe downgrade or 3 unsafe downgrade."""

    feature: str = field(STRING)
    max_version_level: int = field(INT16)
    allow_downgrade: bool = field(BOOL, until=0)
    upgrade_type: int = field(INT8, since=1, default=1)


class UpdateFeaturesRequest(Message, versions=(0, 2), flexible_since=0):
    """The features to change."""

    timeout_ms: int = field(INT32, default=60000)
    feature_updates: list[FeatureUpdateKey] = field(ARRAY(FeatureUpdateKey))
    validate_only: bool = field(BOOL, since=1)


class UpdatableFeatureResult(Message):
    """One feature's result."""

    feature: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)


class UpdateFeaturesResponse(Message, versions=(0, 2), flexible_since=0):
    """The result; either all features change or none."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    results: list[UpdatableFeatureResult] = field(ARRAY(UpdatableFeatureResult), until=1)
