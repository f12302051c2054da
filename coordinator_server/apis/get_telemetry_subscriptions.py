"""GetTelemetrySubscriptions: the metrics that a client must push, and the interval (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from protocol.compression import Compression
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.telemetry.instances import Attributes
    from protocol.apis.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest

_ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


def handle(broker: Broker, call: Call, request: GetTelemetrySubscriptionsRequest) -> Steps:
    """Respond with the subscription of the client instance, or an error for an early request."""
    yield from broker.telemetry.configs.prepare()
    error, instance_id, instance = yield from broker.client_instances.get(
        request.client_instance_id, attributes(call), call.connection, broker.clock.now_ms()
    )
    if call.connection.closed:
        # The client disconnected during `get`, which may have created an instance: drop it.
        broker.client_instances.disconnected(call.connection)
        return
    if error is not ErrorCode.NONE:
        call.reply(GetTelemetrySubscriptionsResponse(error_code=error))
        return
    call.reply(
        GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=list(map(int, _ACCEPTED)),
            push_interval_ms=instance.interval_ms,
            telemetry_max_bytes=broker.config.integer("telemetry.max.bytes"),
            delta_temporality=True,
            requested_metrics=instance.metrics,
        )
    )


def attributes(call: Call) -> Attributes:
    """Return the client attributes that subscriptions can match, except the instance id.

    Source: ClientMetricsInstanceMetadata.
    """
    connection = call.connection
    software_name, software_version = connection.software
    return {
        "client_id": call.client_id,
        "client_software_name": software_name,
        "client_software_version": software_version,
        "client_source_address": connection.client_host.removeprefix("/"),
        "client_source_port": connection.remote.rpartition(":")[2],
    }
