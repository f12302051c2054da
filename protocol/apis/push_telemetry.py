"""PushTelemetry (key 72): receives metrics of a client (KIP-714). Version 0, flexible."""

from __future__ import annotations

from protocol.schema import BOOL, BYTES, INT8, INT16, INT32, UUID, Message, field


class PushTelemetryRequest(Message, versions=(0, 0), flexible_since=0):
    """OpenTelemetry MetricsData, optionally compressed."""

    client_instance_id: bytes = field(UUID)
    subscription_id: int = field(INT32)
    terminating: bool = field(BOOL)
    compression_type: int = field(INT8)
    metrics: bytes = field(BYTES)


class PushTelemetryResponse(Message, versions=(0, 0), flexible_since=0):
    """The error code of the push."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
