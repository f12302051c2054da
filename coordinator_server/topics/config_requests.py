"""Requests that change configs: their operations, and the errors that Kafka finds in the lists."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from enum import IntEnum
from typing import Any

from coordinator_server.config.dynamic_checks import ListedNames
from coordinator_server.topics.counts import Counts
from protocol.apis.alter_configs import AlterConfigsResource as ReplacedResource
from protocol.errors import ErrorCode

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32


class ConfigOperation(IntEnum):
    """The operation on a config (Kafka's AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def is_malformed(resource: Any) -> Generator[None, None, bool]:
    """Return whether a change is invalid in a way that Kafka reports before authorization.

    Source: ConfigAdminManager.preprocess; the controller authorizes the request later.
    """
    refused = yield from list_error(
        (
            config.name,
            config.value is None
            and getattr(config, "config_operation", None) != ConfigOperation.DELETE,
        )
        for config in resource.configs
    )
    replaces_logger = resource.resource_type == BROKER_LOGGER and isinstance(
        resource, ReplacedResource
    )
    return refused is not None or replaces_logger


def list_error(
    configs: Iterable[tuple[str, bool]],
) -> Generator[None, None, tuple[int, str | None] | None]:
    """Return the error of a list of (config name, whether the value is missing) pairs, or None."""
    counts: Counts[str] = Counts()
    nulls = ListedNames()
    is_twice = False
    for name, is_null in configs:
        is_twice = counts.add(name) > 1 or is_twice
        if is_null:
            nulls.add(name)
        yield
    yield from counts.clear()
    if is_twice:
        return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    if nulls.names:
        return ErrorCode.INVALID_REQUEST, f"Null value not supported for : {nulls}"
    return None
