"""Control requests about client telemetry (KIP-714): subscriptions and pushed metrics.

Metrics are decoded on request, with OpenTelemetry's protobuf package, which the extra `telemetry`
installs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from coordinator_server.control.request import ControlError, ControlRequest
from protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from coordinator_server.telemetry.payload import KeptPush

MOST_POINTS = 10_000
"""Limit of data points in one response."""

_POINTS_PER_TURN = 200
_KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
_TEMPORALITIES = ("unspecified", "delta", "cumulative")


async def telemetry(request: ControlRequest) -> dict[str, Any]:
    """GET /telemetry: list subscriptions, and client instances that have pushed metrics."""
    state = request.cluster.telemetry
    return {
        "subscriptions": [
            {"name": name, **state.configs.own(name)} for name in state.configs.names()
        ],
        "clients": [_client(push) for push in state.pushes.values()],
    }


async def client_metrics(request: ControlRequest) -> dict[str, Any]:
    """GET /telemetry/CLIENT: return the last push of a client, by instance id or client id.

    If several instances have the client id, the latest push is returned. Raises ControlError.
    """
    name, pushes = request.parameters["CLIENT"], request.cluster.telemetry.pushes
    push = pushes.get(name)
    if push is None:
        named = (
            candidate
            for candidate in reversed(pushes.values())
            if candidate.attributes["client_id"] == name
        )
        push = next(named, None)
    if push is None:
        raise ControlError(404, f"no client {name} has pushed metrics")
    metrics, is_whole = await _metrics(push)
    return {**_client(push), "metrics": metrics, "is_whole": is_whole}


def _client(push: KeptPush) -> dict[str, Any]:
    return {
        **push.attributes,
        "broker": push.node_id,
        "pushes": push.number,
        "last_push_ms": push.time_ms,
        "is_terminating": push.is_terminating,
        "compression": push.compression.name.lower(),
        "bytes": len(push.metrics),
    }


async def _metrics(push: KeptPush) -> tuple[list[dict[str, Any]], bool]:
    """Return the metrics of a push, and whether all of its data points are included.

    Raises ControlError.
    """
    metrics_data, decode_error = _package()
    try:
        data = metrics_data.FromString(push.data())
    except (ProtocolError, decode_error) as error:
        raise ControlError(500, f"the metrics cannot be decoded: {error}") from error
    metrics: list[dict[str, Any]] = []
    count = 0
    async for resource, metric, kind in _each_metric(data):
        if count >= MOST_POINTS:
            return metrics, False
        points: list[dict[str, Any]] = []
        body = getattr(metric, kind)
        shown = {"name": metric.name, "kind": kind, "resource": resource, "points": points}
        if kind == "sum":
            shown["temporality"] = _TEMPORALITIES[body.aggregation_temporality % 3]
        metrics.append(shown)
        count += not body.data_points  # empty metrics count as a point, to bound the response
        for point in body.data_points:
            if count >= MOST_POINTS:
                return metrics, False
            count += 1
            points.append(_point(point, kind))
            if not count % _POINTS_PER_TURN:
                await asyncio.sleep(0)
    return metrics, True


def _package() -> tuple[Any, type[Exception]]:
    """Return OpenTelemetry's MetricsData class, and the class of its decoding error.

    Raises ControlError if the packages are not installed.
    """
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    except ImportError as error:
        text = "to decode metrics install the extra: pip install 'coordinator-server[telemetry]'"
        raise ControlError(501, text) from error
    return MetricsData, DecodeError


async def _each_metric(data: Any) -> AsyncIterator[tuple[dict[str, Any], Any, str]]:
    """Yield the attributes of the resource, the metric, and the kind of the metric."""
    count = 0
    for resource_metrics in data.resource_metrics:
        resource = _attributes(resource_metrics.resource.attributes)
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                kind = metric.WhichOneof("data")
                if kind in _KINDS:
                    yield resource, metric, kind
                count += 1
                if not count % _POINTS_PER_TURN:
                    await asyncio.sleep(0)


def _point(point: Any, kind: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "attributes": _attributes(point.attributes),
        "time_ms": point.time_unix_nano // 1_000_000,
    }
    if kind in ("gauge", "sum"):
        shown["value"] = getattr(point, point.WhichOneof("value") or "as_double")
    else:
        shown |= {"count": point.count, "sum": point.sum}
    return shown


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    """Return attributes by name; lists, maps and bytes become text."""
    attributes = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        value = None if kind is None else getattr(pair.value, kind)
        attributes[pair.key] = value if isinstance(value, str | bool | int | float) else str(value)
    return attributes
