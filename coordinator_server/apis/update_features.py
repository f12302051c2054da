"""UpdateFeatures: validate feature level changes; each feature runs at one fixed level.

Source: Kafka's FeatureControlManager and UpdateFeaturesRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.api_versions import feature_levels
from coordinator_server.topics.counts import ShardedDict
from protocol.apis.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from protocol.errors import ErrorCode
from protocol.hashing import java_bucket, java_table_size

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_METADATA_VERSION = "metadata.version"
_FAILED = "The update failed for all features since the following feature had an error: "
_LAST_VERSION_OF_RESULTS = 1


def handle(broker: Broker, call: Call, request: UpdateFeaturesRequest) -> Steps:
    """Respond with the first error, in the order of Kafka's hash map, or with success."""
    updates: ShardedDict[str, _Update] = ShardedDict()
    count = 0
    for feature_update in request.feature_updates:
        kind = feature_update.upgrade_type
        if call.api_version == 0:
            kind = _SAFE_DOWNGRADE if feature_update.allow_downgrade else _UPGRADE
        update = updates.setdefault(feature_update.feature, _Update(count))
        count += update.number == count
        update.level, update.kind = feature_update.max_version_level, kind
        yield
    first: tuple[int, int] | None = None
    size = java_table_size(count)  # Kafka reports the first error in the order of its hash map
    response = UpdateFeaturesResponse()
    for feature_update in request.feature_updates:
        name = feature_update.feature
        update = updates.setdefault(name, _Update(0))
        place = (java_bucket(name, size), update.number)
        if first is None or place < first:
            error = _error(broker.controller_id, name, update)
            if error is not None:
                first, response.error_code = place, error[0]
                response.error_message = _FAILED + error[1]
        yield
    if first is None and call.api_version <= _LAST_VERSION_OF_RESULTS:
        for feature_update in request.feature_updates:
            text = ErrorCode.NONE.message
            result = UpdatableFeatureResult(feature=feature_update.feature, error_message=text)
            response.results.append(result)
            yield
    call.reply(response)
    yield from updates.clear()


class _Update:
    """The requested change of a feature; `number` is its index among distinct features."""

    __slots__ = ("kind", "level", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.level = self.kind = 0


def _error(controller_id: int, name: str, update: _Update) -> tuple[ErrorCode, str] | None:
    """Return the error if a feature cannot get the level, or None."""
    level, kind = update.level, update.kind
    levels = next((feature[1:] for feature in feature_levels() if feature[0] == name), None)
    text = None
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        text = "The controller does not support the given upgrade type."
    elif level < 0:
        text = "A feature version cannot be less than 0."
    elif levels is None:
        text = (
            f"Local controller {controller_id} does not support this feature."
            if level
            else f"Feature {name} not found."
        )
    elif not levels[0] <= level <= levels[1]:
        least, most = levels[:2]
        text = f"Local controller {controller_id} only supports versions {least}-{most}"
    elif level < levels[2] and kind == _UPGRADE:
        text = (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    elif level > levels[2] and kind != _UPGRADE:
        text = "Can't downgrade to a newer version."
    if text is not None:
        message = f"Invalid update version {level} for feature {name}. {text}"
        return ErrorCode.INVALID_UPDATE_VERSION, message
    assert levels is not None
    return None if level == levels[2] else _refusal(name, level, kind, levels[2])


def _refusal(name: str, level: int, kind: int, current: int) -> tuple[ErrorCode, str]:
    """Return the error for a valid change, which this broker cannot make.

    A downgrade of metadata.version gets Kafka's error; every other change gets this broker's own
    error.
    """
    if name == _METADATA_VERSION and level < current:
        text = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
            if kind == _SAFE_DOWNGRADE
            else "Unsafe metadata downgrade is not supported in this version."
        )
        message = f"Unsupported metadata.version downgrade from {current} to {level}. {text}"
        return ErrorCode.INVALID_UPDATE_VERSION, message
    message = f"coordinator-server runs feature {name} at version {current} only."
    return ErrorCode.FEATURE_UPDATE_FAILED, message
