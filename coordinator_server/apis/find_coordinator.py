"""FindCoordinator: find the coordinator of a group, transactional id or share partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.share_state.coordinator_key import coordinator_key, share_partition_key
from protocol.apis.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.find_coordinator import FindCoordinatorRequest

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_MANY_KEYS_SINCE = 4
_SHARE_SINCE = 6
_NO_NODE_ID, _NO_HOST, _NO_PORT = -1, "", -1


def handle(broker: Broker, call: Call, request: FindCoordinatorRequest) -> Steps:
    """Respond with the leader of the partition that the key hashes to.

    The internal topic is created on first use and available at once; Kafka responds
    COORDINATOR_NOT_AVAILABLE while it creates the topic, and the client retries.
    """
    many = call.api_version >= _MANY_KEYS_SINCE
    if many:
        coordinators = []
        for key in request.coordinator_keys:
            coordinators.append(_find(broker, call, request.key_type, key))
            yield
        coordinators = yield from call.rights.in_order(coordinators)
        call.reply(FindCoordinatorResponse(coordinators=coordinators))
        return
    coordinator = _find(broker, call, request.key_type, request.key)
    call.reply(
        FindCoordinatorResponse(
            error_code=coordinator.error_code,
            error_message=coordinator.error_message or ErrorCode(coordinator.error_code).message,
            node_id=coordinator.node_id,
            host=coordinator.host,
            port=coordinator.port,
        )
    )


def _find(broker: Broker, call: Call, key_type: int, key: str) -> Coordinator:
    error, message = ErrorCode.NONE, ""
    node_id = broker.node_id
    if key_type == _GROUP:
        error = broker.groups.ensure_topic()
        if error is ErrorCode.NONE:
            node_id = broker.groups.coordinator_of(key)
    elif key_type == _TRANSACTION:
        error = broker.transactions.ensure_topic()
        if error is ErrorCode.NONE:
            node_id = broker.transactions.coordinator_of(key)
    elif key_type == _SHARE:
        share_partition = share_partition_key(key) if call.api_version >= _SHARE_SINCE else None
        if share_partition is None:
            error = ErrorCode.INVALID_REQUEST
        else:
            error = broker.share_states.ensure_topic()
        if share_partition is not None and error is ErrorCode.NONE:
            node_id = broker.share_states.coordinator_of(coordinator_key(share_partition))
    else:
        error = ErrorCode.INVALID_REQUEST
        message = error.message  # since FindCoordinator 4 only an unknown key type has a message
    endpoint = broker.endpoint(node_id, call.connection)
    if error is ErrorCode.NONE and endpoint is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if endpoint is None or error is not ErrorCode.NONE:
        return Coordinator(
            key=key,
            node_id=_NO_NODE_ID,
            host=_NO_HOST,
            port=_NO_PORT,
            error_code=error,
            error_message=message,
        )
    return Coordinator(
        key=key, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port, error_message=""
    )
