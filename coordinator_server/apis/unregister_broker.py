"""UnregisterBroker: remove a broker until it is started again; a running broker is stopped.

Source: Kafka's ReplicationControlManager.unregisterBroker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call


def handle(broker: Broker, call: Call, request: UnregisterBrokerRequest) -> None:
    """Respond before the broker stops, because it may be the broker that got the request."""
    broker_id = request.broker_id
    if broker_id not in broker.topics.broker_ids:
        message = f"Broker ID {broker_id} is not currently registered"
        error = ErrorCode.BROKER_ID_NOT_REGISTERED
        call.reply(UnregisterBrokerResponse(error_code=error, error_message=message))
        return
    call.reply(UnregisterBrokerResponse(error_message=""))
    broker.unregister(broker_id)
