"""StreamsGroupHeartbeat (key 88): a member of a streams group (KIP-1071). Versions 0-1.

Version 1 has a wider recovery lag, asks for topology descriptions (KIP-1331), and may answer
MISSING_CLIENT_TAGS.
"""

from __future__ import annotations

from protocol.schema import (
    ARRAY,
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    Message,
    field,
)


class StreamsKeyValue(Message):
    """A tag of a client, or a setting of a topic."""

    key: str = field(STRING)
    value: str = field(STRING)


class StreamsTopicInfo(Message):
    """An internal topic; no partitions or replicas are left to the broker to choose."""

    name: str = field(STRING)
    partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    topic_configs: list[StreamsKeyValue] = field(ARRAY(StreamsKeyValue))


class CopartitionGroup(Message):
    """Topics with the same number of partitions, as indexes into lists of the subtopology."""

    source_topics: list[int] = field(ARRAY(INT16))
    source_topic_regex: list[int] = field(ARRAY(INT16))
    repartition_source_topics: list[int] = field(ARRAY(INT16))


class StreamsSubtopology(Message):
    """A part of the application that is connected by topics alone to the others."""

    subtopology_id: str = field(STRING)
    source_topics: list[str] = field(ARRAY(STRING))
    source_topic_regex: list[str] = field(ARRAY(STRING))
    state_changelog_topics: list[StreamsTopicInfo] = field(ARRAY(StreamsTopicInfo))
    repartition_sink_topics: list[str] = field(ARRAY(STRING))
    repartition_source_topics: list[StreamsTopicInfo] = field(ARRAY(StreamsTopicInfo))
    copartition_groups: list[CopartitionGroup] = field(ARRAY(CopartitionGroup))


class StreamsTopology(Message):
    """What the application reads and writes."""

    epoch: int = field(INT32)
    subtopologies: list[StreamsSubtopology] = field(ARRAY(StreamsSubtopology))


class StreamsTaskIds(Message):
    """Tasks of one subtopology, which are its partitions."""

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class StreamsEndpoint(Message):
    """Where a client answers interactive queries."""

    host: str = field(STRING)
    port: int = field(UINT16)


class StreamsTaskOffset(Message):
    """How far the changelogs of a task are restored, or how far they go: a sum of offsets."""

    subtopology_id: str = field(STRING)
    partition: int = field(INT32)
    offset: int = field(INT64)


class StreamsGroupHeartbeatRequest(Message, versions=(0, 1), flexible_since=0):
    """What has changed since the last heartbeat: null, and -1 for the timeout, is unchanged.

    The member epoch is 0 to join, -1 to leave, -2 for a static member to leave for a while. The
    topology comes with epoch 0 alone.
    """

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    endpoint_information_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable_since=0, default=None)
    rack_id: str | None = field(STRING, nullable_since=0, default=None)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    topology: StreamsTopology | None = field(StreamsTopology, nullable_since=0, default=None)
    active_tasks: list[StreamsTaskIds] | None = field(
        ARRAY(StreamsTaskIds), nullable_since=0, default=None
    )
    standby_tasks: list[StreamsTaskIds] | None = field(
        ARRAY(StreamsTaskIds), nullable_since=0, default=None
    )
    warmup_tasks: list[StreamsTaskIds] | None = field(
        ARRAY(StreamsTaskIds), nullable_since=0, default=None
    )
    process_id: str | None = field(STRING, nullable_since=0, default=None)
    user_endpoint: StreamsEndpoint | None = field(StreamsEndpoint, nullable_since=0, default=None)
    client_tags: list[StreamsKeyValue] | None = field(
        ARRAY(StreamsKeyValue), nullable_since=0, default=None
    )
    task_offsets: list[StreamsTaskOffset] | None = field(
        ARRAY(StreamsTaskOffset), nullable_since=0, default=None
    )
    task_end_offsets: list[StreamsTaskOffset] | None = field(
        ARRAY(StreamsTaskOffset), nullable_since=0, default=None
    )
    shutdown_application: bool = field(BOOL)


class StreamsStatus(Message):
    """Something about the group that the client should know.

    The code is 0 STALE_TOPOLOGY, 1 MISSING_SOURCE_TOPICS, 2 INCORRECTLY_PARTITIONED_TOPICS,
    3 MISSING_INTERNAL_TOPICS, 4 SHUTDOWN_APPLICATION, 5 ASSIGNMENT_DELAYED,
    6 MISSING_CLIENT_TAGS.
    """

    status_code: int = field(INT8)
    status_detail: str = field(STRING)


class StreamsTopicPartition(Message):
    """Partitions of one topic."""

    topic: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class EndpointToPartitions(Message):
    """The partitions that a client can answer queries about."""

    user_endpoint: StreamsEndpoint = field(StreamsEndpoint)
    active_partitions: list[StreamsTopicPartition] = field(ARRAY(StreamsTopicPartition))
    standby_partitions: list[StreamsTopicPartition] = field(ARRAY(StreamsTopicPartition))


class StreamsGroupHeartbeatResponse(Message, versions=(0, 1), flexible_since=0):
    """The member's epoch, and its tasks and the endpoints if they are news.

    The intervals are in ms; the recovery lag is that of a warm-up task that counts as caught up.
    """

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    acceptable_recovery_lag_legacy: int = field(INT32, until=0)
    task_offset_interval_ms: int = field(INT32)
    acceptable_recovery_lag: int = field(INT64, since=1, default=-1)
    status: list[StreamsStatus] | None = field(ARRAY(StreamsStatus), nullable_since=0)
    active_tasks: list[StreamsTaskIds] | None = field(
        ARRAY(StreamsTaskIds), nullable_since=0, default=None
    )
    standby_tasks: list[StreamsTaskIds] | None = field(
        ARRAY(StreamsTaskIds), nullable_since=0, default=None
    )
    warmup_tasks: list[StreamsTaskIds] | None = field(
        ARRAY(StreamsTaskIds), nullable_since=0, default=None
    )
    topology_description_required: bool = field(BOOL, since=1)
    endpoint_information_epoch: int = field(INT32)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(
        ARRAY(EndpointToPartitions), nullable_since=0, default=None
    )
