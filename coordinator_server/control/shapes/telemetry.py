"""Client metrics that clients push (KIP-714)."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict


class MetricsClient(TypedDict):
    """A client instance that has pushed metrics."""

    client_instance_id: Annotated[str, "client instance id"]
    client_id: Annotated[str, "client id"]
    client_software_name: Annotated[str, "name of the client library"]
    client_software_version: Annotated[str, "version of the client library"]
    client_source_address: Annotated[str, "address"]
    client_source_port: Annotated[str, "port"]
    broker: Annotated[int, "node id of the broker"]
    pushes: Annotated[int, "number of pushes"]
    last_push_ms: Annotated[int, "when the last push arrived"]
    is_terminating: Annotated[bool, "whether the last push was the client's final one"]
    compression: Annotated[str, "compression of the last push"]
    bytes: Annotated[int, "size of the last push"]


class MetricsClients(TypedDict):
    """Subscriptions to client metrics, and clients that have pushed metrics."""

    subscriptions: Annotated[list[dict[str, str]], "subscriptions with their configs"]
    clients: Annotated[list[MetricsClient], "clients"]


class Metric(TypedDict):
    """A metric with its data points."""

    name: Annotated[str, "name"]
    kind: Annotated[str, "gauge, sum, histogram, exponential_histogram or summary"]
    resource: Annotated[dict[str, Any], "attributes of the resource"]
    points: Annotated[list[dict[str, Any]], "data points"]
    temporality: NotRequired[Annotated[str, "sums: delta, cumulative or unspecified"]]


class ClientMetrics(MetricsClient):
    """The metrics that a client pushed last."""

    metrics: Annotated[list[Metric], "metrics"]
    is_whole: Annotated[bool, "whether all data points are included"]
