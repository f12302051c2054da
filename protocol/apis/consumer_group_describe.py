"""ConsumerGroupDescribe (key 69): describes consumer groups (KIP-848). Versions 0-1.

Version 1 adds each member's protocol, classic or consumer.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT8, INT16, INT32, STRING, UUID, Message, field

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""The member types; -1 if the broker is too old to report the type."""


class ConsumerGroupDescribeRequest(Message, versions=(0, 1), flexible_since=0):
    """The groups to describe."""

    group_ids: list[str] = field(ARRAY(STRING))
    include_authorized_operations: bool = field(BOOL)


class AssignedTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class MemberAssignment(Message):
    """The partitions of a member."""

    topic_partitions: list[AssignedTopicPartitions] = field(ARRAY(AssignedTopicPartitions))


class DescribedConsumerMember(Message):
    """One member: its subscription, its assignment, and its target assignment."""

    member_id: str = field(STRING)
    instance_id: str | None = field(STRING, nullable_since=0, default=None)
    rack_id: str | None = field(STRING, nullable_since=0, default=None)
    member_epoch: int = field(INT32)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(ARRAY(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable_since=0, default=None)
    assignment: MemberAssignment = field(MemberAssignment)
    target_assignment: MemberAssignment = field(MemberAssignment)
    member_type: int = field(INT8, since=1, default=-1)


class DescribedConsumerGroup(Message):
    """Epochs, assignor and members of one group, or its error."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    assignor_name: str = field(STRING)
    members: list[DescribedConsumerMember] = field(ARRAY(DescribedConsumerMember))
    authorized_operations: int = field(INT32, default=-(2**31))


class ConsumerGroupDescribeResponse(Message, versions=(0, 1), flexible_since=0):
    """One description per requested group."""

    throttle_time_ms: int = field(INT32)
    groups: list[DescribedConsumerGroup] = field(ARRAY(DescribedConsumerGroup))
