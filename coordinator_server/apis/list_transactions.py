"""ListTransactions: list the transactional ids of this broker, filtered.

The filters are state, producer id, duration (KIP-994) and pattern (KIP-1152). Patterns use RE2
syntax, as in Kafka (RE2/J), and match in linear time. Source:
TransactionStateManager.listTransactionStates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.core.transactions.metadata import STATE_BY_LABEL
from protocol.apis.list_transactions import ListedTransaction, ListTransactionsResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.broker import Broker
    from coordinator_server.core.transactions.metadata import TransactionState
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from protocol.apis.list_transactions import ListTransactionsRequest


def handle(broker: Broker, call: Call, request: ListTransactionsRequest) -> Steps:
    """Respond with all ids that match every filter, and with the names of unknown states."""
    if broker.transactions.is_loading:
        call.reply(ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    matches = _matcher(request.transactional_id_pattern)
    if matches is None:
        call.reply(ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION))
        return
    unknown: dict[str, None] = {}
    states: set[TransactionState] = set()
    for name in request.state_filters:
        state = STATE_BY_LABEL.get(name)
        if state is None:
            unknown[name] = None
        else:
            states.add(state)
        yield
    producer_ids = set(request.producer_id_filters)
    now_ms = broker.clock.now_ms()
    listed: list[ListedTransaction] = []
    for transactional_id, entry in tuple(broker.transactions.ids.items()):
        yield
        metadata = entry.metadata
        if (
            (request.state_filters and metadata.state not in states)
            or (producer_ids and metadata.producer_id not in producer_ids)
            or 0 <= request.duration_filter >= now_ms - metadata.start_ms
            or not matches(transactional_id)
            or not call.rights.allows(transactional_id)
        ):
            continue
        listed.append(
            ListedTransaction(
                transactional_id=transactional_id,
                producer_id=metadata.producer_id,
                transaction_state=metadata.state.label,
            )
        )
    response = ListTransactionsResponse(
        unknown_state_filters=list(unknown), transaction_states=listed
    )
    call.reply(response)


def _matcher(pattern: str | None) -> Callable[[str], object] | None:
    """Return a function that matches a whole transactional id, or None for an invalid pattern."""
    if not pattern:
        return bool
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    match: Callable[[str], object] = compiled.fullmatch
    return match
