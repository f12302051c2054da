"""A partition without file permissions fails alone, and works once they are restored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from protocol.apis.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch
from protocol.errors import ErrorCode
from tests.faults.client import Client
from tests.support import Serve, wait_for

UNPRIVILEGED = (
    *(sys.executable, "-m", "tests.faults.unprivileged"),
    *(sys.executable, "-m", "coordinator_server"),
)
ADVICE = "give the broker's user the right to write there"
SETTINGS = {"offsets.topic.num.partitions": "50", "log.cleaner.backoff.ms": "200"}


@contextmanager
def modes_of(path: Path, mode: int) -> Iterator[None]:
    """Change the permissions of a directory during the block."""
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)


def broker_on(data: Path) -> Serve:
    """Return a broker that is subject to permissions, even if the tests run as root."""
    settings = [word for pair in SETTINGS.items() for word in ("--set", "=".join(pair))]
    return Serve("--data-dir", str(data), *settings, command=UNPRIVILEGED)


def create(client: Client) -> None:
    """Create topic "t" with two partitions whose segments hold only a few records."""
    configs = [CreatableTopicConfig(name="internal.segment.bytes", value="1000")]
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1, configs=configs)
    answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
    assert [one.error_code for one in answer.topics] == [0]


def produce(client: Client, partition: int) -> int:
    """Produce a record that needs a new segment, and return the error."""
    records = build_batch([Record(0, 1, b"k", bytes(700))]).to_bytes()
    data = PartitionProduceData(index=partition, records=records)
    topic = TopicProduceData(name="t", partition_data=[data])
    answer: Any = client.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic]), 9)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def commit(client: Client, group: str) -> int:
    """Commit an offset for a group without members, and return the error."""
    one = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="t", partitions=[one])
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=[topic])
    code: int = client.ask(request, 8).topics[0].partitions[0].error_code
    return code


def test_a_partition_that_may_not_be_written_fails_alone(tmp_path: Path) -> None:
    """A partition without write permission gives KAFKA_STORAGE_ERROR until it is writable again."""
    data = tmp_path / "data"
    with broker_on(data) as broker:
        client = Client(broker.address)
        create(client)
        assert [produce(client, partition) for partition in (0, 1)] == [0, 0]
        with modes_of(data / "t-0", 0o500):
            assert produce(client, 0) == ErrorCode.KAFKA_STORAGE_ERROR
            assert produce(client, 1) == 0
            wait_for(lambda: broker.log_lines("log.failed", "t-0", ADVICE), "advice in the log")
        assert [produce(client, partition) for partition in (0, 1)] == [0, 0]
        client.close()
        assert not broker.log_lines("t-1 cannot")
        assert broker.stop() == 0
    assert len(list((data / "t-0").glob("*.log"))) == 2
    assert len(list((data / "t-1").glob("*.log"))) == 3


def test_a_group_whose_partition_cannot_be_made_is_told_to_try_again(tmp_path: Path) -> None:
    """A group whose offsets partition cannot be created gets NOT_COORDINATOR; others continue."""
    data = tmp_path / "data"
    with broker_on(data) as broker:
        client = Client(broker.address)
        create(client)
        wait_for(lambda: commit(client, "first") == 0, "a first commit")
        with modes_of(data, 0o500):
            assert commit(client, "another") == ErrorCode.NOT_COORDINATOR
            assert commit(client, "first") == 0
            wait_for(lambda: broker.log_lines("log.failed", "__consumer_offsets", ADVICE), "advice")
        wait_for(lambda: commit(client, "another") == 0, "the other group goes on")
        client.close()
        assert broker.stop() == 0


def test_a_data_directory_that_may_not_be_read_ends_the_start(tmp_path: Path) -> None:
    """An unreadable data directory ends the start with one line and exit code 1."""
    data = tmp_path / "data"
    with broker_on(data) as broker:
        assert broker.stop() == 0
    with modes_of(data, 0):
        refused = broker_on(data)
        assert refused.run() == 1
        assert refused.output == ""
        assert refused.log.count("\n") == 1
        assert str(data) in refused.log
        assert "Permission denied" in refused.log
    with broker_on(data) as broker:
        assert broker.stop() == 0
