"""EndTxn: commit or abort the open transaction.

The response is sent when every partition has its marker. Kafka responds once the decision is
logged, and delays the next transaction with CONCURRENT_TRANSACTIONS; clients cannot see the
difference. Source: KafkaApis.handleEndTxnRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.transactions.metadata import TRANSACTIONS_V1, TRANSACTIONS_V2, refused
from protocol.apis.end_txn import EndTxnResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.core.transactions.metadata import TransactionDecision
    from coordinator_server.net.call import Call
    from protocol.apis.end_txn import EndTxnRequest

PRODUCER_FENCED_SINCE = 2
TRANSACTIONS_V2_SINCE = 5


def handle(broker: Broker, call: Call, request: EndTxnRequest) -> None:
    """Submit the request to the transaction coordinator."""
    is_v2 = call.api_version >= TRANSACTIONS_V2_SINCE

    def done(decision: TransactionDecision) -> None:
        error = decision.error
        if error is ErrorCode.PRODUCER_FENCED and call.api_version < PRODUCER_FENCED_SINCE:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        call.reply(
            EndTxnResponse(
                error_code=error,
                producer_id=decision.producer_id,
                producer_epoch=decision.producer_epoch,
            )
        )

    if request.transactional_id:
        broker.transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commits=request.committed,
            client_version=TRANSACTIONS_V2 if is_v2 else TRANSACTIONS_V1,
            done=done,
        )
    else:
        done(refused(ErrorCode.INVALID_REQUEST))
