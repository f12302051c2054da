"""Consumer groups and their records: from the log, a snapshot, or earlier releases."""

from __future__ import annotations

from coordinator_server.coordinator.snapshot import Decoding, encode_groups
from coordinator_server.core.groups.consumer.consumer_group import ConsumerGroup
from coordinator_server.core.groups.consumer.member import CurrentAssignment
from coordinator_server.core.groups.group import Group
from protocol.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    TopicPartitions,
)
from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataKey
from tests.harness.one_group import GROUP, blank_group, durable_state
from tests.unit.core.groups.consumer.context import ConsumerContext, short

CURRENT = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a")
LEGACY = ConsumerGroupPartitionMetadataKey(group_id=GROUP)


def varied() -> ConsumerContext:
    """Return a group that uses every part of its state."""
    context = ConsumerContext()
    a = context.member("a", "three", instance_id="i")
    context.joined(a)
    assert a.commit(("three", 0, 7, "m"), ("two", 1, 8)) == [ErrorCode.NONE] * 2
    b = context.member("b", "three", regex="o.*")
    assert b.join().error is ErrorCode.NONE
    assert b.own() is ErrorCode.NONE
    assert a.beat() is ErrorCode.NONE
    assert context.group.current("a").revoking
    return context


def through_snapshot(group: Group) -> Group:
    """Encode the group as a snapshot, and return the group that is decoded from it."""
    decoding = Decoding(
        encode_groups([group]), lambda name: blank_group(name, group.environment.settings)
    )
    for _ in decoding.steps():
        pass
    return decoding.groups[GROUP]


def loaded(
    context: ConsumerContext, member_epoch: int = 2, epochs: list[int] | None = None
) -> CurrentAssignment:
    """Replay a record that assigns partitions 0 and 1 of topic "three" to member a.

    Returns the member's current assignment.
    """
    topic = TopicPartitions(
        topic_id=context.id_of("three"), partitions=[0, 1], assignment_epochs=epochs
    )
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member_epoch, assigned_partitions=[topic]
    )
    context.replay((CURRENT, value))
    return context.group.current("a")


def test_a_loaded_group_goes_on() -> None:
    """A loaded group has its members, targets, epochs, offsets and patterns.

    Members notice no change.
    """
    context = varied()
    before = context.group
    context.broker.crash()
    after = context.group
    assert after is not before
    assert durable_state(after) == durable_state(before)
    assert (after.owners, after.static_ids) == (before.owners, before.static_ids)
    assert (after.readers, after.regex_members) == (before.readers, before.regex_members)
    assert not after.is_new
    assert not after.is_blank
    context.check()


def test_a_snapshot_holds_everything() -> None:
    """A snapshot has the whole state of the group."""
    group = varied().group
    again = through_snapshot(group)
    assert isinstance(again, ConsumerGroup)
    assert durable_state(again) == durable_state(group)
    assert (again.owners, again.static_ids) == (group.owners, group.static_ids)


def test_tombstones_leave_a_classic_group_with_the_same_offsets() -> None:
    """After all its tombstones a consumer group is a classic group with the same offsets."""
    context = varied()
    group: Group = context.group
    offsets = group.offsets
    for record in context.group.tombstones():
        group = group.replay(record)
    assert not isinstance(group, ConsumerGroup)
    assert group.offsets is offsets
    assert group.state_records() == []


def test_the_tombstones_of_a_group_are_in_kafkas_order() -> None:
    """Tombstones are in Kafka's order: assignments, members, patterns, partitions, epoch."""
    group = varied().group
    assert [short(record) for record in group.tombstones()] == [
        "-current a",
        "-current b",
        "-target a",
        "-target b",
        "-target epoch",
        "-member a",
        "-member b",
        "-regex o.*",
        "-partitions",
        "-epoch",
    ]


def test_partitions_without_an_epoch_are_of_an_earlier_release() -> None:
    """Partitions without a valid epoch get the member's epoch, or 0 if that epoch is negative.

    Records of earlier releases and damaged records have no valid epochs.
    """
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    topic_id = context.id_of("three")
    assert loaded(context).assigned == {topic_id: {0: 2, 1: 2}}
    assert loaded(context, member_epoch=-2).assigned == {topic_id: {0: 0, 1: 0}}
    assert loaded(context, epochs=[5]).assigned == {topic_id: {0: 2, 1: 2}}
    assert loaded(context, epochs=[1, 2]).assigned == {topic_id: {0: 1, 1: 2}}


def test_a_record_of_kafka_before_41_is_remembered() -> None:
    """A partition metadata record of Kafka before 4.1 is remembered, also in snapshots.

    The record is deleted when the metadata hash is computed.
    """
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    context.replay((LEGACY, ConsumerGroupPartitionMetadataValue()))
    before = context.group
    assert before.has_legacy_record
    again = through_snapshot(context.group)
    assert isinstance(again, ConsumerGroup)
    assert again.has_legacy_record
    context.written()
    assert context.member("b", "three").join().error is ErrorCode.NONE
    assert context.written()[:3] == ["member b", "epoch 3", "-partitions"]
    after = context.group
    assert not after.has_legacy_record
    context.check()


def test_tombstones_of_what_the_group_goes_on_without() -> None:
    """Tombstones of the target epoch and of a classic group change nothing."""
    context = varied()
    group = context.group
    before = durable_state(group)
    assert group.replay((ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP), None)) is group
    assert group.replay((GroupMetadataKey(group=GROUP), None)) is group
    assert durable_state(group) == before


def test_a_partition_belongs_to_who_was_last_recorded_with_it() -> None:
    """A partition belongs to its last recorded owner.

    A tombstone of the previous owner does not release the partition.
    """
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    group = context.group
    topic = TopicPartitions(topic_id=context.id_of("three"), partitions=[0])
    other = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="b")
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=3, assigned_partitions=[topic])
    group.replay((other, value))
    group.replay((CURRENT, None))
    assert group.owners == {context.id_of("three"): {0: "b"}}
    assert group.is_owned(context.id_of("three"), 0)
    assert not group.is_owned(context.id_of("three"), 1)
    group.replay((other, None))
    assert group.owners == {}
