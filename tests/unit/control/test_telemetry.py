"""The control server's view of client telemetry."""

from __future__ import annotations

import builtins
import json
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from coordinator_server.control import telemetry
from coordinator_server.control.request import ControlError, ControlRequest
from protocol.apis.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.apis.push_telemetry import PushTelemetryRequest
from protocol.compression import Compression, compress
from protocol.errors import ErrorCode
from protocol.json_form import uuid_to_text
from tests.e2e.control_api import check_answer
from tests.harness.nodes import Nodes

ID = bytes(15) + b"\7"
TIME_MS = 1_700_000_000_123


class ControlledNodes(Nodes):
    """The brokers of a cluster with a control server."""

    def __init__(self) -> None:
        super().__init__(has_virtual_clock=True)


def metrics_of(**counts: int) -> bytes:
    """Return encoded metrics as from a client: sums with these values."""
    data = MetricsData()
    resource = data.resource_metrics.add()
    resource.resource.attributes.add(key="client_rack").value.string_value = "r1"
    for name, count in counts.items():
        metric = resource.scope_metrics.add().metrics.add(name=name)
        metric.sum.aggregation_temporality = 1
        point = metric.sum.data_points.add(as_int=count, time_unix_nano=TIME_MS * 1_000_000)
        point.attributes.add(key="topic").value.string_value = "t"
        point.attributes.add(key="partition").value.int_value = 3
    encoded: bytes = data.SerializeToString()
    return encoded


def pushed(nodes: Nodes, metrics: bytes, **fields: Any) -> ErrorCode:
    """Get a subscription and push metrics; return the error of the push."""
    request = GetTelemetrySubscriptionsRequest(client_instance_id=ID)
    answer = nodes.ask(request, node_id=1)
    assert not answer.error_code
    push = PushTelemetryRequest(
        client_instance_id=ID,
        subscription_id=answer.subscription_id,
        metrics=metrics,
        **fields,
    )
    return ErrorCode((nodes.ask(push, node_id=1)).error_code)


async def asked(nodes: Nodes, client: str) -> dict[str, Any]:
    """Return the response to GET /telemetry/CLIENT, which has the shape of its schema."""
    request = ControlRequest(nodes.cluster, {"CLIENT": client}, {}, b"")
    answer = await telemetry.client_metrics(request)
    check_answer("GET", "/telemetry/name", json.loads(json.dumps(answer)))
    return answer


@pytest.mark.parametrize("compression", list(Compression))
async def test_the_last_push_of_a_client_is_shown(compression: Compression) -> None:
    """A client's last push is found by instance id and by client id, whatever its compression."""
    nodes = ControlledNodes()
    nodes.cluster.telemetry.configs.set({"all": {"metrics": "*", "interval.ms": "100"}})
    metrics = compress(compression, metrics_of(records=5))
    assert pushed(nodes, metrics, compression_type=int(compression)) is ErrorCode.NONE
    listed = await telemetry.telemetry(ControlRequest(nodes.cluster, {}, {}, b""))
    assert listed["subscriptions"] == [{"name": "all", "metrics": "*", "interval.ms": "100"}]
    check_answer("GET", "/telemetry", listed)
    (client,) = listed["clients"]
    assert (client["client_instance_id"], client["client_id"]) == (uuid_to_text(ID), "test")
    assert (client["pushes"], client["broker"], client["bytes"]) == (1, 1, len(metrics))
    for name in (uuid_to_text(ID), "test"):
        shown = await asked(nodes, name)
        assert shown["metrics"] == [
            {
                "name": "records",
                "kind": "sum",
                "resource": {"client_rack": "r1"},
                "temporality": "delta",
                "points": [
                    {"attributes": {"topic": "t", "partition": 3}, "time_ms": TIME_MS, "value": 5}
                ],
            }
        ]
        assert shown["is_whole"]


async def test_unknown_clients_and_bytes_that_are_no_metrics_are_errors() -> None:
    """Unknown clients and undecodable pushes are errors of the control server.

    As in Kafka, a push is not decoded on arrival.
    """
    nodes = ControlledNodes()
    with pytest.raises(ControlError) as refusal:
        await asked(nodes, "test")
    assert (refusal.value.status, str(refusal.value)) == (404, "no client test has pushed metrics")
    assert pushed(nodes, b"\xff\xff\xff") is ErrorCode.NONE
    with pytest.raises(ControlError) as refusal:
        await asked(nodes, "test")
    assert refusal.value.status == 500


async def test_without_the_package_the_answer_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the telemetry package the response names the extra to install."""
    nodes = ControlledNodes()
    assert pushed(nodes, metrics_of(a=1)) is ErrorCode.NONE
    whole = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.startswith(("google", "opentelemetry")):
            raise ImportError(name)
        return whole(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ControlError) as refusal:
        await asked(nodes, "test")
    assert refusal.value.status == 501
    assert "coordinator-server[telemetry]" in str(refusal.value)


async def test_a_long_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A response has a bounded number of data points, and reports omitted data points.

    A push of 1 MB may have hundreds of thousands of empty data points.
    """
    monkeypatch.setattr(telemetry, "MOST_POINTS", 400)
    nodes = ControlledNodes()
    assert pushed(nodes, metrics_of(**{f"m{one}": one for one in range(500)})) == 0
    shown = await asked(nodes, "test")
    assert (sum(len(one["points"]) for one in shown["metrics"]), shown["is_whole"]) == (400, False)


def test_pushes_are_kept_for_a_control_server_alone() -> None:
    """Without a control server pushes are not stored."""
    nodes = Nodes()
    assert pushed(nodes, metrics_of(a=1)) is ErrorCode.NONE
    assert not nodes.cluster.telemetry.pushes


def test_brokers_share_subscriptions_and_know_instances_of_their_own() -> None:
    """Brokers share subscriptions, but each broker tracks the client instances itself."""
    nodes = Nodes()
    nodes.cluster.telemetry.configs.set({"s": {"metrics": "a"}})
    request = GetTelemetrySubscriptionsRequest(client_instance_id=ID)
    first, second, third = [nodes.ask(request, node_id=node_id) for node_id in (1, 2, 1)]
    assert first.requested_metrics == second.requested_metrics == ["a"]
    assert first.subscription_id == second.subscription_id
    assert third.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
