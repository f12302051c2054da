"""ListConfigResources: list the resources that have or may have configs (KIP-1142)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.config_requests import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
)
from protocol.apis.list_config_resources import (
    ListConfigResourcesResponse,
    ListedConfigResource,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.list_config_resources import ListConfigResourcesRequest

_KNOWN_TYPES = frozenset((TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP))
_TYPES_SINCE = 1
"""Before this version the API lists only client metrics subscriptions."""

STEP_RESOURCES = 500


def handle(broker: Broker, call: Call, request: ListConfigResourcesRequest) -> Steps:
    """Respond with all resources of the requested types; no types means all types."""
    types = frozenset(request.resource_types) or _KNOWN_TYPES
    if call.api_version < _TYPES_SINCE:
        types = frozenset((CLIENT_METRICS,))
    if not types <= _KNOWN_TYPES:
        call.reply(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    names: list[tuple[str, int]] = []
    if GROUP in types:
        names += [(group_id, GROUP) for group_id in broker.group_configs.group_ids()]
    if CLIENT_METRICS in types:
        names += [(name, CLIENT_METRICS) for name in broker.telemetry.configs.names()]
    for kind in (BROKER_LOGGER, BROKER):
        if kind in types:
            names += [
                (str(endpoint.node_id), kind) for endpoint in broker.endpoints(call.connection)
            ]
    if TOPIC in types:
        names += [(topic.name, TOPIC) for topic in broker.topics.listed_topics()]
    resources: list[ListedConfigResource] = []
    for name, kind in names:
        resources.append(ListedConfigResource(resource_name=name, resource_type=kind))
        if not len(resources) % STEP_RESOURCES:
            yield
    call.reply(ListConfigResourcesResponse(config_resources=resources))
