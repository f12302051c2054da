"""Group configs in scenarios: IncrementalAlterConfigs and DescribeConfigs of GROUP."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance import timing
from tests.conformance.connection import Setup
from tests.conformance.consumer_members import error
from tests.conformance.stage import Stage

GROUP = 32
SET, DELETE, APPEND, SUBTRACT = range(4)

_SETTLING_SECONDS = 0.1


def alter(
    t: Stage,
    label: str,
    *changes: tuple[str, int, str | None],
    group: str | None = None,
    validate_only: bool = False,
    version: int = 1,
) -> str:
    """Send IncrementalAlterConfigs of (name, operation, value); record and return the error."""
    name = t.g if group is None else group
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": GROUP, "resource_name": name, "configs": configs}
    body = {"resources": [resource], "validate_only": validate_only}
    answer = t.raw("IncrementalAlterConfigs", version, body)
    result = error(answer["responses"][0]["error_code"])
    t.rec(label, result)
    return result


def use(t: Stage, group: str | None = None, **settings: str | int) -> None:
    """Set group configs, unrecorded, and wait until they are in effect.

    Names are written with underscores: consumer_session_timeout_ms=1000.
    """
    wanted = {name.replace("_", "."): str(value) for name, value in settings.items()}
    was, t.recording = t.recording, False
    try:
        result = alter(t, "", *((key, SET, value) for key, value in wanted.items()), group=group)
    finally:
        t.recording = was
    if result != "NONE":
        raise Setup(f"settings of the group: {result}")
    wait_until(t, wanted, group)


def wait_until(t: Stage, wanted: dict[str, str], group: str | None = None) -> None:
    """Wait, unrecorded, until DescribeConfigs shows these values, plus a moment.

    Kafka's coordinator learns of a change shortly after the broker that describes it.
    """
    end = timing.deadline(4)
    while True:
        values = {one["name"]: one["value"] for one in described(t, group)}
        if wanted.items() <= values.items():
            break
        if time.monotonic() > end:
            raise Setup(f"settings of the group: {values}")
        t.nap(0.02)
    t.nap(_SETTLING_SECONDS)


def described(t: Stage, group: str | None = None, **changes: Any) -> Any:
    """Return a group's configs from DescribeConfigs, unrecorded."""
    name = t.g if group is None else group
    resource = {"resource_type": GROUP, "resource_name": name, "configuration_keys": None}
    answer = t.raw("DescribeConfigs", 4, {"resources": [resource | changes]})
    return answer["results"][0]["configs"]


def look(t: Stage, label: str, *keys: str, group: str | None = None, version: int = 4) -> Any:
    """Record and return a group's configs as [value, source] by name.

    Without keys the configs are `consumer.*`.
    """
    name = t.g if group is None else group
    wanted = list(keys) or None
    resource = {"resource_type": GROUP, "resource_name": name, "configuration_keys": wanted}
    answer = t.raw("DescribeConfigs", version, {"resources": [resource]})["results"][0]
    if answer["error_code"]:
        return t.rec(label, error(answer["error_code"]))
    found = {
        one["name"]: [one["value"], one["config_source"]]
        for one in answer["configs"]
        if keys or one["name"].startswith("consumer.")
    }
    return t.rec(label, dict(sorted(found.items())))
