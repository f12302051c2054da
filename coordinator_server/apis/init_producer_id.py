"""InitProducerId: assign id and epoch to an idempotent or transactional producer.

Without a transactional id, every request gets a new id with epoch 0, even a request that passes an
older id: as in Kafka, clients bump the epochs of idempotent producers. With a transactional id, the
transaction coordinator decides. Source: KafkaApis.handleInitProducerIdRequest,
TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.transactions.init_producer_id import (
    ProducerIdAndEpoch,
    init_producer_id,
)
from coordinator_server.core.transactions.metadata import NO_PRODUCER_ID, TransactionMetadata
from protocol.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.core.transactions.metadata import TransactionDecision
    from coordinator_server.net.call import Call

PRODUCER_FENCED_SINCE = 4


def handle(broker: Broker, call: Call, request: InitProducerIdRequest) -> None:
    """Respond with a new producer id, with the transactional id's producer id, or with an error."""
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        _reply(call, ErrorCode.INVALID_REQUEST)
    elif request.transactional_id is None:
        _new_idempotent(broker, call)
    elif not request.transactional_id:
        _reply(call, ErrorCode.INVALID_REQUEST)
    elif not 0 < request.transaction_timeout_ms <= broker.transactions.settings.max_timeout_ms:
        _reply(call, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    else:
        _init_transactional(broker, call, request, request.transactional_id)


def _new_idempotent(broker: Broker, call: Call) -> None:
    try:
        producer_id = broker.producer_ids.next_id()
    except StorageError:
        # Without a stored id block, the id could be assigned again after a restart. The client
        # retries.
        _reply(call, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return
    _reply(call, ErrorCode.NONE, producer_id, 0)


def _init_transactional(
    broker: Broker, call: Call, request: InitProducerIdRequest, transactional_id: str
) -> None:
    coordinator = broker.transactions
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)

    def decide(metadata: TransactionMetadata | None, now_ms: int) -> TransactionDecision:
        if metadata is None:
            metadata = TransactionMetadata(transactional_id, coordinator.new_producer_id())
        return init_producer_id(
            metadata,
            request.transaction_timeout_ms,
            expected,
            now_ms,
            coordinator.new_producer_id,
        )

    def done(decision: TransactionDecision) -> None:
        error = decision.error
        if error is ErrorCode.PRODUCER_FENCED and call.api_version < PRODUCER_FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        _reply(call, error, decision.producer_id, decision.producer_epoch)

    coordinator.submit(transactional_id, decide, done)


def _reply(call: Call, error: ErrorCode, producer_id: int = -1, producer_epoch: int = -1) -> None:
    call.reply(
        InitProducerIdResponse(
            error_code=error, producer_id=producer_id, producer_epoch=producer_epoch
        )
    )
