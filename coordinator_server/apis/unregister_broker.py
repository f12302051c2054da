"""UnregisterBroker: forget a broker until it is started again; one that runs stops.

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
    """Answer before the broker stops: it may be the one that is asked."""
    broker_id = request.broker_id
    if broker_id not in broker.topics.broker_ids:
        message = f"Broker ID {broker_id} is not currently registered"
        error = ErrorCode.BROKER_ID_NOT_REGISTERED
        call.reply(UnregisterBrokerResponse(error_code=error, error_message=message))
        return
    call.reply(UnregisterBrokerResponse(error_message=""))
    broker.unregister(broker_id)
