"""ListTransactions (key 66): the transactional ids of this broker (KIP-664). Versions 0-2.

All versions are flexible. Version 1 filters by the duration of a transaction (KIP-994), 2 by a
regular expression for the transactional id (KIP-1152; INVALID_REGULAR_EXPRESSION).
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, INT64, STRING, Message, field


class ListTransactionsRequest(Message, versions=(0, 2), flexible_since=0):
    """Filters; an empty list, a negative duration (ms) and a null pattern match everything."""

    state_filters: list[str] = field(ARRAY(STRING))
    producer_id_filters: list[int] = field(ARRAY(INT64))
    duration_filter: int = field(INT64, since=1, default=-1)
    transactional_id_pattern: str | None = field(STRING, since=2, nullable_since=2, default=None)


class ListedTransaction(Message):
    """One transactional id."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    transaction_state: str = field(STRING)


class ListTransactionsResponse(Message, versions=(0, 2), flexible_since=0):
    """The matching transactional ids, and the unknown states in `state_filters`."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    unknown_state_filters: list[str] = field(ARRAY(STRING))
    transaction_states: list[ListedTransaction] = field(ARRAY(ListedTransaction))
