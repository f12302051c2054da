"""AlterReplicaLogDirs: accept moves to the only log directory, refuse all others (KIP-113).

Source: Kafka's ReplicaManager.alterReplicaLogDirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.topics.counts import ShardedDict
from protocol.apis.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps


def handle(broker: Broker, call: Call, request: AlterReplicaLogDirsRequest) -> Steps:
    """Respond with one result per partition."""
    own_path, _, _ = broker.topics.volume()

    def error_of(path: str, name: str, index: int) -> ErrorCode:
        return _error(broker, name, index) if path == own_path else ErrorCode.LOG_DIR_NOT_FOUND

    call.reply((yield from _response(request, error_of)))


def _response(
    request: AlterReplicaLogDirsRequest, error_of: Callable[[str, str, int], ErrorCode]
) -> Generator[None, None, AlterReplicaLogDirsResponse]:
    """Return the response; `error_of` gets directory, topic and partition.

    If a partition is named twice, the last directory counts.
    """
    response = AlterReplicaLogDirsResponse()
    topics: ShardedDict[str, AlterReplicaLogDirTopicResult] = ShardedDict()
    results: ShardedDict[tuple[str, int], AlterReplicaLogDirPartitionResult] = ShardedDict()
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                new_topic = AlterReplicaLogDirTopicResult(topic_name=topic.name)
                answered = topics.setdefault(topic.name, new_topic)
                if answered is new_topic:
                    response.results.append(answered)
                new = AlterReplicaLogDirPartitionResult(partition_index=index)
                result = results.setdefault((topic.name, index), new)
                if result is new:
                    answered.partitions.append(result)
                result.error_code = error_of(directory.path, topic.name, index)
                yield
            yield
        yield
    yield from topics.clear()
    yield from results.clear()
    return response


def _error(broker: Broker, name: str, index: int) -> ErrorCode:
    """Return the error if this broker has no such replica, or NONE."""
    partition = broker.topics.partition(name, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.node_id not in partition.replicas:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE
