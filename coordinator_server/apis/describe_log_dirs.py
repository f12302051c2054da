"""DescribeLogDirs: the sizes of partitions and of the volume with the data directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from protocol.apis.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps
    from coordinator_server.topics.topic import Partition


def handle(broker: Broker, call: Call, request: DescribeLogDirsRequest) -> Steps:
    """Respond for the single data directory; partitions that do not exist are left out."""
    topics: list[DescribeLogDirsTopic] = []
    for name, indexes in _wanted(broker, request):
        yield
        topic = broker.topics.topic(name)
        if topic is None:
            continue
        partitions: list[DescribeLogDirsPartition] = []
        for index in indexes:
            if 0 <= index < len(topic.partitions) and (
                broker.node_id in topic.partitions[index].replicas
            ):
                described = _described(topic.partitions[index])
                if described is not None:
                    partitions.append(described)
            yield
        if partitions:
            topics.append(DescribeLogDirsTopic(name=name, partitions=partitions))
    path, total_bytes, usable_bytes = broker.topics.volume()
    result = DescribeLogDirsResult(
        log_dir=path, topics=topics, total_bytes=total_bytes, usable_bytes=usable_bytes
    )
    call.reply(DescribeLogDirsResponse(results=[result]))


def _wanted(broker: Broker, request: DescribeLogDirsRequest) -> Iterator[tuple[str, Iterable[int]]]:
    """Yield each requested topic name with its partition indexes."""
    if request.topics is None:
        for topic in broker.topics.listed_topics():
            yield topic.name, range(len(topic.partitions))
    else:
        for named in request.topics:
            yield named.topic, named.partitions


def _described(partition: Partition) -> DescribeLogDirsPartition | None:
    try:
        size_bytes = partition.log.size_bytes
    except StorageError:
        return None
    return DescribeLogDirsPartition(partition_index=partition.index, partition_size=size_bytes)
