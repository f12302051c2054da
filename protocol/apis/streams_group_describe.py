"""StreamsGroupDescribe (key 89): streams groups with their members (KIP-1071). Versions 0-1.

Version 1 tells the assignor (KIP-1357), and on request the topology as a plugin of the broker
describes it (KIP-1331).
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
    """A tag of a client, or a setting of a topic."""

    key: str = field(STRING)
    value: str = field(STRING)


class DescribedTopicInfo(Message):
    """An internal topic; no partitions or replicas are left to the broker to choose."""

    name: str = field(STRING)
    partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    topic_configs: list[DescribedKeyValue] = field(ARRAY(DescribedKeyValue))


class DescribedSubtopology(Message):
    """A subtopology as the broker configured it: partitions counted, expressions resolved."""

    subtopology_id: str = field(STRING)
    source_topics: list[str] = field(ARRAY(STRING))
    repartition_sink_topics: list[str] = field(ARRAY(STRING))
    state_changelog_topics: list[DescribedTopicInfo] = field(ARRAY(DescribedTopicInfo))
    repartition_source_topics: list[DescribedTopicInfo] = field(ARRAY(DescribedTopicInfo))


class DescribedTopology(Message):
    """The topology of a group; the subtopologies are null while topics are missing or wrong."""

    epoch: int = field(INT32)
    subtopologies: list[DescribedSubtopology] | None = field(
        ARRAY(DescribedSubtopology), nullable_since=0, default=None
    )


class DescribedEndpoint(Message):
    """Where a client answers interactive queries."""

    host: str = field(STRING)
    port: int = field(UINT16)


class DescribedTaskOffset(Message):
    """How far the changelogs of a task are restored, or how far they go: a sum of offsets."""

    subtopology_id: str = field(STRING)
    partition: int = field(INT32)
    offset: int = field(INT64)


class DescribedTaskIds(Message):
    """Tasks of one subtopology, which are its partitions."""

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class DescribedStreamsAssignment(Message):
    """The tasks of a member."""

    active_tasks: list[DescribedTaskIds] = field(ARRAY(DescribedTaskIds))
    standby_tasks: list[DescribedTaskIds] = field(ARRAY(DescribedTaskIds))
    warmup_tasks: list[DescribedTaskIds] = field(ARRAY(DescribedTaskIds))


class DescribedStreamsMember(Message):
    """One member: the client it is in, the tasks it has, and those it shall have."""

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
    """A node of the processing graph; the type is 1 source, 2 processor, 3 sink."""

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
    """The node that feeds a global store, and the node that populates it."""

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
    """One description per group asked for."""

    throttle_time_ms: int = field(INT32)
    groups: list[DescribedStreamsGroup] = field(ARRAY(DescribedStreamsGroup))
