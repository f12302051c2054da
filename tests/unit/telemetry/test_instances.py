"""Client instances of KIP-714: limits of a broker, ends of instances, ids of subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator_server.apis import get_telemetry_subscriptions, push_telemetry
from coordinator_server.config.client_metrics import ClientMetricsConfigs
from coordinator_server.config.config import Config
from coordinator_server.steps import Steps
from coordinator_server.telemetry import instances
from coordinator_server.telemetry.instances import NO_ID, ClientInstances, Push, subscription_id
from coordinator_server.topics.topic_configs import log_defaults
from protocol.apis.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.apis.push_telemetry import PushTelemetryRequest
from protocol.errors import ErrorCode
from storage.log_manager import LogManager
from storage.memory_disk import MemoryDisk
from tests.unit.topics.fakes import FakeBroker, FakeCall, FakeConnection

ATTRIBUTES = {
    "client_id": "c",
    "client_software_name": "test",
    "client_software_version": "1",
    "client_source_address": "127.0.0.1",
    "client_source_port": "9",
}
ID = bytes(15) + b"\7"
NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000


class World:
    """A broker's client instances, and the subscriptions of its cluster."""

    def __init__(self) -> None:
        logs = LogManager.open(MemoryDisk(), "/data", log_defaults(Config()))
        self.configs = ClientMetricsConfigs(logs.catalogue)
        self.made = 100
        self.instances = ClientInstances(self.configs, 100, self._new_id)

    def _new_id(self) -> bytes:
        self.made += 1
        return self.made.to_bytes(16, "big")

    def get(
        self, instance_id: bytes = NO_ID, connection: object = "a", now_ms: int = NOW_MS
    ) -> tuple[ErrorCode, bytes]:
        """The error and the id."""
        return self.instances.get(instance_id, ATTRIBUTES, connection, now_ms)[:2]

    def push(self, instance_id: bytes, now_ms: int = NOW_MS, size_bytes: int = 1) -> ErrorCode:
        """A push with the right subscription id."""
        metrics = ["a"] if self.configs.names() else []
        right = subscription_id(metrics, 300_000, instance_id)
        push = Push(instance_id, right, False, 0, size_bytes)
        return self.instances.push(push, ATTRIBUTES, "a", now_ms)[0]


def test_an_instance_ends_with_its_connection() -> None:
    """Then it may ask again at once."""
    world = World()
    _, instance_id = world.get()
    assert world.get(instance_id)[0] is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.instances.disconnected("b")
    assert len(world.instances) == 1
    world.instances.disconnected("a")
    assert len(world.instances) == 0
    assert world.get(instance_id)[0] is ErrorCode.NONE


def test_a_silent_instance_expires_after_three_intervals() -> None:
    """An interval is 5 minutes without a subscription; a terminated instance starts anew."""
    world = World()
    _, instance_id = world.get()
    push = Push(instance_id, 0, True, 0, 1)
    world.instances.push(push, ATTRIBUTES, "a", NOW_MS)
    later_ms = NOW_MS + 15 * MINUTE_MS
    assert world.push(instance_id, later_ms - 1) is ErrorCode.INVALID_REQUEST
    world.instances.push(push, ATTRIBUTES, "a", later_ms)
    assert world.push(instance_id, later_ms + 15 * MINUTE_MS) is ErrorCode.NONE


def test_expired_instances_are_forgotten_with_the_next_new_one() -> None:
    """Those that were used since stay."""
    world = World()
    ids = [world.get(connection=number)[1] for number in range(4)]
    later_ms = NOW_MS + 10 * MINUTE_MS
    world.get(ids[2], now_ms=later_ms)
    world.get(connection="new", now_ms=NOW_MS + 16 * MINUTE_MS)
    assert len(world.instances) == 2


def test_the_least_recently_used_instance_goes_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With its connection."""
    monkeypatch.setattr(instances, "MOST_INSTANCES", 3)
    world = World()
    ids = [world.get(connection=number)[1] for number in range(3)]
    world.get(ids[0])
    world.get(connection="new")
    assert len(world.instances) == 3
    assert world.get(ids[0])[0] is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.get(ids[1])[0] is ErrorCode.NONE


def test_a_changed_subscription_makes_a_new_instance() -> None:
    """It may ask and push at once; attributes are those of its first request."""
    world = World()
    _, instance_id = world.get()
    world.configs.set({"s": {"metrics": "a", "match": "client_source_port=9"}})
    error, _, instance = world.instances.get(instance_id, {}, "a", NOW_MS)
    assert (error, instance.metrics) == (ErrorCode.NONE, ["a"])
    assert world.push(instance_id, size_bytes=101) is ErrorCode.TELEMETRY_TOO_LARGE
    assert world.push(instance_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_client_without_a_name_matches_no_pattern_of_names() -> None:
    """A missing attribute matches nothing, not even .* as in Kafka."""
    world = World()
    world.configs.set({"s": {"metrics": "a", "match": "client_id=.*"}})
    named = world.instances.get(NO_ID, ATTRIBUTES, "a", NOW_MS)[2]
    nameless = world.instances.get(NO_ID, {**ATTRIBUTES, "client_id": None}, "a", NOW_MS)[2]
    assert (named.metrics, nameless.metrics) == (["a"], [])


@pytest.mark.parametrize("handle", [get_telemetry_subscriptions.handle, push_telemetry.handle])
def test_a_client_that_disconnects_meanwhile_leaves_no_instance(
    handle: Callable[[Any, Any, Any], Steps],
) -> None:
    """The last metrics of the client are kept."""
    broker: Any = FakeBroker()
    broker.telemetry.configs.set({"s": {"metrics": "a"}})
    made = broker.client_instances = ClientInstances(broker.telemetry.configs, 100, lambda: ID)
    call = FakeCall(0, "c", FakeConnection())
    pushes = handle is push_telemetry.handle
    request = (
        PushTelemetryRequest(
            client_instance_id=ID,
            subscription_id=subscription_id(["a"], 300_000, ID),
            metrics=b"m",
        )
        if pushes
        else GetTelemetrySubscriptionsRequest(client_instance_id=ID)
    )
    steps = handle(broker, call, request)
    next(steps)
    call.connection.closed = True
    made.disconnected(call.connection)
    call.run(steps)
    assert (len(made), made._by_connection) == (0, {})
    assert len(broker.telemetry.pushes) == pushes


def test_the_reset_forgets_instances_and_subscriptions() -> None:
    """As of a broker that has just been started."""
    world = World()
    world.configs.set({"s": {"metrics": "a"}})
    _, instance_id = world.get()
    world.configs.clear()
    world.instances.clear()
    assert (world.configs.names(), len(world.instances)) == ([], 0)
    assert world.get(instance_id)[0] is ErrorCode.NONE
