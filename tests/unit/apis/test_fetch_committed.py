"""Waiting read_committed fetches: markers wake them, records of open transactions do not."""

from __future__ import annotations

import pytest

from coordinator_server.topics.topic import Partition
from protocol.apis.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from protocol.control_record import EndTransaction
from tests.harness.broker import MemoryBroker
from tests.harness.client import SentRequest
from tests.harness.clock import START_MS
from tests.harness.records import batch

COMMITTED = 1
MIB = 1 << 20
BIG = b"x" * 2000


class Stage:
    """A broker with a topic of one partition and transactional producers."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.broker.topics.create("t", 1, {})
        partition = self.broker.topics.partition("t", 0)
        assert partition is not None
        self.partition: Partition = partition
        self._sequences: dict[int, int] = {}

    def send(self, producer_id: int, value: bytes = b"v") -> int:
        """Append a record of a producer's transaction; return the size of its batch."""
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + 1
        data = batch(
            value,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        self.partition.append(data, START_MS)
        self.broker.turn()
        return len(data)

    def end(self, producer_id: int, *, commits: bool = True) -> None:
        """Append the marker of a producer's transaction."""
        self.partition.end_transaction(EndTransaction(producer_id, 0, commits, 0, 1), START_MS)
        self.broker.turn()

    def park(self, offset: int, *, min_bytes: int = 1) -> SentRequest:
        """Send a read_committed fetch that has to wait; return its call."""
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=min_bytes,
            isolation_level=COMMITTED,
            topics=[FetchTopic(topic="t", partitions=[asked])],
        )
        call = self.broker.send(request, 12)
        assert call.replies == []
        return call


def answered(call: SentRequest) -> PartitionData:
    """Return the partition of the fetch response."""
    (response,) = call.replies
    found: PartitionData = response.responses[0].partitions[0]
    return found


@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_wakes_readers_of_committed_records(commits: bool) -> None:
    """A marker wakes read_committed fetches; records of an open transaction do not.

    Aborted records are returned together with their aborted transaction.
    """
    stage = Stage()
    stage.send(1)
    call = stage.park(0)
    stage.send(1)
    stage.end(2)  # producer 2 had no open transaction in this partition
    assert call.replies == []
    stage.end(1, commits=commits)
    found = answered(call)
    assert found.last_stable_offset == found.high_watermark == 4
    aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]
    assert aborted == ([] if commits else [(1, 0)])


def test_a_batch_that_exceeds_the_limit_has_no_list_of_aborted_transactions() -> None:
    """The list of aborted transactions is null if a limit cuts the first batch.

    The list is empty if nothing can be read.
    """
    broker = MemoryBroker()
    broker.topics.create("t", 2, {})
    data = batch(b"v")
    for index in (0, 1):
        partition = broker.topics.partition("t", index)
        assert partition is not None
        partition.append(data, START_MS)

    def second_list(limit: int, max_bytes: int = MIB) -> list[AbortedTransaction] | None:
        asked = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=size)
            for index, size in enumerate((MIB, limit))
        ]
        topics = [FetchTopic(topic="t", partitions=asked)]
        request = FetchRequest(isolation_level=COMMITTED, max_bytes=max_bytes, topics=topics)
        (response,) = broker.send(request, 12).replies
        first, second = response.responses[0].partitions
        assert first.aborted_transactions == []
        found: list[AbortedTransaction] | None = second.aborted_transactions
        return found

    assert second_list(len(data)) == []
    assert second_list(len(data) - 1) is None
    assert second_list(-1) is None
    assert second_list(0) == []
    assert second_list(MIB, max_bytes=len(data) + 1) is None
    assert second_list(MIB, max_bytes=len(data)) == []


def test_the_end_of_a_younger_transaction_wakes_nobody() -> None:
    """The last stable offset is the start of the oldest open transaction.

    Ending a younger transaction wakes no fetch; ending the oldest transaction makes the records of
    both readable.
    """
    stage = Stage()
    stage.send(1)
    stage.send(2)
    call = stage.park(0)
    stage.end(2)
    assert call.replies == []
    stage.end(1, commits=False)
    assert answered(call).last_stable_offset == 4


def test_min_bytes_counts_what_a_marker_makes_readable() -> None:
    """Records from before the wait count towards min_bytes once a marker makes them readable."""
    stage = Stage()
    stage.send(1, BIG)
    call = stage.park(0, min_bytes=1000)
    stage.end(1)
    assert len(answered(call).records or b"") > len(BIG)


def test_min_bytes_does_not_count_what_stays_unreadable() -> None:
    """Data that stays above the last stable offset does not count towards min_bytes."""
    stage = Stage()
    size = stage.send(1)
    call = stage.park(0, min_bytes=1000)
    stage.send(2, BIG)
    stage.end(1)
    assert call.replies == []
    stage.broker.advance(500)
    assert len(answered(call).records or b"") == size
    call = stage.park(1, min_bytes=1000)
    stage.end(2)
    assert len(answered(call).records or b"") > len(BIG)


def test_bytes_below_an_offset_reach_over_segments() -> None:
    """`bytes_below` counts whole older segments and the part of a segment below the offset."""
    stage = Stage()
    stage.send(1, BIG)
    log = stage.partition.log
    log.roll(START_MS)
    stage.send(1, BIG)
    size = log.size_bytes // 2
    assert [log.bytes_below(offset) for offset in range(4)] == [0, size, 2 * size, 2 * size]
