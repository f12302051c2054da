"""Reads and changes settings of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coordinator_server.client import Client, check
from coordinator_server.client.client import ANY_BROKER

if TYPE_CHECKING:
    from protocol.apis.incremental_alter_configs import AlterableConfig

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
DEFAULT_CONFIG = 5
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    DEFAULT_CONFIG: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""Kafka's ConfigEntry.ConfigSource by its number in the protocol."""


def read_configs(
    client: Client, kind: int, names: Iterable[str], *, synonyms: bool = False
) -> dict[str, list[Any]]:
    """Return a DescribeConfigsResourceResult for each resource, by resource name.

    A broker's own settings are requested from that broker, all others from any broker. Raises
    ClientError.
    """
    from protocol.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    wanted = list(names)
    if not wanted:
        return {}
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for name in wanted
        ],
        include_synonyms=synonyms,
    )
    own = kind in (BROKER, BROKER_LOGGER) and wanted[0] != ""
    node_id = int(wanted[0]) if own else ANY_BROKER
    answer = client.call("describeConfigs", lambda: client.ask(request, node_id))
    configs = {}
    for result in answer.results:
        check(result.error_code, result.error_message)
        configs[result.resource_name] = result.configs
    return configs


Changes = Sequence[tuple[str, str | None]]
"""Config names with their new values; None restores the default."""

_SET, _DELETE = 0, 1


def alter_configs(client: Client, kind: int, resources: Mapping[str, Changes]) -> None:
    """Change the settings of resources of one type, by resource name. Raises ClientError.

    Changes of a broker's own settings go to that broker, all other changes to any broker.
    """
    shared: dict[str, Changes] = {}
    for name, changes in resources.items():
        if name and kind in (BROKER, BROKER_LOGGER):
            _ask(client, kind, {name: changes}, int(name))
        else:
            shared[name] = changes
    if shared:
        _ask(client, kind, shared, ANY_BROKER)


def _ask(client: Client, kind: int, resources: Mapping[str, Changes], node_id: int | None) -> None:
    from protocol.apis.incremental_alter_configs import (
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=list(_configs(changes))
            )
            for name, changes in resources.items()
        ]
    )
    answer = client.ask_node("incrementalAlterConfigs", request, node_id)
    for response in answer.responses:
        check(response.error_code, response.error_message)


def _configs(changes: Changes) -> Iterable[AlterableConfig]:
    from protocol.apis.incremental_alter_configs import AlterableConfig

    for key, value in changes:
        operation = _DELETE if value is None else _SET
        yield AlterableConfig(name=key, config_operation=operation, value=value or "")
