"""InitProducerId with a transactional id: epochs, fencing, continuing after an error."""

from __future__ import annotations

import pytest

from coordinator_server.core.transactions.metadata import EPOCH_EXHAUSTED
from coordinator_server.core.transactions.metadata import TransactionState as S
from protocol.errors import ErrorCode as E
from tests.unit.core.transactions.context import T0, V2, TransactionContext


def test_the_first_producer_gets_epoch_0_and_the_next_one_1() -> None:
    """Each InitProducerId of an id returns the same producer id with the next epoch."""
    context = TransactionContext()
    assert context.begin() == (7000, 0)
    assert context.begin() == (7000, 1)
    assert context.state.state is S.EMPTY
    assert context.state.timeout_ms == 60_000


def test_an_open_transaction_is_aborted_first() -> None:
    """An open transaction is aborted with the next epoch; the new producer gets a later epoch."""
    context = TransactionContext()
    first = context.begin()
    context.add(first)
    assert context.init().error is E.CONCURRENT_TRANSACTIONS
    assert context.state.state is S.PREPARE_ABORT
    assert context.state.producer_epoch == 1
    assert context.init().error is E.CONCURRENT_TRANSACTIONS
    context.complete()
    assert context.begin() == (7000, 2)
    assert context.add(first).error is E.PRODUCER_FENCED


def test_a_producer_goes_on_with_its_epoch() -> None:
    """A producer that sends its id and epoch gets the next epoch; a retry gets the same epoch."""
    context = TransactionContext()
    context.is_durable = False
    producer_id, epoch = context.begin()
    for _ in range(2):
        decision = context.init(producer_id, epoch)
        assert (decision.error, decision.producer_epoch) == (E.NONE, 1)
    assert context.init(producer_id, 1).producer_epoch == 2


@pytest.mark.parametrize(("producer_id", "epoch"), [(7000, 0), (7000, 5), (1, 2)])
def test_a_producer_that_others_followed_is_fenced(producer_id: int, epoch: int) -> None:
    """A producer with an older or unknown epoch, or with another producer id, is fenced."""
    context = TransactionContext()
    context.begin(), context.begin(), context.begin()
    assert context.init(producer_id, epoch).error is E.PRODUCER_FENCED


def test_a_new_id_takes_any_producer() -> None:
    """A producer whose transactional id has expired continues with a new producer id."""
    context = TransactionContext()
    decision = context.init(123, 45)
    assert decision == (E.NONE, context.metadata, 7000, 0)


def test_a_producer_whose_transaction_was_aborted_for_it_may_go_on() -> None:
    """After a timeout a producer with its old epoch gets the epoch of the abort (KIP-588)."""
    context = TransactionContext()
    context.is_durable = False
    producer = context.begin()
    context.add(producer)
    assert context.init(*producer).error is E.CONCURRENT_TRANSACTIONS
    context.complete()
    assert context.init(*producer) == (E.NONE, context.metadata, 7000, 1)


def test_exhausted_epochs_give_a_new_producer_id() -> None:
    """Epoch 32766 is followed by epoch 0 of another producer id."""
    context = TransactionContext()
    context.begin()
    context.metadata = context.state._replace(producer_epoch=EPOCH_EXHAUSTED)
    assert context.begin() == (7001, 0)
    assert context.state.previous_producer_id == 7000


def test_a_retry_across_the_change_of_ids_gets_the_same_answer() -> None:
    """A retry with the old producer id's last epoch gets the response of the first request."""
    context = TransactionContext()
    context.is_durable = False
    context.begin()
    context.metadata = context.state._replace(producer_epoch=EPOCH_EXHAUSTED)
    for _ in range(2):
        decision = context.init(7000, EPOCH_EXHAUSTED)
        assert (decision.error, decision.producer_id, decision.producer_epoch) == (E.NONE, 7001, 0)


def test_a_transaction_at_the_last_epoch_can_be_fenced() -> None:
    """The highest epoch is reserved for fencing; then another producer id starts."""
    context = TransactionContext()
    context.begin()
    context.metadata = context.state._replace(producer_epoch=EPOCH_EXHAUSTED)
    context.add((7000, EPOCH_EXHAUSTED), T0)
    assert context.init().error is E.CONCURRENT_TRANSACTIONS
    assert (context.state.producer_id, context.state.producer_epoch) == (7000, 32767)
    context.complete()
    assert (context.state.producer_id, context.state.producer_epoch) == (7001, 0)
    assert context.begin() == (7001, 1)


def test_after_an_end_of_transactions_v2_the_old_epoch_may_go_on() -> None:
    """After an EndTxn 5 whose response got lost, the producer may use the previous epoch."""
    context = TransactionContext()
    context.is_durable = False
    producer = context.begin()
    context.add(producer, version=V2)
    context.end(producer, version=V2)
    context.complete()
    assert context.init(*producer).producer_epoch == 1
