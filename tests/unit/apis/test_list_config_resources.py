"""ListConfigResources: topics, brokers, and groups with their own configs."""

from __future__ import annotations

from protocol.apis.list_config_resources import ListConfigResourcesRequest
from protocol.errors import ErrorCode
from tests.harness.broker import MemoryBroker


def listed(
    broker: MemoryBroker, *types: int, version: int = 1
) -> tuple[int, list[tuple[str, int]]]:
    """Return the error code, and name and type of the listed resources."""
    answer = broker.ask(ListConfigResourcesRequest(resource_types=list(types)), version)
    resources = [(one.resource_name, one.resource_type) for one in answer.config_resources]
    return answer.error_code, resources


def test_resources_of_each_type_are_listed() -> None:
    """Resources are listed by type; groups with configs are listed even if they do not exist."""
    broker = MemoryBroker()
    broker.topics.create("t", 1, {})
    broker.broker.group_configs.set({"g": {"share.delivery.count.limit": "3"}})
    assert listed(broker, 32) == (0, [("g", 32)])
    assert listed(broker, 2) == (0, [("t", 2)])
    assert listed(broker, 4, 8) == (0, [("1", 8), ("1", 4)])
    assert listed(broker, 16) == (0, [])
    assert listed(broker) == (0, [("g", 32), ("1", 8), ("1", 4), ("t", 2)])


def test_version_0_lists_client_metrics_alone() -> None:
    """Version 0 lists only client metrics subscriptions, of which there are none here."""
    broker = MemoryBroker()
    broker.topics.create("t", 1, {})
    assert listed(broker, version=0) == (0, [])


def test_an_unknown_type_is_refused() -> None:
    """An unknown type gets UNSUPPORTED_VERSION, as in Kafka."""
    assert listed(MemoryBroker(), 3) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_long_lists_are_made_in_steps() -> None:
    """Long lists are built in steps, so that other requests can run in between."""
    broker = MemoryBroker()
    broker.broker.group_configs.set(
        {f"g{number}": {"share.delivery.count.limit": "3"} for number in range(501)}
    )
    assert len(listed(broker, 32)[1]) == 501
