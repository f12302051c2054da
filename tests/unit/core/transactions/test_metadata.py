"""The record of a transactional id, its transitions, and its timeouts."""

from __future__ import annotations

import pytest

from coordinator_server.core.transactions.metadata import (
    LEGAL_TRANSITIONS,
    TransactionMetadata,
    TransactionState,
    from_value,
    is_expired,
)
from protocol.errors import ProtocolError
from protocol.transaction_log import TransactionLogValue
from tests.unit.core.transactions.context import T0, V1, V2, TransactionContext


def test_an_illegal_transition_is_a_bug() -> None:
    """Committing without an open transaction fails an assertion."""
    with pytest.raises(AssertionError):
        TransactionMetadata("id", 1).to(TransactionState.COMPLETE_COMMIT, 0)


def test_every_state_but_the_last_leads_somewhere() -> None:
    """The table of transitions has every state except the last."""
    written = set(TransactionState) - {TransactionState.PREPARE_EPOCH_FENCE}
    assert set(LEGAL_TRANSITIONS) == written
    assert {state for state, after in LEGAL_TRANSITIONS.items() if not after} == {
        TransactionState.DEAD
    }


def test_a_clock_that_was_set_back_does_not_move_the_last_update_back() -> None:
    """If the clock is set back, the time of the last update stays, from which expiry is counted."""
    context = TransactionContext()
    producer = context.begin()
    context.now_ms -= 500
    context.add(producer)
    assert context.state.last_update_ms == context.now_ms + 500


def test_an_unknown_state_is_damage() -> None:
    """A record with an unknown state is skipped as damaged."""
    with pytest.raises(ProtocolError, match="transaction state 9"):
        from_value("id", TransactionLogValue(transaction_status=9))


def test_a_transaction_times_out_after_its_own_timeout() -> None:
    """A transaction's timeout is counted from its first partition."""
    context = TransactionContext()
    producer = context.begin()
    assert not context.state.is_timed_out(context.now_ms + 10**9)
    context.add(producer, T0)
    assert not context.state.is_timed_out(context.now_ms + 60_000)
    assert context.state.is_timed_out(context.now_ms + 60_001)


@pytest.mark.parametrize("version", [V1, V2])
def test_only_an_id_at_rest_expires(version: int) -> None:
    """Only an id without a transaction expires, after `transactional.id.expiration.ms`."""
    context = TransactionContext()
    producer = context.begin()
    assert is_expired(context.state, context.now_ms + 100, 100)
    assert not is_expired(context.state, context.now_ms + 99, 100)
    context.add(producer, version=version)
    assert not is_expired(context.state, context.now_ms + 100, 100)
    context.end(producer, version=version)
    assert not is_expired(context.state, context.now_ms + 100, 100)
    context.complete()
    assert is_expired(context.state, context.now_ms + 100, 100)
