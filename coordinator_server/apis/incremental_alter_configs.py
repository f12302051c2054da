"""IncrementalAlterConfigs: change individual configs of resources (KIP-339)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis import config_changes, config_writes
from protocol.apis.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: IncrementalAlterConfigsRequest) -> Steps:
    """Respond with one result per resource; resources named twice are not changed."""
    return config_writes.reply_to_all(
        broker, call, request, _plan, AlterConfigsResourceResponse, IncrementalAlterConfigsResponse
    )


def _plan(
    broker: Broker, resource: AlterConfigsResource
) -> Generator[None, None, config_changes.Outcome | config_changes.Planned]:
    return config_changes.change(
        broker, resource.resource_type, resource.resource_name, resource.configs
    )
