"""Change, replace and describe broker configs in a scenario, with messages and synonyms."""

from __future__ import annotations

import itertools
import time
from typing import Any

from protocol.errors import ErrorCode
from tests.conformance import timing
from tests.conformance.connection import Setup
from tests.conformance.stage import Stage

BROKER, LOGGER = 4, 8
ALL, NODE = "", "1"
SET, DELETE, APPEND, SUBTRACT = range(4)

Change = tuple[str, int, str | None]

# This cluster-wide config has no effect. Once a broker shows its new value, the broker has applied
# all earlier changes.
_MARKER = "follower.replication.throttled.rate"
_MARKS = itertools.count(int(time.time()))
_MIN_IN_SYNC = "min.insync.replicas"


def alter(
    t: Stage, label: str, name: str, *changes: Change, kind: int = BROKER, check: bool = False
) -> None:
    """Send IncrementalAlterConfigs of (name, operation, value); record error and message."""
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    answer = t.raw("IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": check})
    _record(t, label, answer)


def replace(t: Stage, label: str, name: str, *configs: tuple[str, str | None]) -> None:
    """Send AlterConfigs; record error and message."""
    given = [{"name": key, "value": value} for key, value in configs]
    resource = {"resource_type": BROKER, "resource_name": name, "configs": given}
    _record(t, label, t.raw("AlterConfigs", 2, {"resources": [resource], "validate_only": False}))


def show(t: Stage, label: str, name: str, *keys: str, kind: int = BROKER) -> None:
    """Record DescribeConfigs of some configs, or of all that were set.

    Each entry has value, source, read-only and sensitive flags, type and synonyms.
    """
    settle(t)
    shown = {}
    for one in described(t, name, *keys, kind=kind):
        if one["name"] == _MARKER or (not keys and one["config_source"] not in (2, 3)):
            continue
        synonyms = [[each["name"], each["value"], each["source"]] for each in one["synonyms"]]
        flags = [one["read_only"], one["is_sensitive"], one["config_type"]]
        shown[one["name"]] = [one["value"], one["config_source"], *flags, synonyms]
    t.rec(label, dict(sorted(shown.items())))


def described(t: Stage, name: str, *keys: str, kind: int = BROKER) -> Any:
    """Return the configs of DescribeConfigs, unrecorded."""
    asked = {"configuration_keys": list(keys) or None}
    resource = {"resource_type": kind, "resource_name": name, **asked}
    body = {"resources": [resource], "include_synonyms": True}
    return t.raw("DescribeConfigs", 4, body)["results"][0]["configs"]


def clean(t: Stage) -> None:
    """Remove all dynamic configs, unrecorded."""
    for name, configs in ((NODE, []), (ALL, [{"name": _MIN_IN_SYNC, "value": "1"}])):
        resource = {"resource_type": BROKER, "resource_name": name, "configs": configs}
        t.raw("AlterConfigs", 2, {"resources": [resource], "validate_only": False})
    settle(t)


def settle(t: Stage) -> None:
    """Wait until the broker shows earlier changes, which Kafka applies asynchronously.

    A marker config is set and awaited twice, because Kafka applies simultaneous changes in any
    order.
    """
    for _ in range(2):
        mark = str(next(_MARKS))
        config = {"name": _MARKER, "config_operation": SET, "value": mark}
        resource = {"resource_type": BROKER, "resource_name": ALL, "configs": [config]}
        t.raw("IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False})
        end = timing.deadline(4)
        while [one["value"] for one in described(t, ALL, _MARKER)] != [mark]:
            if time.monotonic() > end:
                raise Setup("a config that was set is not shown")
            t.nap(0.02)


def _record(t: Stage, label: str, answer: Any) -> None:
    (result,) = answer["responses"]
    t.rec(label, [ErrorCode(result["error_code"]).name, result["error_message"]])
