"""Records of `__consumer_offsets` that streams groups write (KIP-1071): key types 17 and 19-23.

`protocol.offsets_log` imports this module with the first such record.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT16, INT32, INT64, STRING, UINT16, Message, field


class KeyValue(Message):
    """A setting, or a tag of a client."""

    key: str = field(STRING)
    value: str = field(STRING)


class StreamsGroupMetadataKey(Message, versions=(0, 0)):
    """Key type 17: a streams group."""

    group_id: str = field(STRING)


class StreamsGroupMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The group's epoch, and the inputs of its last assignment.

    `validated_topology_epoch` is the epoch of the last topology whose topics were valid, or -1.
    `last_assignment_configs` exists since 4.3. The description epochs, since 4.4, are the epochs of
    the topology descriptions that a broker plugin last stored and last refused (KIP-1331).
    """

    epoch: int = field(INT32)
    metadata_hash: int = field(INT64)
    validated_topology_epoch: int = field(INT32, default=-1, tag=0)
    # Without the field, as in records of older releases, Kafka reads an empty list, not null.
    last_assignment_configs: list[KeyValue] | None = field(ARRAY(KeyValue), nullable_since=0, tag=1)
    stored_description_topology_epoch: int = field(INT32, default=-1, tag=2)
    failed_description_topology_epoch: int = field(INT32, default=-1, tag=3)


class StreamsGroupMemberMetadataKey(Message, versions=(0, 0)):
    """Key type 19: a member of a streams group."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)


class Endpoint(Message):
    """The address at which a client answers interactive queries."""

    host: str = field(STRING)
    port: int = field(UINT16)


class StreamsGroupMemberMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The metadata that a member has sent; the timeout is in ms."""

    instance_id: str | None = field(STRING, nullable_since=0)
    rack_id: str | None = field(STRING, nullable_since=0)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    topology_epoch: int = field(INT32)
    process_id: str = field(STRING)
    user_endpoint: Endpoint | None = field(Endpoint, nullable_since=0, default=None)
    client_tags: list[KeyValue] = field(ARRAY(KeyValue))


class StreamsGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    """Key type 20: the target assignment of a group."""

    group_id: str = field(STRING)


class StreamsGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The epoch of the target assignment.

    `assignment_timestamp`, since 4.3, is the time of its computation in ms (KIP-1263).
    """

    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, tag=0)


class StreamsGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    """Key type 21: the target assignment of a member."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)


class TargetTaskIds(Message):
    """Tasks of one subtopology; task ids are partitions."""

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class StreamsGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible_since=0):
    """The target assignment of a member."""

    active_tasks: list[TargetTaskIds] = field(ARRAY(TargetTaskIds))
    standby_tasks: list[TargetTaskIds] = field(ARRAY(TargetTaskIds))
    warmup_tasks: list[TargetTaskIds] = field(ARRAY(TargetTaskIds))


class StreamsGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    """Key type 22: the current assignment of a member."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)


class CurrentTaskIds(Message):
    """Tasks of one subtopology; since 4.3, active tasks have the epochs of their assignment.

    An offset commit with an older epoch than the task's is fenced (KIP-1251).
    """

    subtopology_id: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))
    # Without the field, as in records of older releases, Kafka reads an empty list, not null.
    assignment_epochs: list[int] | None = field(ARRAY(INT32), nullable_since=0, tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible_since=0):
    """The tasks that a member has, and the tasks that it must revoke."""

    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    active_tasks: list[CurrentTaskIds] = field(ARRAY(CurrentTaskIds))
    standby_tasks: list[CurrentTaskIds] = field(ARRAY(CurrentTaskIds))
    warmup_tasks: list[CurrentTaskIds] = field(ARRAY(CurrentTaskIds))
    active_tasks_pending_revocation: list[CurrentTaskIds] = field(ARRAY(CurrentTaskIds))
    standby_tasks_pending_revocation: list[CurrentTaskIds] = field(ARRAY(CurrentTaskIds))
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = field(ARRAY(CurrentTaskIds))


class StreamsGroupTopologyKey(Message, versions=(0, 0)):
    """Key type 23: the topology of a group."""

    group_id: str = field(STRING)


class RecordedTopicInfo(Message):
    """An internal topic; the broker chooses partitions or replicas that are not set."""

    name: str = field(STRING)
    partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    topic_configs: list[KeyValue] = field(ARRAY(KeyValue))


class RecordedCopartitionGroup(Message):
    """Topics with the same number of partitions, as indexes into lists of the subtopology."""

    source_topics: list[int] = field(ARRAY(INT16))
    source_topic_regex: list[int] = field(ARRAY(INT16))
    repartition_source_topics: list[int] = field(ARRAY(INT16))


class RecordedSubtopology(Message):
    """A part of the application that is connected to other parts only by topics."""

    subtopology_id: str = field(STRING)
    source_topics: list[str] = field(ARRAY(STRING))
    source_topic_regex: list[str] = field(ARRAY(STRING))
    state_changelog_topics: list[RecordedTopicInfo] = field(ARRAY(RecordedTopicInfo))
    repartition_sink_topics: list[str] = field(ARRAY(STRING))
    repartition_source_topics: list[RecordedTopicInfo] = field(ARRAY(RecordedTopicInfo))
    copartition_groups: list[RecordedCopartitionGroup] = field(ARRAY(RecordedCopartitionGroup))


class StreamsGroupTopologyValue(Message, versions=(0, 0), flexible_since=0):
    """The topology of the application, as the first member sent it."""

    epoch: int = field(INT32)
    subtopologies: list[RecordedSubtopology] = field(ARRAY(RecordedSubtopology))


RECORD_TYPES: dict[int, tuple[type[Message], type[Message]]] = {
    17: (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    19: (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    20: (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    21: (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    22: (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    23: (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
}
