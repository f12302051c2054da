"""AlterConfigs: give topics these configs, and no others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coordinator_server.apis import config_changes
from protocol.apis.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call


def handle(broker: Broker, call: Call, request: AlterConfigsRequest) -> None:
    """Answer with one result per resource; one that stands twice is not changed."""
    counts = Counter((one.resource_type, one.resource_name) for one in request.resources)

    def outcome(one: AlterConfigsResource) -> config_changes.Outcome:
        if counts[one.resource_type, one.resource_name] > 1:
            return config_changes.TWICE
        return config_changes.replace(
            broker,
            one.resource_type,
            one.resource_name,
            [(config.name, config.value) for config in one.configs],
            validate_only=request.validate_only,
        )

    responses = []
    for one in request.resources:
        code, message = outcome(one)
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
        )
    call.reply(AlterConfigsResponse(responses=responses))
