"""FindCoordinator: which broker coordinates a group or a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.call import Call
    from protocol.apis.find_coordinator import FindCoordinatorRequest

_GROUP, _TRANSACTION = 0, 1
_MANY_KEYS_SINCE = 4
_NO_NODE_ID, _NO_HOST, _NO_PORT = -1, "", -1


def handle(broker: Broker, call: Call, request: FindCoordinatorRequest) -> None:
    """This broker coordinates everything; the offsets topic is made when it is first asked for.

    Kafka answers COORDINATOR_NOT_AVAILABLE while it makes the topic and the client asks again;
    here the topic is there at once.
    """
    many = call.api_version >= _MANY_KEYS_SINCE
    keys = request.coordinator_keys if many else [request.key]
    found = [_find(broker, call, request.key_type, key) for key in keys]
    if many:
        call.reply(FindCoordinatorResponse(coordinators=found))
        return
    one = found[0]
    call.reply(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=None if one.error_code else "NONE",
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def _find(broker: Broker, call: Call, key_type: int, key: str) -> Coordinator:
    error = ErrorCode.INVALID_REQUEST
    if key_type == _GROUP:
        error = broker.groups.ensure_offsets_topic()
    elif key_type == _TRANSACTION:
        error = ErrorCode.NONE
    if error is not ErrorCode.NONE:
        return Coordinator(
            key=key, node_id=_NO_NODE_ID, host=_NO_HOST, port=_NO_PORT, error_code=error
        )
    host, port = broker.advertised(call.connection)
    return Coordinator(key=key, node_id=broker.node_id, host=host, port=port)
