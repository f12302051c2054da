"""StreamsGroupHeartbeat (key 88): heartbeat of a streams group member (KIP-1071). Versions 0-1.

Version 1 makes the acceptable recovery lag an int64, requests topology descriptions (KIP-1331), and
adds MISSING_CLIENT_TAGS.
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
    """A client tag or a topic config."""

    key: str = field(STRING)
    value: str = field(STRING)


class StreamsTopicInfo(Message):
    """An internal topic; the broker chooses partitions or replicas that are not set."""

    name: str = field(STRING)
    partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    topic_configs: list[StreamsKeyValue] = field(ARRAY(StreamsKeyValue))


class CopartitionGroup(Message):
    """Topics with the same partition count, as indexes into lists of the subtopology."""

    source_topics: list[int] = field(ARRAY(INT16))
    source_topic_regex: list[int] = field(ARRAY(INT16))
    repartition_source_topics: list[int] = field(ARRAY(INT16))


class StreamsSubtopology(Message):
    """A part of the application that is connected to other parts only by topics."""

    subtopology_id: str = field(STRING)
    source_topics: list[str] = field(ARRAY(STRING))
    source_topic_regex: list[str] = field(ARRAY(STRING))
    state_changelog_topics: list[StreamsTopicInfo] = field(ARRAY(StreamsTopicInfo))
    repartition_sink_topics: list[str] = field(ARRAY(STRING))
    repartition_source_topics: list[StreamsTopicInfo] = field(ARRAY(StreamsTopicInfo))
    copartition_groups: list[CopartitionGroup] = field(ARRAY(CopartitionGroup))


class StreamsTopology(Message):
    """The topology of the application."""

    epoch: int = field(INT32)
    subtopologies: list[StreamsSubtopology] = field(ARRAY(StreamsSubtopology))


class StreamsTaskIds(Message):
    """Tasks of one subtopology; task ids are partitions."""

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class StreamsEndpoint(Message):
    """The address of a client for interactive queries."""

    host: str = field(STRING)
    port: int = field(UINT16)


class StreamsTaskOffset(Message):
    """The sum of a task's changelog offsets: the restored offsets or the end offsets."""

    subtopology_id: str = field(STRING)
    partition: int = field(INT32)
    offset: int = field(INT64)


class StreamsGroupHeartbeatRequest(Message, versions=(0, 1), flexible_since=0):
    """Changes since the last heartbeat; null, or -1 for the timeout, means unchanged.

    The member epoch is 0 to join, -1 to leave, -2 for a static member to leave for a while. The
    topology is only sent with epoch 0.
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
    """A status of the group, for the client.

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
    """The partitions that a client can be queried for."""

    user_endpoint: StreamsEndpoint = field(StreamsEndpoint)
    active_partitions: list[StreamsTopicPartition] = field(ARRAY(StreamsTopicPartition))
    standby_partitions: list[StreamsTopicPartition] = field(ARRAY(StreamsTopicPartition))


class StreamsGroupHeartbeatResponse(Message, versions=(0, 1), flexible_since=0):
    """The member's epoch, and its tasks and the endpoints if they have changed.

    The intervals are in ms; a warm-up task is caught up when its lag is at most the acceptable
    recovery lag.
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
