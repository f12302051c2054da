"""Client instances of KIP-714: limits, ends of instances, subscription ids."""

from __future__ import annotations

from typing import cast

import pytest

from coordinator_server.config.client_metrics import ClientMetricsConfigs
from coordinator_server.config.config import Config
from coordinator_server.net.connection import Connection
from coordinator_server.steps import run_all
from coordinator_server.telemetry import instances
from coordinator_server.telemetry.instances import (
    NO_ID,
    Attributes,
    ClientInstance,
    ClientInstances,
    Push,
    subscription_id,
)
from coordinator_server.topics.topic_configs import log_defaults
from protocol.apis.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.apis.push_telemetry import PushTelemetryRequest
from protocol.errors import ErrorCode
from protocol.hashing import java_bucket
from storage.log_manager import LogManager
from storage.memory_disk import MemoryDisk
from tests.harness.broker import MemoryBroker

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
    """The client instances of a broker, and the subscriptions of its cluster."""

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
        """Return the error and the id."""
        return self.instance(instance_id, ATTRIBUTES, connection, now_ms)[:2]

    def instance(
        self,
        instance_id: bytes = NO_ID,
        attributes: Attributes = ATTRIBUTES,
        connection: object = "a",
        now_ms: int = NOW_MS,
    ) -> tuple[ErrorCode, bytes, ClientInstance]:
        """Return the error, the id and the instance."""
        return run_all(self.instances.get(instance_id, attributes, connection, now_ms))

    def push(self, instance_id: bytes, now_ms: int = NOW_MS, size_bytes: int = 1) -> ErrorCode:
        """Push with the right subscription id; return the error."""
        metrics = ["a"] if self.configs.names() else []
        right = subscription_id(metrics, 300_000, instance_id)
        push = Push(instance_id, right, False, 0, size_bytes)
        return self.pushed(push, now_ms)

    def pushed(self, push: Push, now_ms: int = NOW_MS) -> ErrorCode:
        """Return the error of a push."""
        return run_all(self.instances.push(push, ATTRIBUTES, "a", now_ms))[0]


def test_an_instance_ends_with_its_connection() -> None:
    """The end of a connection ends its instance, which may then request again at once."""
    world = World()
    _, instance_id = world.get()
    assert world.get(instance_id)[0] is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.instances.disconnected("b")
    assert len(world.instances) == 1
    world.instances.disconnected("a")
    assert len(world.instances) == 0
    assert world.get(instance_id)[0] is ErrorCode.NONE


def test_a_silent_instance_expires_after_three_intervals() -> None:
    """A silent instance expires after three push intervals.

    Without a subscription the interval is 5 minutes. A terminated instance may start again.
    """
    world = World()
    _, instance_id = world.get()
    push = Push(instance_id, 0, True, 0, 1)
    world.pushed(push)
    later_ms = NOW_MS + 15 * MINUTE_MS
    assert world.push(instance_id, later_ms - 1) is ErrorCode.INVALID_REQUEST
    world.pushed(push, later_ms)
    assert world.push(instance_id, later_ms + 15 * MINUTE_MS) is ErrorCode.NONE


def test_expired_instances_are_forgotten_with_the_next_new_one() -> None:
    """A new instance removes the expired instances; recently used instances stay."""
    world = World()
    ids = [world.get(connection=number)[1] for number in range(4)]
    later_ms = NOW_MS + 10 * MINUTE_MS
    world.get(ids[2], now_ms=later_ms)
    world.get(connection="new", now_ms=NOW_MS + 16 * MINUTE_MS)
    assert len(world.instances) == 2


def test_the_least_recently_used_instance_goes_where_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If there are too many instances, the least recently used instance is removed."""
    monkeypatch.setattr(instances, "MOST_INSTANCES", 3)
    world = World()
    ids = [world.get(connection=number)[1] for number in range(3)]
    world.get(ids[0])
    world.get(connection="new")
    assert len(world.instances) == 3
    assert world.get(ids[0])[0] is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.get(ids[1])[0] is ErrorCode.NONE


def test_a_changed_subscription_makes_a_new_instance() -> None:
    """A changed subscription makes a new instance, which may request and push at once.

    The new instance has the attributes of its first request.
    """
    world = World()
    _, instance_id = world.get()
    world.configs.set({"s": {"metrics": "a", "match": "client_source_port=9"}})
    error, _, instance = world.instance(instance_id, {})
    assert (error, instance.metrics) == (ErrorCode.NONE, ["a"])
    assert world.push(instance_id, size_bytes=101) is ErrorCode.TELEMETRY_TOO_LARGE
    assert world.push(instance_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_client_without_a_name_matches_no_pattern_of_names() -> None:
    """A missing attribute matches no pattern, not even .*, as in Kafka."""
    world = World()
    world.configs.set({"s": {"metrics": "a", "match": "client_id=.*"}})
    named = world.instance()[2]
    nameless = world.instance(attributes={**ATTRIBUTES, "client_id": None})[2]
    assert (named.metrics, nameless.metrics) == (["a"], [])


def test_subscriptions_are_matched_in_steps() -> None:
    """Each subscription is matched in a step; the metrics are in Kafka's order."""
    world = World()
    names = [f"m{number}" for number in range(1200)]
    world.configs.set({name: {"metrics": f"{name},both"} for name in names})
    run_all(world.configs.prepare())
    steps = world.instances.get(ID, ATTRIBUTES, "a", NOW_MS)
    assert len(list(steps)) == 1200 + 2
    error, _, instance = world.instance(ID)
    assert error is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert instance.metrics == sorted(
        instance.metrics, key=lambda metric: java_bucket(metric, 2048)
    )
    assert set(instance.metrics) == {*names, "both"}


def test_an_instance_that_two_requests_ask_for_is_made_once() -> None:
    """Two concurrent requests for an instance create the instance once."""
    world = World()
    world.configs.set({"s": {"metrics": "a"}})
    first = world.instances.get(ID, ATTRIBUTES, "a", NOW_MS)
    next(first)
    assert world.get(ID, "b")[0] is ErrorCode.NONE
    assert run_all(first)[0] is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert len(world.instances) == 1


@pytest.mark.parametrize("pushes", [False, True])
def test_a_client_that_disconnects_meanwhile_leaves_no_instance(
    pushes: bool,
) -> None:
    """A client that disconnects during its request leaves no instance, only its last metrics."""
    broker = MemoryBroker(has_virtual_clock=True)
    broker.broker.telemetry.configs.set({"s": {"metrics": "a"}})
    made = broker.broker.client_instances
    request = (
        PushTelemetryRequest(
            client_instance_id=ID,
            subscription_id=subscription_id(["a"], 300_000, ID),
            metrics=b"m",
        )
        if pushes
        else GetTelemetrySubscriptionsRequest(client_instance_id=ID)
    )
    call, steps = broker.begin(request, 0)
    next(steps)
    call.connection.closed = True
    broker.broker.disconnected(cast("Connection", call.connection))
    run_all(steps)
    assert (len(made), made._by_connection) == (0, {})
    assert len(broker.broker.telemetry.pushes) == pushes


def test_the_reset_forgets_instances_and_subscriptions() -> None:
    """A reset drops all client instances and all subscriptions."""
    world = World()
    world.configs.set({"s": {"metrics": "a"}})
    _, instance_id = world.get()
    world.configs.clear()
    world.instances.clear()
    assert (world.configs.names(), len(world.instances)) == ([], 0)
    assert world.get(instance_id)[0] is ErrorCode.NONE
