"""The transaction coordinator: its log, markers, timers, and crashes."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from coordinator_server.core.transactions.metadata import TransactionState as S
from coordinator_server.topics.names import TRANSACTIONS_TOPIC
from protocol.apis.describe_transactions import DescribeTransactionsRequest
from protocol.apis.end_txn import EndTxnRequest
from protocol.apis.init_producer_id import InitProducerIdRequest
from protocol.errors import ErrorCode as E
from storage.memory_disk import Crash, MemoryDisk
from tests.harness.transactions import V1, V2, Producer, TransactionBroker


def in_transaction(broker: TransactionBroker, *partitions: int) -> Producer:
    """Return a producer with a record in each partition of its open transaction."""
    producer = broker.init()
    assert broker.add(producer, *partitions) is E.NONE
    for partition in partitions:
        assert broker.produce(producer, b"v", partition) is E.NONE
    return producer


@pytest.mark.parametrize("commits", [True, False])
def test_a_reader_of_committed_records_sees_all_or_nothing(commits: bool) -> None:
    """A read_committed reader sees none of an open transaction, and then all or none of it."""
    broker = TransactionBroker()
    producer = in_transaction(broker, 0, 1)
    assert broker.committed_values(0) == broker.committed_values(1) == []
    assert broker.end(producer, commits=commits).error_code == E.NONE
    assert broker.committed_values(0) == broker.committed_values(1) == ([b"v"] if commits else [])
    assert broker.state().state is (S.COMPLETE_COMMIT if commits else S.COMPLETE_ABORT)


def test_transactions_v2_add_partitions_with_their_records() -> None:
    """Produce 12 needs no AddPartitionsToTxn, and each EndTxn returns a new epoch."""
    broker = TransactionBroker()
    producer = broker.init()
    for epoch in range(3):
        assert producer[1] == epoch
        assert broker.produce(producer, b"%d" % epoch, version=12) is E.NONE
        ended = broker.end(producer, version=V2)
        assert ended.error_code == E.NONE
        producer = ended.producer_id, ended.producer_epoch
    assert broker.committed_values() == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("version", "error"), [(9, E.INVALID_TXN_STATE), (11, E.TRANSACTION_ABORTABLE)]
)
def test_records_of_a_partition_that_was_not_added_are_refused(version: int, error: E) -> None:
    """Records of a partition that was not added are refused (KIP-890).

    Such records would open a transaction that no client ends.
    """
    broker = TransactionBroker()
    producer = broker.init()
    broker.add(producer, 1)
    assert broker.produce(producer, b"v", 0, version=version) is error
    assert broker.committed_values(0) == []
    assert broker.topics.log("t", 0).log_end_offset == 0


def test_verification_can_be_switched_off() -> None:
    """With `transaction.partition.verification.enable=false` records need no added partition."""
    broker = TransactionBroker(transaction_partition_verification_enable="false")
    assert broker.produce(broker.init(), b"v") is E.NONE


@pytest.mark.parametrize("version", [11, 12])
def test_records_that_come_after_the_end_are_refused(version: int) -> None:
    """Records after the end of a transaction are refused, by epoch or by partition."""
    broker = TransactionBroker()
    producer = broker.init()
    broker.produce(producer, b"in time", version=12)
    broker.end(producer, version=V2)
    assert broker.produce(producer, b"late", sequence=1, version=version) is (
        E.INVALID_PRODUCER_EPOCH
    )
    assert broker.committed_values() == [b"in time"]


def test_a_new_producer_fences_the_old_one() -> None:
    """Before a new producer starts, the open transaction of the old producer is aborted."""
    broker = TransactionBroker()
    old = in_transaction(broker, 0)
    new = broker.init()
    assert new[1] > old[1]
    assert broker.committed_values() == []
    assert broker.produce(old, b"zombie", sequence=1) is E.INVALID_PRODUCER_EPOCH
    assert broker.end(old).error_code == E.PRODUCER_FENCED
    assert broker.add(old, 0) is E.PRODUCER_FENCED


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    """A transaction is aborted at the first check after its timeout; the producer is fenced."""
    broker = TransactionBroker()
    producer = in_transaction(broker, 0)
    broker.advance(60_000)
    assert broker.state().state is S.ONGOING
    broker.advance(10_000)
    assert broker.state().state is S.COMPLETE_ABORT
    assert broker.committed_values() == []
    assert broker.end(producer).error_code == E.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("timeout_ms", "error"),
    [
        (0, E.INVALID_TRANSACTION_TIMEOUT),
        (-1, E.INVALID_TRANSACTION_TIMEOUT),
        (1001, E.INVALID_TRANSACTION_TIMEOUT),
        (1000, E.NONE),
    ],
)
def test_the_timeout_has_limits(timeout_ms: int, error: E) -> None:
    """A transaction timeout must be positive and at most `transaction.max.timeout.ms`."""
    broker = TransactionBroker(transaction_max_timeout_ms="1000")
    request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=timeout_ms)
    assert broker.ask(request).error_code == error


def test_an_unused_id_is_forgotten() -> None:
    """An unused transactional id expires after `transactional.id.expiration.ms`.

    Its record is removed from the log.
    """
    broker = TransactionBroker(
        transactional_id_expiration_ms="5000",
        transaction_remove_expired_transaction_cleanup_interval_ms="1000",
    )
    broker.init()
    broker.advance(4_900)
    broker.init("younger")
    broker.advance(1_000)
    assert set(broker.transactions.ids) == {"younger"}
    assert set(restarted(broker).transactions.ids) == {"younger"}


def restarted(broker: TransactionBroker, power: Random | None = None) -> TransactionBroker:
    """Return the broker after a kill or a power cut, with everything loaded."""
    if power is None:
        broker.disk.processes_died()
    else:
        broker.disk.power_cut(power)
    return TransactionBroker(broker.disk)


@pytest.mark.parametrize("version", [V1, V2])
def test_an_open_transaction_survives_a_kill(version: int) -> None:
    """An open transaction survives a kill and is ended with all of its records."""
    broker = TransactionBroker()
    producer = in_transaction(broker, 0)
    before = broker.state()
    broker = restarted(broker)
    assert broker.state() == before._replace(last_producer_epoch=-1)
    assert broker.produce(producer, b"more", sequence=1) is E.NONE
    assert broker.end(producer, version=version).error_code == E.NONE
    assert broker.committed_values() == [b"v", b"more"]


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_crash_anywhere_in_an_end_is_finished_after_the_restart(
    version: int, torn: bool, commits: bool, seed: int | None
) -> None:
    """A crash at any disk operation of an end leaves the same outcome in all partitions.

    An acknowledged end has the requested outcome. With a sync of every record this holds after a
    power cut too; `seed` selects the surviving unsynced data.
    """
    points = 0
    settings = {} if seed is None else {"log_flush_interval_messages": "1"}
    while True:
        disk = MemoryDisk()
        broker = TransactionBroker(disk, **settings)
        producer = in_transaction(broker, 0, 1, 2)
        disk.crash_at(points, torn=torn)
        answered = None
        with suppress(Crash):
            answered = broker.end(producer, commits=commits, version=version)
        survived = disk.fault_is_pending
        broker = restarted(broker, None if seed is None else Random(seed))
        broker.init()  # this request ends any open transaction
        seen = [broker.committed_values(partition) for partition in (0, 1, 2)]
        assert seen in ([[b"v"]] * 3, [[]] * 3), points
        if answered is not None:
            assert seen == [[b"v"] if commits else []] * 3
        assert not any(broker.topics.log("t", index).producers.transactions for index in range(3))
        if survived:
            break
        points += 1
    assert points >= 5  # the crash points are the decision, three markers and the end


def test_a_marker_that_cannot_be_written_is_tried_again() -> None:
    """A marker that cannot be written is retried; EndTxn is answered after the last marker."""
    broker = TransactionBroker()
    producer = in_transaction(broker, 0, 1)
    broker.disk.fail_at(1)  # the decision is written, the first marker fails
    assert broker.end(producer) is None
    assert broker.state().state is S.PREPARE_COMMIT
    assert broker.add(producer, 0) is E.CONCURRENT_TRANSACTIONS
    broker.advance(200)
    assert broker.state().state is S.COMPLETE_COMMIT
    assert broker.committed_values(0) == broker.committed_values(1) == [b"v"]


def test_an_end_that_moves_is_finished_by_the_next_coordinator() -> None:
    """When the coordinator moves during an end, EndTxn gets NOT_COORDINATOR; a retry succeeds."""
    broker = TransactionBroker()
    producer = in_transaction(broker, 0, 1)
    request = EndTxnRequest(
        transactional_id="id", producer_id=producer[0], producer_epoch=producer[1], committed=True
    )
    broker.disk.fail_at(1)  # the decision is written, the first marker fails
    call = broker.send(request, V1)
    broker.turn()
    assert not call.replies
    partition = broker.shared.transactions_topic.partition_of("id")
    broker.transactions.emigrate(partition.index)
    assert call.replies[0].error_code == E.NOT_COORDINATOR
    broker.advance(200)
    assert broker.committed_values(0) == []
    broker.transactions.immigrate(partition)
    broker.turn()
    assert broker.committed_values(0) == broker.committed_values(1) == [b"v"]
    assert broker.end(producer).error_code == E.NONE


def test_an_ending_transaction_is_described_with_what_has_no_marker() -> None:
    """DescribeTransactions omits the partitions that have their marker, as in Kafka."""
    broker = TransactionBroker()
    producer = in_transaction(broker, 0, 1)
    assert described(broker) == ("Ongoing", [0, 1])
    broker.disk.fail_at(1)  # the decision is written, the first partition's marker fails
    assert broker.end(producer) is None
    assert described(broker) == ("PrepareCommit", [0])
    broker.advance(200)
    assert described(broker) == ("CompleteCommit", [])


def described(broker: TransactionBroker) -> tuple[str, list[int]]:
    """Return state and partitions in DescribeTransactions."""
    request = DescribeTransactionsRequest(transactional_ids=["id"])
    (state,) = broker.ask(request).transaction_states
    return state.transaction_state, [one for topic in state.topics for one in topic.partitions]


def test_a_partition_that_is_deleted_needs_no_marker() -> None:
    """A transaction ends without a marker in a deleted partition."""
    broker = TransactionBroker()
    topic = broker.topics.topic("t")
    assert topic is not None
    producer = in_transaction(broker, 0)
    for _ in broker.topics.delete([topic]):
        pass
    assert broker.end(producer).error_code == E.NONE


def test_without_the_transactions_topic_nothing_is_known_any_more() -> None:
    """Deleting the transactions topic drops all transactional ids; epochs start from 0 again."""
    broker = TransactionBroker()
    broker.init()
    topic = broker.topics.topic(TRANSACTIONS_TOPIC)
    assert topic is not None
    for _ in broker.topics.delete([topic]):
        pass
    assert not broker.transactions.ids
    assert broker.init()[1] == 0


def test_the_previous_epoch_ends_a_completed_transaction_again() -> None:
    """EndTxn 5 with the epoch before InitProducerId counts as a repetition, as in Kafka 4.4.0."""
    broker = TransactionBroker()
    superseded = broker.init()
    producer = broker.init()
    assert producer == (superseded[0], superseded[1] + 1)
    assert broker.add(producer, 0) is E.NONE
    assert broker.end(producer).error_code == E.NONE
    repeated = broker.end(superseded, version=V2)
    assert repeated.error_code == E.NONE
    assert (repeated.producer_id, repeated.producer_epoch) == producer
    assert broker.end(superseded).error_code == E.PRODUCER_FENCED
