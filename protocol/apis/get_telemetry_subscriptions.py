"""GetTelemetrySubscriptions (key 71): the metrics to push (KIP-714). Version 0."""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, STRING, UUID, Message, field


class GetTelemetrySubscriptionsRequest(Message, versions=(0, 0), flexible_since=0):
    """The client instance id; a zero id requests a new id."""

    client_instance_id: bytes = field(UUID)


class GetTelemetrySubscriptionsResponse(Message, versions=(0, 0), flexible_since=0):
    """The subscription; one empty name means all metrics, an empty list means none."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    client_instance_id: bytes = field(UUID)
    subscription_id: int = field(INT32)
    accepted_compression_types: list[int] = field(ARRAY(INT8))
    push_interval_ms: int = field(INT32)
    telemetry_max_bytes: int = field(INT32)
    delta_temporality: bool = field(BOOL)
    requested_metrics: list[str] = field(ARRAY(STRING))
