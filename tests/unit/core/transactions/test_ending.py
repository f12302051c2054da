"""Responses of a transaction while its markers are written.

A recorded scenario cannot stop in this state. The expected responses are those of two Kafka 4.3.1
brokers, where the leader of the transaction's only partition was stopped (SIGSTOP) before EndTxn.
Kafka has then already set its pending state, which it checks before PREPARE_COMMIT and
PREPARE_ABORT.
"""

from __future__ import annotations

import pytest

from coordinator_server.core.transactions.add_partitions import missing_partitions
from protocol.errors import ErrorCode as E
from tests.unit.core.transactions.context import T0, T1, V1, V2, TransactionContext

WAIT, FENCED, STRANGER = (
    E.CONCURRENT_TRANSACTIONS,
    E.PRODUCER_FENCED,
    E.INVALID_PRODUCER_ID_MAPPING,
)
IDENTITIES = ("current", "older", "newer", "other producer id")


def ending(commits: bool, version: int) -> tuple[TransactionContext, dict[str, tuple[int, int]]]:
    """Return an id whose transaction is about to end, and the producers of requests."""
    context = TransactionContext()
    context.begin()
    producer = context.begin()
    context.add(producer, T0, version=version)
    context.end(producer, commits=commits, version=version)
    producer_id, epoch = context.state.producer_id, context.state.producer_epoch
    producers = (producer_id, epoch), (producer_id, epoch - 1), (producer_id, epoch + 1)
    return context, dict(zip(IDENTITIES, (*producers, (producer_id + 1, epoch)), strict=True))


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("version", [V1, V2])
def test_no_transaction_begins(version: int, ended: bool) -> None:
    """InitProducerId and AddPartitionsToTxn get a retriable error for any id and epoch."""
    context, producers = ending(ended, version)
    before = context.metadata
    for producer in producers.values():
        assert context.init(*producer).error is WAIT
        assert context.add(producer, T1, version=version).error is WAIT
    assert context.init().error is WAIT
    assert context.metadata == before


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize(
    ("version", "answers"), [(V1, (WAIT, FENCED, FENCED, STRANGER)), (V2, (WAIT,) * 4)]
)
def test_another_end_waits(
    version: int, answers: tuple[E, ...], commits: bool, ended: bool
) -> None:
    """Any EndTxn must be retried; up to version 4 wrong producers get their own errors."""
    context, producers = ending(ended, version)
    for producer, error in zip(producers.values(), answers, strict=True):
        assert context.end(producer, commits=commits, version=version) == (error, None, -1, -1)


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("version", [V1, V2])
def test_verification_tells_wrong_producers_apart(version: int, ended: bool) -> None:
    """Verification checks producer id and epoch before the state of the transaction."""
    context, producers = ending(ended, version)
    answers = [
        missing_partitions(context.metadata, *producer, [T0, T1])[0]
        for producer in producers.values()
    ]
    assert answers == [WAIT, FENCED, FENCED, STRANGER]
