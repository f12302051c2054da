"""Records of __consumer_offsets that the consumer groups of KIP-848 write: key types 3-8 and 16.

`protocol.offsets_log` imports this module with the first such record.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BYTES, INT8, INT32, INT64, STRING, UUID, Message, field


class ConsumerGroupMetadataKey(Message, versions=(0, 0)):
    """Key type 3: a KIP-848 group."""

    group_id: str = field(STRING)


class ConsumerGroupMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The group's epoch."""

    epoch: int = field(INT32)
    metadata_hash: int = field(INT64, tag=0)


class ConsumerGroupPartitionMetadataKey(Message, versions=(0, 0)):
    """Key type 4: a group's view of its topics; only tombstones are written since 4.1."""

    group_id: str = field(STRING)


class PartitionMetadata(Message):
    """Racks of one partition."""

    partition: int = field(INT32)
    racks: list[str] = field(ARRAY(STRING))


class TopicMetadata(Message):
    """One topic, as the group saw it."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    num_partitions: int = field(INT32)
    partition_metadata: list[PartitionMetadata] = field(ARRAY(PartitionMetadata))


class ConsumerGroupPartitionMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The topics as the group saw them."""

    topics: list[TopicMetadata] = field(ARRAY(TopicMetadata))


class ConsumerGroupMemberMetadataKey(Message, versions=(0, 0)):
    """Key type 5: a member of a KIP-848 group."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)


class ClassicProtocol(Message):
    """A classic protocol that a member supports."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


class ClassicMemberMetadata(Message):
    """Session timeout and protocols of a member that uses the classic protocol."""

    session_timeout_ms: int = field(INT32)
    supported_protocols: list[ClassicProtocol] = field(ARRAY(ClassicProtocol))


class ConsumerGroupMemberMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The metadata that a member has sent."""

    instance_id: str | None = field(STRING, nullable_since=0)
    rack_id: str | None = field(STRING, nullable_since=0)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(ARRAY(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable_since=0)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    server_assignor: str | None = field(STRING, nullable_since=0)
    # Kafka's default is an empty message, so null must be written explicitly.
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, nullable_since=0, tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    """Key type 6: the target assignment of a group."""

    group_id: str = field(STRING)


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible_since=0):
    """The epoch of the target assignment.

    `assignment_timestamp`, since 4.3, is the time of its computation in ms (KIP-1263).
    """

    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    """Key type 7: the target assignment of a member."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)


class TopicPartition(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(ARRAY(INT32))


class ConsumerGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible_since=0):
    """The target assignment of a member."""

    topic_partitions: list[TopicPartition] = field(ARRAY(TopicPartition))


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    """Key type 8: the current assignment of a member."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)


class TopicPartitions(Message):
    """Partitions of one topic; since 4.3 with the epochs at which they were assigned (KIP-1251)."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field(ARRAY(INT32))
    # Without the field, as in records of older releases, Kafka reads an empty list, not null.
    assignment_epochs: list[int] | None = field(ARRAY(INT32), nullable_since=0, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible_since=0):
    """The partitions that a member owns, and the partitions that it must revoke."""

    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    assigned_partitions: list[TopicPartitions] = field(ARRAY(TopicPartitions))
    partitions_pending_revocation: list[TopicPartitions] = field(ARRAY(TopicPartitions))


class ConsumerGroupRegularExpressionKey(Message, versions=(0, 0)):
    """Key type 16: a subscription by regular expression."""

    group_id: str = field(STRING)
    regular_expression: str = field(STRING)


class ConsumerGroupRegularExpressionValue(Message, versions=(0, 0), flexible_since=0):
    """The topics that matched the regular expression, and the time of matching."""

    topics: list[str] = field(ARRAY(STRING))
    version: int = field(INT64)
    timestamp: int = field(INT64)


RECORD_TYPES: dict[int, tuple[type[Message], type[Message]]] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
