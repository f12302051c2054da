"""Refusing a large request takes no long turn of the loop, either."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator_server.apis.config_changes import change
from coordinator_server.security.acl import Operation
from protocol.apis import alter_configs, incremental_alter_configs
from protocol.errors import ErrorCode
from protocol.schema import Message
from tests.machine import slowness
from tests.unit.apis.checks.secured import Secured, cluster

COUNT = 60_000
LONGEST_S = 0.03
"""On a quiet machine."""

BROKER, LOGGER = 4, 8
SET = 0
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture
async def broker() -> AsyncIterator[Secured]:
    """One with an authorizer and no ACLs."""
    secured = await Secured().start()
    yield secured
    await secured.stop()


async def asked_shortly(broker: Secured, request: Message, version: int | None = None) -> Any:
    """The answer to a request, no turn of which is long; what is long thrice is no noise."""
    longest_s = []
    for _ in range(3):
        answer = await broker.ask(request, version)
        longest_s.append(broker.longest_turn_s / slowness())
        if longest_s[-1] < LONGEST_S:
            return answer
    pytest.fail(f"turns of {longest_s} s")


def replacing(kind: int, count: int) -> Message:
    """AlterConfigs of so many configs of the broker, or its loggers."""
    configs = [alter_configs.AlterableConfig(name=f"n{one}", value="v") for one in range(count)]
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name="1", configs=configs
    )
    return alter_configs.AlterConfigsRequest(resources=[resource])


def changing(kind: int, count: int) -> Message:
    """IncrementalAlterConfigs of so many configs of the broker, or its loggers."""
    configs = [
        incremental_alter_configs.AlterableConfig(name=f"n{one}", config_operation=SET, value="v")
        for one in range(count)
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name="1", configs=configs
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])


@pytest.mark.parametrize("make", [replacing, changing])
@pytest.mark.parametrize("is_allowed", [False, True])
async def test_very_many_configs_of_the_broker(
    broker: Secured, make: Any, is_allowed: bool
) -> None:
    """They are told to everybody; the text names those that come first."""
    if is_allowed:
        broker.allow(cluster(Operation.ALTER_CONFIGS))
    (answer,) = (await asked_shortly(broker, make(BROKER, COUNT))).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    start = "Cannot update these configs dynamically: [n0, n1, n2, "
    assert answer.error_message.startswith(start)
    assert answer.error_message.endswith(", ...]")
    assert len(answer.error_message) < 10_000


async def test_very_many_loggers(broker: Secured) -> None:
    """Each is looked at in a step of its own."""
    count = 100
    request: Any = changing(LOGGER, count)
    steps = change(broker.broker, LOGGER, "1", request.resources[0].configs)
    looks_at_all = 3  # for names that stand twice, for unknown operations, for those not allowed
    assert sum(1 for _ in steps) >= looks_at_all * count
