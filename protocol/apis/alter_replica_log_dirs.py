"""AlterReplicaLogDirs (key 34): moves replicas between log directories (KIP-113). Versions 1-2.

Version 2 is flexible.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT16, INT32, STRING, Message, field


class AlterReplicaLogDirTopic(Message):
    """One topic's partitions."""

    name: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))

    @property
    def topic_name(self) -> str:
        """The topic name, under the field name of the response."""
        return self.name


class AlterReplicaLogDir(Message):
    """One log directory and the partitions to move into it."""

    path: str = field(STRING)
    topics: list[AlterReplicaLogDirTopic] = field(ARRAY(AlterReplicaLogDirTopic))


class AlterReplicaLogDirsRequest(Message, versions=(1, 2), flexible_since=2):
    """The partitions to move."""

    dirs: list[AlterReplicaLogDir] = field(ARRAY(AlterReplicaLogDir))

    @property
    def topics(self) -> list[AlterReplicaLogDirTopic]:
        """The topics of all directories; an error response has an entry for each."""
        return [topic for directory in self.dirs for topic in directory.topics]


class AlterReplicaLogDirPartitionResult(Message):
    """One partition's result."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class AlterReplicaLogDirTopicResult(Message):
    """One topic's results."""

    topic_name: str = field(STRING)
    partitions: list[AlterReplicaLogDirPartitionResult] = field(
        ARRAY(AlterReplicaLogDirPartitionResult)
    )


class AlterReplicaLogDirsResponse(Message, versions=(1, 2), flexible_since=2):
    """One result per partition."""

    throttle_time_ms: int = field(INT32)
    results: list[AlterReplicaLogDirTopicResult] = field(ARRAY(AlterReplicaLogDirTopicResult))
