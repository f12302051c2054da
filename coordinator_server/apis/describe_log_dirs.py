"""DescribeLogDirs: the size of partitions, and of the volume that the data directory is on."""

from __future__ import annotations

from collections.abc import Iterable
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
    from coordinator_server.topics.manager import Partition


def handle(broker: Broker, call: Call, request: DescribeLogDirsRequest) -> None:
    """Answer for the one data directory; what does not exist is left out."""
    wanted: dict[str, Iterable[int]] = {}
    if request.topics is None:
        for every in broker.topics.all_topics():
            wanted[every.name] = range(len(every.partitions))
    else:
        for named in request.topics:
            wanted[named.topic] = named.partitions
    topics = []
    for name, indexes in wanted.items():
        partitions = [
            described
            for partition in (broker.topics.partition(name, index) for index in indexes)
            if partition is not None and (described := _described(partition)) is not None
        ]
        if partitions:
            topics.append(DescribeLogDirsTopic(name=name, partitions=partitions))
    path, total_bytes, usable_bytes = broker.topics.volume()
    result = DescribeLogDirsResult(
        log_dir=path, topics=topics, total_bytes=total_bytes, usable_bytes=usable_bytes
    )
    call.reply(DescribeLogDirsResponse(results=[result]))


def _described(partition: Partition) -> DescribeLogDirsPartition | None:
    try:
        size_bytes = partition.log.size_bytes
    except StorageError:
        return None
    return DescribeLogDirsPartition(partition_index=partition.index, partition_size=size_bytes)
