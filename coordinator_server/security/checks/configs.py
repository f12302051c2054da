"""Access checks of config APIs, by resource type.

Source: ConfigHelper for DescribeConfigs. Changes pass ConfigAdminManager first, which rejects
malformed ones before authorization; results are in request order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from coordinator_server.security.acl import (
    AUTHORIZATION_FAILED,
    CLUSTER_NAME,
    Operation,
    ResourceType,
)
from coordinator_server.security.checks import refusals
from coordinator_server.topics.config_requests import is_malformed

if TYPE_CHECKING:
    from coordinator_server.security.checks.check import Asking
    from protocol.errors import ErrorCode

ASKED_TYPES = {
    2: ResourceType.TOPIC,
    4: ResourceType.CLUSTER,
    8: ResourceType.CLUSTER,
    16: ResourceType.CLUSTER,
    32: ResourceType.GROUP,
}
"""Config resource type (ConfigResource.Type) -> resource type to authorize."""

Refused = Callable[[Any, "ErrorCode"], Any]


def describe_configs(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Remove the resources that the client may not describe from the request.

    The handler fails requests with unknown types.
    """
    refused: dict[int, Any] = {}
    left = []
    for number, resource in enumerate(request.resources):
        if resource.resource_type not in ASKED_TYPES:
            return True
        kind, name = _asked(resource)
        if asking.access.allows(Operation.DESCRIBE_CONFIGS, kind, name):
            left.append(resource)
        else:
            refused[number] = refusals.describe_configs(resource, AUTHORIZATION_FAILED[kind])
        yield
    if refused:
        request.resources = left
        asking.rights.refused = refused
    return True


def alter_configs(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Remove the resources that the client may not alter from an AlterConfigs request."""
    return (yield from _alter(asking, request, refusals.alter_configs))


def incremental_alter_configs(asking: Asking, request: Any) -> Generator[None, None, bool]:
    """Remove the resources that the client may not alter from an incremental request."""
    refuse = refusals.incremental_alter_configs
    return (yield from _alter(asking, request, refuse))


def _alter(asking: Asking, request: Any, refuse: Refused) -> Generator[None, None, bool]:
    counts: Counter[tuple[int, str]] = Counter()
    for resource in request.resources:
        counts[resource.resource_type, resource.resource_name] += 1
        yield
    left: list[Any] = []
    refused: dict[int, Any] = {}
    unlogged = asking.access.unlogged
    for number, resource in enumerate(request.resources):
        passes = (
            resource.resource_type not in ASKED_TYPES
            or counts[resource.resource_type, resource.resource_name] > 1
            or unlogged.allows(Operation.ALTER_CONFIGS, *_asked(resource))
            or (yield from is_malformed(resource))
        )
        if passes:
            left.append(resource)
        else:
            kind, name = _asked(resource)
            asking.access.log(Operation.ALTER_CONFIGS, kind, name)
            refused[number] = refuse(resource, AUTHORIZATION_FAILED[kind])
        yield
    if refused:
        request.resources = left
        asking.rights.refused = refused
    return True


def _asked(resource: Any) -> tuple[ResourceType, str]:
    """Return type and name of the resource to authorize."""
    kind = ASKED_TYPES[resource.resource_type]
    return kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else str(resource.resource_name)
