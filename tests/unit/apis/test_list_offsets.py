"""ListOffsets. The log, the requests and the responses were recorded from Kafka."""

from __future__ import annotations

import pytest

from protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.errors import ErrorCode
from tests.harness.broker import MemoryBroker
from tests.harness.records import batch

UNSUPPORTED = (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)
NOTHING = (0, -1, -1, -1)


@pytest.fixture(scope="module")
def broker() -> MemoryBroker:
    """Return a broker with topic "l1" (seven records in four batches) and the empty topic "l0"."""
    made = MemoryBroker()
    topic = made.topics.create("l1", 2, {})
    made.topics.create("l0", 1, {})
    for values, times_ms in (
        ((b"a", b"b", b"c"), (100, 300, 200)),
        ((b"d", b"e"), (50, 300)),
        ((b"f",), (400,)),
        ((b"g",), (150,)),
    ):
        topic.partitions[0].append(batch(*values, times_ms=times_ms), 500)
    return made


def look_up(
    broker: MemoryBroker,
    topic: str,
    timestamp: int,
    *,
    version: int = 10,
    partition: int = 0,
    epoch: int = -1,
    isolation_level: int = 0,
    replica_id: int = -1,
) -> tuple[int, int, int, int]:
    """Return error code, timestamp, offset and leader epoch of one partition."""
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=partition,
                        current_leader_epoch=epoch,
                        timestamp=timestamp,
                    )
                ],
            )
        ],
    )
    response = broker.ask(request, version)
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [
        (-2, (0, -1, 0, 0)),
        (-1, (0, -1, 7, 0)),
        (-3, (0, 400, 5, 0)),
        (-4, (0, -1, 0, 0)),
        (-5, NOTHING),
        (-6, UNSUPPORTED),
        (-7, UNSUPPORTED),
        (0, (0, 100, 0, 0)),
        (50, (0, 100, 0, 0)),
        (100, (0, 100, 0, 0)),
        (101, (0, 300, 1, 0)),
        (200, (0, 300, 1, 0)),
        (300, (0, 300, 1, 0)),
        (301, (0, 400, 5, 0)),
        (400, (0, 400, 5, 0)),
        (401, NOTHING),
    ],
)
def test_offsets_by_time(
    broker: MemoryBroker, timestamp: int, answer: tuple[int, int, int, int]
) -> None:
    """ListOffsets of a time finds the first record at or after this time.

    Special times find the ends of the log.
    """
    assert look_up(broker, "l1", timestamp) == answer


@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [(-2, (0, -1, 0, 0)), (-1, (0, -1, 0, 0)), (-3, NOTHING), (-4, (0, -1, 0, 0)), (0, NOTHING)],
)
def test_offsets_of_an_empty_log(
    broker: MemoryBroker, timestamp: int, answer: tuple[int, int, int, int]
) -> None:
    """An empty log has a start and an end, but no record at any time."""
    assert look_up(broker, "l0", timestamp) == answer


@pytest.mark.parametrize("version", range(1, 12))
def test_special_times_by_version(broker: MemoryBroker, version: int) -> None:
    """The timestamp -3 needs version 7, -4 version 8, -5 version 9 and -6 version 11.

    Older versions get UNSUPPORTED_VERSION.
    """
    epoch = 0 if version >= 4 else -1
    assert look_up(broker, "l1", -1, version=version) == (0, -1, 7, epoch)
    assert look_up(broker, "l1", 101, version=version) == (0, 300, 1, epoch)
    for timestamp, since in ((-3, 7), (-4, 8), (-5, 9), (-6, 11)):
        answer = look_up(broker, "l1", timestamp, version=version)
        assert (answer == UNSUPPORTED) == (version < since)


def test_read_committed(broker: MemoryBroker) -> None:
    """Without open transactions read_committed sees the whole log."""
    assert look_up(broker, "l1", -1, isolation_level=1) == (0, -1, 7, 0)
    assert look_up(broker, "l1", -3, isolation_level=1) == (0, 400, 5, 0)


def test_unknown_partitions(broker: MemoryBroker) -> None:
    """ListOffsets of nonexistent partitions gets UNKNOWN_TOPIC_OR_PARTITION."""
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)
    assert look_up(broker, "missing", -1) == unknown
    assert look_up(broker, "l1", -1, partition=7) == unknown
    assert look_up(broker, "l1", -1, partition=-1) == unknown


def test_leader_epochs(broker: MemoryBroker) -> None:
    """A future leader epoch gets UNKNOWN_LEADER_EPOCH, an old one FENCED_LEADER_EPOCH."""
    assert look_up(broker, "l1", -1, epoch=5)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert look_up(broker, "l1", -1, epoch=0)[0] == 0
    assert look_up(broker, "l1", -1, epoch=-2)[0] == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("replica_id", [1, 5, -2])
def test_replica_ids_do_not_matter(broker: MemoryBroker, replica_id: int) -> None:
    """Every replica id gets the same offsets."""
    assert look_up(broker, "l1", -1, replica_id=replica_id) == (0, -1, 7, 0)


@pytest.mark.parametrize("in_one_topic", [True, False])
def test_a_partition_that_stands_twice_is_refused(broker: MemoryBroker, in_one_topic: bool) -> None:
    """A partition named twice gets one INVALID_REQUEST; other partitions are answered."""
    twice, other = (ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(2))
    topics = [ListOffsetsTopic(name="l1", partitions=[twice, other])]
    if in_one_topic:
        topics[0].partitions.append(twice)
    else:
        topics.append(ListOffsetsTopic(name="l1", partitions=[twice]))
    request = ListOffsetsRequest(replica_id=-1, topics=topics)
    response = broker.ask(request, 10)
    assert [
        (topic.name, [(one.partition_index, one.error_code) for one in topic.partitions])
        for topic in response.topics
    ] == [("l1", [(0, ErrorCode.INVALID_REQUEST), (1, 0)])]
