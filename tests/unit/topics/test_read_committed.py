"""Fetch and ListOffsets with read_committed (KIP-98).

Responses end at the last stable offset and list the aborted transactions.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.topics.topic import Partition
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.batch_header import iterate_batches
from tests.harness.broker import MemoryBroker
from tests.harness.client import SentRequest
from tests.harness.clock import START_MS
from tests.harness.records import batch
from tests.unit.storage.support import marker, own


@pytest.fixture
def broker() -> MemoryBroker:
    """Return a broker with topic "t", whose log has plain and transactional records.

    Producer 1 writes 0 and 3 (aborted at 4), 6 (aborted at 7) and 10 (aborted at 11). Producer 2
    writes 1 (committed at 2), and producer 3 writes 8 (open). Offsets 5 and 9 are plain records.
    """
    made = MemoryBroker()
    made.topics.create("t", 1, {"internal.segment.bytes": "200"})
    for step in ("1", "2", "commit 2", "1", "abort 1", "", "1", "abort 1", "3", "", "1", "abort 1"):
        take(made, step)
    return made


def partition(made: MemoryBroker) -> Partition:
    """Return the only partition."""
    there = made.topics.partition("t", 0)
    assert there is not None
    return there


def take(made: MemoryBroker, step: str) -> None:
    """Append a producer's record ("" for a plain one) or a marker, and wake waiting fetches."""
    there = partition(made)
    if step.startswith(("abort", "commit")):
        verb, producer_id = step.split()
        there.append_own(marker(int(producer_id), 0, commit=verb == "commit"), START_MS)
    else:
        fields: dict[str, Any] = {}
        if step:
            fields = {"producer_id": int(step), "producer_epoch": 0, "transactional": True}
        at = START_MS + there.log.log_end_offset
        there.append_own(own(batch(b"x", times_ms=[at], **fields)), START_MS)
    made.turn()


def request(offset: int, isolation_level: int, **fields: Any) -> FetchRequest:
    """Return a fetch of the topic from an offset on."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[asked])]
    return FetchRequest(topics=topics, isolation_level=isolation_level, **fields)


def read(made: MemoryBroker, offset: int, isolation_level: int = 1, version: int = 12) -> Any:
    """Return the response for one partition."""
    response = made.ask(request(offset, isolation_level), version)
    return response.responses[0].partitions[0]


def aborted(answer: Any) -> list[tuple[int, int]]:
    """Return producer ids and first offsets."""
    return [(one.producer_id, one.first_offset) for one in answer.aborted_transactions]


@pytest.mark.parametrize("version", [4, 11, 12])
def test_aborted_transactions_are_those_of_what_is_read(broker: MemoryBroker, version: int) -> None:
    """Aborted transactions are listed in the order of their markers, per segment.

    Transactions after the returned records are not listed.
    """
    offset = 0
    seen: list[tuple[int, int]] = []
    while offset < 8:
        answer = read(broker, offset, version=version)
        assert answer.last_stable_offset == 8
        headers = list(iterate_batches(answer.records))
        for _, first_offset in aborted(answer):
            assert first_offset <= headers[-1].last_offset
        seen += [one for one in aborted(answer) if one not in seen]
        offset = headers[-1].next_offset
    assert offset == 8
    assert seen == [(1, 0), (1, 6)]
    assert aborted(read(broker, 6)) == [(1, 6)]
    assert aborted(read(broker, 3))[0] == (1, 0)


def test_nothing_from_the_last_stable_offset_on(broker: MemoryBroker) -> None:
    """A read_committed fetch gets no records at or above the last stable offset.

    A read_uncommitted fetch gets these records, without a list of aborted transactions.
    """
    answer = read(broker, 8)
    assert (answer.records, aborted(answer), answer.high_watermark) == (b"", [], 12)
    answer = read(broker, 8, isolation_level=0)
    assert answer.records
    assert answer.aborted_transactions is None


def parked(made: MemoryBroker, offset: int) -> SentRequest:
    """Send a fetch that waits; return its call."""
    waits = request(offset, 1, max_wait_ms=500, min_bytes=1)
    call = made.send(waits, 12)
    assert call.replies == []
    return call


def test_a_waiting_reader_is_answered_by_the_marker(broker: MemoryBroker) -> None:
    """A delayed fetch at an open transaction is completed by the marker, not by other records.

    The response lists the transactions that were aborted during the wait.
    """
    call = parked(broker, 8)
    take(broker, "")
    assert call.replies == []
    take(broker, "abort 3")
    (response,) = call.replies
    answer = response.responses[0].partitions[0]
    assert answer.last_stable_offset == 14
    assert aborted(answer)[-1] == (3, 8)


@pytest.mark.parametrize(
    ("timestamp", "uncommitted", "committed"),
    [
        (-1, 12, 8),
        (-2, 0, 0),
        (-3, 10, -1),
        (START_MS + 5, 5, 5),
        (START_MS + 9, 9, -1),
    ],
)
def test_offsets_of_committed_records(
    broker: MemoryBroker, timestamp: int, uncommitted: int, committed: int
) -> None:
    """With read_committed, ListOffsets finds no offset at or above the last stable offset."""
    for isolation_level, expected in ((0, uncommitted), (1, committed)):
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        question = ListOffsetsRequest(
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name="t", partitions=[asked])],
        )
        response = broker.ask(question, 10)
        assert response.topics[0].partitions[0].offset == expected
