"""Control requests about settings of the broker and configs of topics, with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator_server.control.local import ask, check
from coordinator_server.control.request import ControlError, ControlRequest, refuse_both
from coordinator_server.control.topics import topic_of
from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

if TYPE_CHECKING:
    from protocol.apis.describe_configs import DescribeConfigsResourceResult

_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_SOURCES = (
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG",
    "DYNAMIC_GROUP_CONFIG",
)
_TYPES = (
    "UNKNOWN",
    "BOOLEAN",
    "STRING",
    "INT",
    "SHORT",
    "LONG",
    "DOUBLE",
    "LIST",
    "CLASS",
    "PASSWORD",
)


async def topic_configs(request: ControlRequest) -> dict[str, Any]:
    """GET /topics/TOPIC/configs: describe the configs of a topic. Raises ControlError."""
    return await _configs(request, _TOPIC, topic_of(request).name)


async def alter_topic_configs(request: ControlRequest) -> dict[str, Any]:
    """PATCH /topics/TOPIC/configs: change configs of a topic. Raises ControlError."""
    name = topic_of(request).name
    await _alter(request, _TOPIC, name)
    return await _configs(request, _TOPIC, name)


async def settings(request: ControlRequest) -> dict[str, Any]:
    """GET /settings: list the settings of a broker. Raises ControlError."""
    return await _configs(request, _BROKER, str(_node_id(request)))


async def alter_settings(request: ControlRequest) -> dict[str, Any]:
    """PATCH /settings: change settings of one broker or of all. Raises ControlError."""
    has_broker = request.values["broker"] is not None
    await _alter(request, _BROKER, str(_node_id(request)) if has_broker else "")
    return await _configs(request, _BROKER, str(_node_id(request)))


def _node_id(request: ControlRequest) -> int:
    """Return the broker of the request, by default the first running one. Raises ControlError."""
    from coordinator_server.control.brokers import broker_id

    text = request.values["broker"]
    if text is None:
        controller_id = request.cluster.brokers.controller_id
        return request.cluster.node_ids[0] if controller_id < 0 else controller_id
    return broker_id(request.cluster, text)


async def _configs(request: ControlRequest, resource_type: int, name: str) -> dict[str, Any]:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None
    )
    message = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    node_id = int(name) if resource_type == _BROKER else None
    (result,) = (await ask(request, "DescribeConfigs", message, node_id=node_id)).results
    check(result.error_code, result.error_message, _shown(resource_type, name))
    text = request.values.get("filter")
    configs = [config for config in result.configs if text is None or text in config.name]
    configs.sort(key=lambda config: config.name)
    return {"configs": [_config(config) for config in configs]}


def _config(config: DescribeConfigsResourceResult) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": _SOURCES[config.config_source],
        "type": _TYPES[config.config_type],
        "is_read_only": config.read_only,
        "is_sensitive": config.is_sensitive,
        "documentation": config.documentation,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": _SOURCES[synonym.source]}
            for synonym in config.synonyms
        ],
    }


async def _alter(request: ControlRequest, resource_type: int, name: str) -> None:
    """Change configs as the body demands. Raises ControlError."""
    from protocol.apis.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    body = await request.shaped()
    new, removed = body.get("set", {}), body.get("unset", [])
    refuse_both(new, removed)
    changes = [
        AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in new.items()
    ]
    changes += [AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in removed]
    if not changes:
        raise ControlError(400, "set and unset are empty: there is nothing to change")
    resource = AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=changes
    )
    message = IncrementalAlterConfigsRequest(resources=[resource])
    (result,) = (await ask(request, "IncrementalAlterConfigs", message)).responses
    check(result.error_code, result.error_message, _shown(resource_type, name))


def _shown(resource_type: int, name: str) -> str:
    """Return a resource for an error message."""
    if resource_type == _TOPIC:
        return f"topic {name}"
    return f"broker {name}" if name else "all brokers"
