"""Changes settings of topics, brokers and groups with IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from coordinator_server.client import Client, check
from coordinator_server.client.client import ANY_BROKER
from coordinator_server.kafka_tools.configs_read import BROKER, BROKER_LOGGER

if TYPE_CHECKING:
    from protocol.apis.incremental_alter_configs import AlterableConfig

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
