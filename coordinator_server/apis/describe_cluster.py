"""DescribeCluster: the brokers and the controller of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.leadership import NOBODY
from protocol.apis.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call

_BROKERS = 1
_CONTROLLERS = 2


def handle(broker: Broker, call: Call, request: DescribeClusterRequest) -> None:
    """Respond with the brokers; controller endpoints are refused, as in Kafka (KIP-919)."""
    if request.endpoint_type == _CONTROLLERS:
        call.reply(
            _refusal(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                "The request was sent to an endpoint of type BROKER, "
                "but we wanted an endpoint of type CONTROLLER",
            )
        )
        return
    if request.endpoint_type != _BROKERS:
        text = f"Unsupported endpoint type {request.endpoint_type}"
        call.reply(_refusal(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text))
        return
    # A stopped broker corresponds to a fenced broker in Kafka (KIP-1073).
    endpoints = broker.endpoints(call.connection, with_stopped=request.include_fenced_brokers)
    controller_id = broker.controller_id
    if controller_id not in {endpoint.node_id for endpoint in endpoints}:
        controller_id = NOBODY
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=endpoint.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=endpoint.rack,
                is_fenced=endpoint.is_stopped,
            )
            for endpoint in endpoints
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = call.rights.cluster_operations()
    call.reply(response)


def _refusal(error: ErrorCode, text: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error, error_message=text)
