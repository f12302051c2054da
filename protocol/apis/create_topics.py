"""CreateTopics (key 19): creates topics. Versions 2-7.

From version 4 on, -1 is the broker's default for partitions and replicas (KIP-464). Version 5 is
flexible and returns the topic's configs (KIP-525). Version 6 may be throttled (KIP-599). Version 7
returns the topic id.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, STRING, UUID, Message, field


class CreatableReplicaAssignment(Message):
    """Manually assigned replicas of one partition."""

    partition_index: int = field(INT32)
    broker_ids: list[int] = field(ARRAY(INT32))


class CreatableTopicConfig(Message):
    """One setting of the new topic."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable_since=0)


class CreatableTopic(Message):
    """One topic to create."""

    name: str = field(STRING)
    num_partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    assignments: list[CreatableReplicaAssignment] = field(ARRAY(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(ARRAY(CreatableTopicConfig))


class CreateTopicsRequest(Message, versions=(2, 7), flexible_since=5):
    """The topics to create, or only to validate if `validate_only`."""

    topics: list[CreatableTopic] = field(ARRAY(CreatableTopic))
    timeout_ms: int = field(INT32, default=60000)
    validate_only: bool = field(BOOL)


class CreatableTopicConfigs(Message):
    """One effective config of the new topic."""

    name: str = field(STRING, since=5)
    value: str | None = field(STRING, since=5, nullable_since=5)
    read_only: bool = field(BOOL, since=5)
    config_source: int = field(INT8, since=5, default=-1)
    is_sensitive: bool = field(BOOL, since=5)


class CreatableTopicResult(Message):
    """One topic's result; unknown counts are -1."""

    name: str = field(STRING)
    topic_id: bytes = field(UUID, since=7)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    topic_config_error_code: int = field(INT16, since=5, tag=0)
    num_partitions: int = field(INT32, since=5, default=-1)
    replication_factor: int = field(INT16, since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(
        ARRAY(CreatableTopicConfigs), since=5, nullable_since=5
    )


class CreateTopicsResponse(Message, versions=(2, 7), flexible_since=5):
    """One result per topic."""

    throttle_time_ms: int = field(INT32)
    topics: list[CreatableTopicResult] = field(ARRAY(CreatableTopicResult))
