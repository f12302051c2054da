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
    outcomes = yield from config_writes.apply_all(
        broker, request.resources, _plan, validate_only=request.validate_only
    )
    responses = []
    for one, (code, message) in zip(request.resources, outcomes, strict=True):
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
        )
        yield
    responses = yield from call.rights.in_order(responses)
    call.reply(IncrementalAlterConfigsResponse(responses=responses))


def _plan(
    broker: Broker, one: AlterConfigsResource
) -> Generator[None, None, config_changes.Outcome | config_changes.Planned]:
    return config_changes.change(broker, one.resource_type, one.resource_name, one.configs)
