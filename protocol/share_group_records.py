"""Records of `__consumer_offsets` that share groups write (KIP-932): key types 10-15.

`protocol.offsets_log` imports this module with the first such record. The delivery state of records
is in another topic: `protocol.share_state_log`.
"""

from __future__ import annotations

from protocol.schema import ARRAY, INT8, INT32, INT64, STRING, UUID, Message, field


class ShareGroupMemberMetadataKey(Message, versions=(0, 0)):
    """Key type 10: a member of a share group."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)


class ShareGroupMemberMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The metadata that a member has sent."""

    rack_id: str | None = field(STRING, nullable_since=0)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(ARRAY(STRING))


class ShareGroupMetadataKey(Message, versions=(0, 0)):
    """Key type 11: a share group."""

    group_id: str = field(STRING)


class ShareGroupMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The group's epoch, and the hash of its topics."""

    epoch: int = field(INT32)
    metadata_hash: int = field(INT64)


class ShareGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    """Key type 12: the target assignment of a group."""

    group_id: str = field(STRING)


class ShareGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The epoch of the target assignment.

    `assignment_timestamp`, since 4.3, is the time of its computation in ms (KIP-1263).
    """

    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, tag=0)


class ShareGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    """Key type 13: the target assignment of a member."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)


class ShareTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(ARRAY(INT32))


class ShareGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible_since=0):
    """The target assignment of a member."""

    topic_partitions: list[ShareTopicPartitions] = field(ARRAY(ShareTopicPartitions))


class ShareGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    """Key type 14: the current assignment of a member."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)


class ShareGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible_since=0):
    """The current assignment of a member. `state` is a number of Kafka's MemberState."""

    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    assigned_partitions: list[ShareTopicPartitions] = field(ARRAY(ShareTopicPartitions))


class ShareGroupStatePartitionMetadataKey(Message, versions=(0, 0)):
    """Key type 15: the share partitions of a group."""

    group_id: str = field(STRING)


class TopicPartitionsInfo(Message):
    """Partitions of one topic, by id and name."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class TopicInfo(Message):
    """One topic, by id and name."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)


class ShareGroupStatePartitionMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The share partitions whose state is initialized, being initialized or being deleted."""

    initializing_topics: list[TopicPartitionsInfo] = field(ARRAY(TopicPartitionsInfo))
    initialized_topics: list[TopicPartitionsInfo] = field(ARRAY(TopicPartitionsInfo))
    deleting_topics: list[TopicInfo] = field(ARRAY(TopicInfo))


RECORD_TYPES: dict[int, tuple[type[Message], type[Message]]] = {
    10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    11: (ShareGroupMetadataKey, ShareGroupMetadataValue),
    12: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
}
