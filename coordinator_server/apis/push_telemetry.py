"""PushTelemetry: receive client metrics (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.get_telemetry_subscriptions import attributes
from coordinator_server.telemetry.instances import Push
from coordinator_server.telemetry.payload import (
    MOST_DECOMPRESSED_BYTES,
    KeptPush,
    decompressed,
)
from protocol.apis.push_telemetry import PushTelemetryResponse
from protocol.compression import Compression
from protocol.errors import ErrorCode, ProtocolError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.push_telemetry import PushTelemetryRequest


def handle(broker: Broker, call: Call, request: PushTelemetryRequest) -> Steps:
    """Keep the metrics for the control server, or respond with an error."""
    yield from broker.telemetry.configs.prepare()
    push = Push(
        request.client_instance_id,
        request.subscription_id,
        request.terminating,
        request.compression_type,
        len(request.metrics),
    )
    now_ms = broker.clock.now_ms()
    error, instance = yield from broker.client_instances.push(
        push, attributes(call), call.connection, now_ms
    )
    if call.connection.closed:
        # The client disconnected during `get`, which may have created an instance: drop it.
        broker.client_instances.disconnected(call.connection)
    if error is ErrorCode.NONE and request.metrics:
        assert instance is not None
        compression, metrics = Compression(request.compression_type), bytes(request.metrics)
        limit = min(broker.config.integer("telemetry.max.bytes"), MOST_DECOMPRESSED_BYTES)
        try:
            decompressed(compression, metrics, limit)
        except ProtocolError:  # Kafka returns INVALID_RECORD for metrics that its reporter rejects
            error = instance.last_error = ErrorCode.INVALID_RECORD
        else:
            broker.telemetry.keep(
                KeptPush(
                    instance.attributes,
                    broker.node_id,
                    now_ms,
                    1,
                    request.terminating,
                    compression,
                    metrics,
                )
            )
    call.reply(PushTelemetryResponse(error_code=error))
