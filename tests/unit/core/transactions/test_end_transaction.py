"""EndTxn: the response in each state, for both versions of transactions."""

from __future__ import annotations

import pytest

from coordinator_server.core.transactions.metadata import EPOCH_EXHAUSTED
from coordinator_server.core.transactions.metadata import TransactionState as S
from protocol.errors import ErrorCode as E
from tests.unit.core.transactions.context import T0, V1, V2, TransactionContext

STATES = ("empty", "ongoing", "preparing commit", "preparing abort", "committed", "aborted")


def in_state(state: str, version: int) -> tuple[TransactionContext, tuple[int, int]]:
    """Return a transactional id in this state, and its producer after the last response."""
    context = TransactionContext()
    producer = context.begin()
    if state == "empty":
        return context, producer
    context.add(producer, version=version)
    if state == "ongoing":
        return context, producer
    decision = context.end(producer, commits="commit" in state, version=version)
    if version == V2:
        producer = decision.producer_id, decision.producer_epoch
    if state in ("committed", "aborted"):
        context.complete()
    return context, producer


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("commits", [True, False])
def test_an_open_transaction_ends(version: int, commits: bool) -> None:
    """An open transaction is first decided, then completed; transactions v2 raise the epoch."""
    context, producer = in_state("ongoing", version)
    decision = context.end(producer, commits=commits, version=version)
    epoch = producer[1] + (version == V2)
    assert decision == (E.NONE, decision.record, producer[0], epoch)
    prepared = S.PREPARE_COMMIT if commits else S.PREPARE_ABORT
    assert context.state.state == prepared
    assert set(context.state.partitions) == {T0}
    context.complete()
    assert context.state.state == prepared + 2
    assert (context.state.producer_epoch, context.state.partitions) == (epoch, frozenset())


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        ("empty", E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
        ("preparing commit", E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        ("preparing abort", E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        ("committed", E.NONE, E.INVALID_TXN_STATE),
        ("aborted", E.INVALID_TXN_STATE, E.NONE),
    ],
)
def test_without_an_open_transaction_v1(state: str, commit: E, abort: E) -> None:
    """In v1 a repeated EndTxn gets the same response, but not while the transaction is ending."""
    for commits, error in ((True, commit), (False, abort)):
        context, producer = in_state(state, V1)
        decision = context.end(producer, commits=commits)
        assert (decision.error, decision.record) == (error, None)


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        ("empty", E.INVALID_TXN_STATE, E.NONE),
        ("preparing commit", E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        ("preparing abort", E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        ("committed", E.INVALID_TXN_STATE, E.NONE),
        ("aborted", E.INVALID_TXN_STATE, E.NONE),
    ],
)
def test_without_an_open_transaction_v2(state: str, commit: E, abort: E) -> None:
    """In v2, without an open transaction, an abort gives a new epoch and a commit is an error."""
    for commits, error in ((True, commit), (False, abort)):
        context, producer = in_state(state, V2)
        decision = context.end(producer, commits=commits, version=V2)
        assert decision.error is error
        if error is E.NONE:
            assert context.state.state is S.PREPARE_ABORT
            assert decision.producer_epoch == producer[1] + 1


@pytest.mark.parametrize("ended_with_commit", [True, False])
def test_a_retry_of_v2_gets_the_answer_of_the_first_time(ended_with_commit: bool) -> None:
    """A repeated EndTxn in v2, with the previous epoch, gets NONE and the current epoch again.

    A repeated EndTxn with the opposite outcome is refused.
    """
    context, producer = in_state("committed" if ended_with_commit else "aborted", V2)
    old = producer[0], producer[1] - 1
    again = context.end(old, commits=ended_with_commit, version=V2)
    assert again == (E.NONE, None, *producer)
    assert context.end(old, commits=not ended_with_commit, version=V2).error is E.INVALID_TXN_STATE


def test_an_end_of_v2_with_the_epoch_before_an_end_of_v1_is_a_retry() -> None:
    """EndTxn 5 with the previous epoch is a retry, even if the transaction ended in v1.

    Kafka also compares only the epochs.
    """
    context, producer = in_state("committed", V1)
    old = producer[0], producer[1] - 1
    assert context.end(old, version=V2) == (E.NONE, None, *producer)
    assert context.end(old, commits=False, version=V2).error is E.INVALID_TXN_STATE
    older = producer[0], producer[1] - 2
    assert context.end(older, version=V2).error is E.PRODUCER_FENCED


def test_a_retry_while_the_markers_are_written_comes_too_early() -> None:
    """A repeated EndTxn gets CONCURRENT_TRANSACTIONS while the markers are written."""
    context, (producer_id, epoch) = in_state("preparing commit", V2)
    assert context.end((producer_id, epoch - 1), version=V2).error is E.CONCURRENT_TRANSACTIONS


def test_v2_changes_the_producer_id_when_epochs_are_exhausted() -> None:
    """When epochs are exhausted, v2 changes to a new producer id at epoch 0.

    The marker has the highest epoch of the old id.
    """
    context = TransactionContext()
    context.begin()
    context.metadata = context.state._replace(producer_epoch=EPOCH_EXHAUSTED)
    old = 7000, EPOCH_EXHAUSTED
    context.add(old, version=V2)
    decision = context.end(old, version=V2)
    assert (decision.producer_id, decision.producer_epoch) == (7001, 0)
    assert (context.state.producer_id, context.state.producer_epoch) == (7000, 32767)
    context.complete()
    assert (context.state.producer_id, context.state.producer_epoch) == (7001, 0)
    again = context.end(old, version=V2)
    assert again == (E.NONE, None, 7001, 0)


@pytest.mark.parametrize("version", [V1, V2])
def test_strangers_are_refused(version: int) -> None:
    """EndTxn with an unknown id, another producer id, or an older or later epoch is refused."""
    assert TransactionContext().end((1, 0), version=version).error is (
        E.INVALID_PRODUCER_ID_MAPPING
    )
    context, (producer_id, epoch) = in_state("ongoing", version)
    for producer, error in (
        ((producer_id + 1, epoch), E.INVALID_PRODUCER_ID_MAPPING),
        ((producer_id, epoch + 1), E.PRODUCER_FENCED),
        ((producer_id, epoch - 1), E.PRODUCER_FENCED),
    ):
        assert context.end(producer, version=version).error is error
    assert context.state.state is S.ONGOING
