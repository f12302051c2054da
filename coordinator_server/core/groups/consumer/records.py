"""Conversion of a consumer group's state to records and back.

Source: GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coordinator_server.core.groups.consumer.member import (
    ConsumerMember,
    CurrentAssignment,
    MemberState,
)
from coordinator_server.core.groups.consumer.regex import ResolvedRegex
from protocol.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

if TYPE_CHECKING:
    from coordinator_server.core.groups.consumer.member import OwnedPartitions
    from coordinator_server.core.groups.modern.assignor_spec import Partitions
    from coordinator_server.core.groups.records import CoordinatorRecord


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of the group epoch and the metadata hash."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupMetadataKey(group_id=group_id), value


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's subscription and attributes."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return key, value


def member_of(member_id: str, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """Return the member in a record."""
    return ConsumerMember(
        member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(sorted(dict.fromkeys(value.subscribed_topic_names))),  # usually sorted already
        regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the assignment epoch and the assignment timestamp."""
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value


def target_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    """Return the record of a member's target assignment."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value


def target_of(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions:
    """Return the target assignment in a record."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}


def current_record(group_id: str, member_id: str, current: CurrentAssignment) -> CoordinatorRecord:
    """Return the record of a member's current assignment."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        assigned_partitions=_with_epochs(current.assigned),
        partitions_pending_revocation=_with_epochs(current.revoking),
    )
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value


def _with_epochs(owned: OwnedPartitions) -> list[TopicPartitions]:
    """Return the partitions of each topic, sorted as in Kafka's records."""
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[partition] for partition in sorted(partitions)],
        )
        for topic_id, partitions in owned.items()
    ]


def current_of(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    """Return the current assignment in a record.

    Records of earlier releases have no assignment epochs; the member epoch is used. Source:
    Utils.assignmentFromTopicPartitions.
    """
    return CurrentAssignment(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_owned(value.assigned_partitions, value.member_epoch),
        revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
    )


def _owned(topics: Iterable[TopicPartitions], member_epoch: int) -> OwnedPartitions:
    owned: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """Return the record of the topics that match a regular expression."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics),
        version=resolved.version,
        timestamp=resolved.timestamp_ms,
    )
    return _regex_key(group_id, regex), value


def regex_of(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    """Return the resolved expression in a record."""
    return ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Return the tombstone of a regular expression that no member subscribes to any more."""
    return _regex_key(group_id, regex), None


def _regex_key(group_id: str, regex: str) -> ConsumerGroupRegularExpressionKey:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of all records of a member."""
    ids = {"group_id": group_id, "member_id": member_id}
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(**ids), None),
        (ConsumerGroupTargetAssignmentMemberKey(**ids), None),
        (ConsumerGroupMemberMetadataKey(**ids), None),
    ]


def legacy_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of the partition metadata record that Kafka wrote before 4.1."""
    return ConsumerGroupPartitionMetadataKey(group_id=group_id), None


def group_tombstones(
    group_id: str,
    member_ids: Iterable[str],
    expressions: Iterable[str],
) -> list[CoordinatorRecord]:
    """Return the tombstones that delete a group, in Kafka's order.

    Source: createGroupTombstoneRecords.
    """
    ids = [{"group_id": group_id, "member_id": member_id} for member_id in member_ids]
    records: list[CoordinatorRecord] = []
    records += [(ConsumerGroupCurrentMemberAssignmentKey(**fields), None) for fields in ids]
    records += [(ConsumerGroupTargetAssignmentMemberKey(**fields), None) for fields in ids]
    records.append((ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None))
    records += [(ConsumerGroupMemberMetadataKey(**fields), None) for fields in ids]
    records += [(_regex_key(group_id, expression), None) for expression in expressions]
    records.append(legacy_tombstone(group_id))
    records.append((ConsumerGroupMetadataKey(group_id=group_id), None))
    return records
