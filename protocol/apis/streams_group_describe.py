"""StreamsGroupDescribe (key 89): describes streams groups (KIP-1071). Versions 0-1.

Version 1 adds the assignor (KIP-1357) and, on request, the topology description that a broker
plugin stores (KIP-1331).
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


class StreamsGroupDescribeRequest(Message, versions=(0, 1), flexible_since=0):
    """The groups to describe."""

    group_ids: list[str] = field(ARRAY(STRING))
    include_authorized_operations: bool = field(BOOL)
    include_topology_description: bool = field(BOOL, since=1)


class DescribedKeyValue(Message):
    """A client tag or a topic config."""

    key: str = field(STRING)
    value: str = field(STRING)


class DescribedTopicInfo(Message):
    """An internal topic; the broker chooses partitions or replicas that are not set."""

    name: str = field(STRING)
    partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    topic_configs: list[DescribedKeyValue] = field(ARRAY(DescribedKeyValue))


class DescribedSubtopology(Message):
    """A subtopology as configured by the broker, with partition counts and resolved expressions."""

    subtopology_id: str = field(STRING)
    source_topics: list[str] = field(ARRAY(STRING))
    repartition_sink_topics: list[str] = field(ARRAY(STRING))
    state_changelog_topics: list[DescribedTopicInfo] = field(ARRAY(DescribedTopicInfo))
    repartition_source_topics: list[DescribedTopicInfo] = field(ARRAY(DescribedTopicInfo))


class DescribedTopology(Message):
    """The topology of a group; subtopologies are null while topics are missing or invalid."""

    epoch: int = field(INT32)
    subtopologies: list[DescribedSubtopology] | None = field(
        ARRAY(DescribedSubtopology), nullable_since=0, default=None
    )


class DescribedEndpoint(Message):
    """The address of a client for interactive queries."""

    host: str = field(STRING)
    port: int = field(UINT16)


class DescribedTaskOffset(Message):
    """The sum of a task's changelog offsets: the restored offsets or the end offsets."""

    subtopology_id: str = field(STRING)
    partition: int = field(INT32)
    offset: int = field(INT64)


class DescribedTaskIds(Message):
    """Tasks of one subtopology; task ids are partitions."""

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class DescribedStreamsAssignment(Message):
    """The tasks of a member."""

    active_tasks: list[DescribedTaskIds] = field(ARRAY(DescribedTaskIds))
    standby_tasks: list[DescribedTaskIds] = field(ARRAY(DescribedTaskIds))
    warmup_tasks: list[DescribedTaskIds] = field(ARRAY(DescribedTaskIds))


class DescribedStreamsMember(Message):
    """One member: its client, its tasks, and its target tasks."""

    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable_since=0, default=None)
    rack_id: str | None = field(STRING, nullable_since=0, default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    topology_epoch: int = field(INT32)
    process_id: str = field(STRING)
    user_endpoint: DescribedEndpoint | None = field(
        DescribedEndpoint, nullable_since=0, default=None
    )
    client_tags: list[DescribedKeyValue] = field(ARRAY(DescribedKeyValue))
    task_offsets: list[DescribedTaskOffset] = field(ARRAY(DescribedTaskOffset))
    task_end_offsets: list[DescribedTaskOffset] = field(ARRAY(DescribedTaskOffset))
    assignment: DescribedStreamsAssignment = field(DescribedStreamsAssignment)
    target_assignment: DescribedStreamsAssignment = field(DescribedStreamsAssignment)
    is_classic: bool = field(BOOL)


class DescribedNode(Message):
    """A node of the processing graph; type 1 is a source, 2 a processor, 3 a sink."""

    name: str = field(STRING)
    node_type: int = field(INT8)
    source_topics: list[str] = field(ARRAY(STRING))
    sink_topic: str | None = field(STRING, nullable_since=0, default=None)
    stores: list[str] = field(ARRAY(STRING))
    successors: list[str] = field(ARRAY(STRING))


class DescribedNodes(Message):
    """The nodes of one subtopology."""

    subtopology_id: str = field(STRING)
    nodes: list[DescribedNode] = field(ARRAY(DescribedNode))


class DescribedGlobalStore(Message):
    """The node that reads a global store's topic, and the node that populates the store."""

    source: DescribedNode = field(DescribedNode)
    processor: DescribedNode = field(DescribedNode)


class TopologyDescription(Message):
    """The processing graph of an application."""

    subtopologies: list[DescribedNodes] = field(ARRAY(DescribedNodes))
    global_stores: list[DescribedGlobalStore] = field(ARRAY(DescribedGlobalStore))


class DescribedStreamsGroup(Message):
    """Epochs, topology and members of one group, or its error.

    The status of the topology description is 0 NOT_REQUESTED, 1 NOT_STORED, 2 ERROR, 3 AVAILABLE.
    """

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    topology: DescribedTopology | None = field(DescribedTopology, nullable_since=0, default=None)
    members: list[DescribedStreamsMember] = field(ARRAY(DescribedStreamsMember))
    authorized_operations: int = field(INT32, default=-(2**31))
    topology_description: TopologyDescription | None = field(
        TopologyDescription, since=1, nullable_since=1, default=None
    )
    topology_description_status: int = field(INT8, since=1)
    assignor_name: str | None = field(STRING, since=1, nullable_since=1, default=None)


class StreamsGroupDescribeResponse(Message, versions=(0, 1), flexible_since=0):
    """One description per requested group."""

    throttle_time_ms: int = field(INT32)
    groups: list[DescribedStreamsGroup] = field(ARRAY(DescribedStreamsGroup))
