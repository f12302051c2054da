"""ShareGroupDescribe (key 77): describes share groups (KIP-932). Version 1.

Version 0 of Kafka 4.0's early access was removed.
"""

from __future__ import annotations

from protocol.schema import ARRAY, BOOL, INT16, INT32, STRING, UUID, Message, field


class ShareGroupDescribeRequest(Message, versions=(1, 1), flexible_since=1):
    """The groups to describe."""

    group_ids: list[str] = field(ARRAY(STRING))
    include_authorized_operations: bool = field(BOOL)


class DescribedShareTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    partitions: list[int] = field(ARRAY(INT32))


class DescribedShareAssignment(Message):
    """The partitions of a member."""

    topic_partitions: list[DescribedShareTopicPartitions] = field(
        ARRAY(DescribedShareTopicPartitions)
    )


class DescribedShareMember(Message):
    """One member: its subscription and its assignment."""

    member_id: str = field(STRING)
    rack_id: str | None = field(STRING, nullable_since=0, default=None)
    member_epoch: int = field(INT32)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(ARRAY(STRING))
    assignment: DescribedShareAssignment = field(DescribedShareAssignment)


class DescribedShareGroup(Message):
    """Epochs, assignor and members of one group, or its error."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    assignor_name: str = field(STRING)
    members: list[DescribedShareMember] = field(ARRAY(DescribedShareMember))
    authorized_operations: int = field(INT32, default=-(2**31))


class ShareGroupDescribeResponse(Message, versions=(1, 1), flexible_since=1):
    """One description per requested group."""

    throttle_time_ms: int = field(INT32)
    groups: list[DescribedShareGroup] = field(ARRAY(DescribedShareGroup))
