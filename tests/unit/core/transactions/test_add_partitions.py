"""AddPartitionsToTxn: the start and growth of a transaction, and verification."""

from __future__ import annotations

import pytest

from coordinator_server.core.transactions.add_partitions import missing_partitions
from coordinator_server.core.transactions.metadata import TransactionState as S
from protocol.errors import ErrorCode as E
from tests.unit.core.transactions.context import T0, T1, V2, TransactionContext


def test_the_first_partition_begins_the_transaction() -> None:
    """The first partition starts the transaction; later partitions keep its start time."""
    context = TransactionContext()
    producer = context.begin()
    began_ms = context.now_ms
    assert context.add(producer, T0, version=V2).error is E.NONE
    context.now_ms += 1000
    context.add(producer, T1, version=V2)
    state = context.state
    assert state.state is S.ONGOING
    assert state.partitions == {T0, T1}
    assert (state.start_ms, state.last_update_ms) == (began_ms, began_ms + 1000)
    assert state.client_version == V2


def test_what_is_added_already_is_not_written_again() -> None:
    """A partition that is already added writes no record."""
    context = TransactionContext()
    producer = context.begin()
    context.add(producer, T0, T1)
    assert context.add(producer, T1) == (E.NONE, None, -1, -1)


@pytest.mark.parametrize("commits", [True, False])
def test_after_an_end_a_new_one_begins(commits: bool) -> None:
    """A new transaction can start only after the markers of the previous one are written."""
    context = TransactionContext()
    producer = context.begin()
    context.add(producer, T0)
    context.end(producer, commits=commits)
    assert context.add(producer, T1).error is E.CONCURRENT_TRANSACTIONS
    context.complete()
    context.now_ms += 5
    context.add(producer, T1)
    assert context.state.partitions == {T1}
    assert context.state.start_ms == context.now_ms


def test_strangers_are_refused() -> None:
    """AddPartitionsToTxn refuses unknown ids, other producer ids and epochs, also to verify."""
    context = TransactionContext()
    assert context.add((1, 0)).error is E.INVALID_PRODUCER_ID_MAPPING
    producer_id, epoch = context.begin()
    for producer, error in (
        ((producer_id + 1, epoch), E.INVALID_PRODUCER_ID_MAPPING),
        ((producer_id, epoch + 1), E.PRODUCER_FENCED),
    ):
        assert context.add(producer).error is error
        assert missing_partitions(context.metadata, *producer, [T0]) == (error, ())


def test_verification_names_what_is_missing() -> None:
    """Verification returns the missing partitions and changes nothing."""
    context = TransactionContext()
    producer = context.begin()
    assert missing_partitions(context.metadata, *producer, [T0]) == (E.NONE, [T0])
    context.add(producer, T0)
    assert missing_partitions(context.metadata, *producer, [T0, T1]) == (E.NONE, [T1])
