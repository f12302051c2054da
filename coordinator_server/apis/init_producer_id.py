"""InitProducerId: a producer id for an idempotent producer.

Without a transactional id every request gets a new id at epoch 0, also one that asks to go on
with an older id: that is what Kafka answers, epochs of plain idempotent producers are bumped by
the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call


def handle(broker: Broker, call: Call, request: InitProducerIdRequest) -> None:
    """Answer with an id that was never given before, or with an error."""
    error = _refusal(request)
    producer_id = -1
    if error is ErrorCode.NONE:
        try:
            producer_id = broker.producer_ids.next_id()
        except StorageError:
            # The client tries again; an id that may be given twice would be worse.
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    call.reply(
        InitProducerIdResponse(
            error_code=error,
            producer_id=producer_id,
            producer_epoch=0 if error is ErrorCode.NONE else -1,
        )
    )


def _refusal(request: InitProducerIdRequest) -> ErrorCode:
    """The checks that need no producer id, in Kafka's order."""
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    # Transactions are not served. A retriable error would let the producer wait in vain.
    return ErrorCode.UNSUPPORTED_VERSION
