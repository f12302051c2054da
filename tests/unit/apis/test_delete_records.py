"""DeleteRecords and DescribeLogDirs; the responses are those of a running Kafka."""

from __future__ import annotations

from protocol.apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.apis.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.errors import ErrorCode
from storage.memory_disk import MemoryDisk
from tests.harness.broker import DATA, MemoryBroker
from tests.harness.clock import START_MS
from tests.harness.records import batch


def broker(disk: MemoryDisk | None = None, **configs: str) -> MemoryBroker:
    """Return a broker with five records in "t"."""
    made = MemoryBroker(disk)
    made.topics.create("t", 1, {name.replace("_", "."): text for name, text in configs.items()})
    for _ in range(5):
        made.topics.log("t", 0).append(batch(b"v"), START_MS)
    return made


def delete(made: MemoryBroker, *asked: tuple[str, int, int]) -> list[tuple[str, int, int, int]]:
    """Delete (topic, partition, offset); return (topic, partition, error code, low watermark)."""
    topics = [
        DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)]
        )
        for name, index, offset in asked
    ]
    request = DeleteRecordsRequest(topics=topics, timeout_ms=1000)
    return [
        (topic.name, one.partition_index, one.error_code, one.low_watermark)
        for topic in made.ask(request, 2).topics
        for one in topic.partitions
    ]


def test_the_first_offset_moves_forward_only() -> None:
    """DeleteRecords below the log start changes nothing; -1 means the high watermark.

    An offset above the high watermark or below -1 gets OFFSET_OUT_OF_RANGE.
    """
    made = broker()
    out_of_range = ErrorCode.OFFSET_OUT_OF_RANGE
    for offset, code, low in ((2, 0, 2), (1, 0, 2), (6, out_of_range, -1), (-2, out_of_range, -1)):
        assert delete(made, ("t", 0, offset)) == [("t", 0, code, low)]
    assert delete(made, ("t", 0, -1)) == [("t", 0, 0, 5)]
    assert made.topics.log("t", 0).log_start_offset == 5


def test_what_has_no_records_to_delete() -> None:
    """DeleteRecords refuses unknown partitions, internal topics and compact-only topics."""
    made = broker(cleanup_policy="compact")
    assert delete(made, ("t", 0, 1)) == [("t", 0, ErrorCode.POLICY_VIOLATION, -1)]
    for policy in ("", "compact,delete"):
        assert delete(broker(cleanup_policy=policy), ("t", 0, 2)) == [("t", 0, ErrorCode.NONE, 2)]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(made, ("t", 1, 0), ("no", 0, 0)) == [
        ("t", 1, unknown, -1),
        ("no", 0, unknown, -1),
    ]
    made.topics.create_internal("__consumer_offsets")
    internal = ("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert delete(made, ("__consumer_offsets", 0, 0)) == [internal]
    assert delete(made) == []


def test_of_a_partition_named_twice_the_last_counts() -> None:
    """DeleteRecords answers a partition named twice once, and uses its last offset."""
    made = broker()
    assert delete(made, ("t", 0, 1), ("t", 0, 3)) == [("t", 0, 0, 3)]


def test_what_was_deleted_stays_deleted() -> None:
    """The new log start offset survives a process that dies right after the response."""
    disk = MemoryDisk()
    made = broker(disk)
    delete(made, ("t", 0, 3))
    disk.processes_died()
    assert MemoryBroker(disk).topics.log("t", 0).log_start_offset == 3


def test_a_full_disk_refuses_what_it_cannot_keep() -> None:
    """A log start offset that cannot be written is not acknowledged; a retry succeeds."""
    disk = MemoryDisk()
    made = broker(disk)
    made.topics.create("u", 1, {})
    assert delete(made, ("t", 0, 1)) == [("t", 0, 0, 1)]
    disk.fail_at(0)
    refused = [
        ("t", 0, ErrorCode.KAFKA_STORAGE_ERROR, -1),
        ("u", 0, ErrorCode.OFFSET_OUT_OF_RANGE, -1),
    ]
    assert delete(made, ("t", 0, 3), ("u", 0, 9)) == refused
    disk.disarm()
    assert delete(made, ("t", 0, 2)) == [("t", 0, 0, 3)]
    disk.processes_died()
    assert MemoryBroker(disk).topics.log("t", 0).log_start_offset == 3


def test_log_dirs_tell_sizes() -> None:
    """DescribeLogDirs returns all or the requested partitions, and omits nonexistent ones."""
    made = broker()
    size = made.topics.log("t", 0).size_bytes

    def described(topics: list[tuple[str, list[int]]] | None) -> list[tuple[str, int, int]]:
        named = None
        if topics is not None:
            named = [DescribableLogDirTopic(topic=name, partitions=p) for name, p in topics]
        request = DescribeLogDirsRequest(topics=named)
        (result,) = made.ask(request, 5).results
        assert (result.log_dir, result.is_cordoned) == (DATA, False)
        assert result.total_bytes > result.usable_bytes > 0
        return [
            (topic.name, one.partition_index, one.partition_size)
            for topic in result.topics
            for one in topic.partitions
        ]

    assert described(None) == [("t", 0, size)]
    assert described([("t", [0, 5]), ("no", [0])]) == [("t", 0, size)]
    assert described([]) == []
