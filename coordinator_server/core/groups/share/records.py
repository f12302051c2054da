"""Conversion of a share group's state to records and back.

Source: GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coordinator_server.core.groups.share.member import ShareAssignment, ShareMember
from coordinator_server.core.groups.share.partitions import PartitionStates, SharedTopic
from protocol.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopicPartitions,
    TopicInfo,
    TopicPartitionsInfo,
)

if TYPE_CHECKING:
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.core.groups.records import CoordinatorRecord
    from coordinator_server.core.groups.share.partitions import SharedTopics

STABLE = 0
"""The MemberState of every share group member, as share groups revoke no partitions."""


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group epoch and the metadata hash."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ShareGroupMetadataKey(group_id=group_id), value


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of a member's subscription and attributes."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
    )
    return ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value


def member_of(member_id: str, value: ShareGroupMemberMetadataValue) -> ShareMember:
    """Return the member in a record, whose topics are sorted and distinct."""
    return ShareMember(
        member_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(value.subscribed_topic_names),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the assignment epoch and the assignment timestamp."""
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value


def target_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    """Return the record of a member's target assignment."""
    value = ShareGroupTargetAssignmentMemberValue(topic_partitions=_listed(target))
    return ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value


def current_record(group_id: str, member_id: str, current: ShareAssignment) -> CoordinatorRecord:
    """Return the record of a member's current assignment."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=STABLE,
        assigned_partitions=_listed(current.assigned),
    )
    return ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value


def current_of(value: ShareGroupCurrentMemberAssignmentValue) -> ShareAssignment:
    """Return the current assignment in a record."""
    return ShareAssignment(
        value.member_epoch, value.previous_member_epoch, partitions_of(value.assigned_partitions)
    )


def _listed(partitions: Partitions) -> list[ShareTopicPartitions]:
    return [
        ShareTopicPartitions(topic_id=topic_id, partitions=sorted(of_topic))
        for topic_id, of_topic in partitions.items()
    ]


def partitions_of(topics: Iterable[ShareTopicPartitions]) -> Partitions:
    """Return the partitions in a record, by topic id."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def states_record(group_id: str, states: PartitionStates) -> CoordinatorRecord:
    """Return the record of the partitions with share-partition state."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(states.initializing),
        initialized_topics=_infos(states.initialized),
        deleting_topics=[
            TopicInfo(topic_id=topic_id, topic_name=name)
            for topic_id, name in states.deleting.items()
        ],
    )
    return ShareGroupStatePartitionMetadataKey(group_id=group_id), value


def _infos(topics: SharedTopics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(
            topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for topic_id, topic in topics.items()
    ]


def states_of(value: ShareGroupStatePartitionMetadataValue) -> PartitionStates:
    """Return the partition states in a record."""
    return PartitionStates(
        _topics_of(value.initializing_topics),
        _topics_of(value.initialized_topics),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _topics_of(infos: Iterable[TopicPartitionsInfo]) -> SharedTopics:
    return {
        info.topic_id: SharedTopic(info.topic_name, frozenset(info.partitions)) for info in infos
    }


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of all records of a member."""
    ids = {"group_id": group_id, "member_id": member_id}
    return [
        (ShareGroupCurrentMemberAssignmentKey(**ids), None),
        (ShareGroupTargetAssignmentMemberKey(**ids), None),
        (ShareGroupMemberMetadataKey(**ids), None),
    ]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones that delete a group without members, in Kafka's order.

    Source: ShareGroup.createGroupTombstoneRecords.
    """
    return [
        (ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        (ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        (ShareGroupMetadataKey(group_id=group_id), None),
    ]
