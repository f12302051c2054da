"""Reconciliation: revocations first, then assignment of the released partitions."""

from __future__ import annotations

from coordinator_server.core.groups.consumer.member import MemberState
from protocol.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.unit.core.groups.consumer.context import ConsumerContext, ConsumerMember


def two(context: ConsumerContext) -> tuple[ConsumerMember, ConsumerMember]:
    """Return A, which owns all of "three", and B, which has joined and waits for a part of it."""
    a, b = context.member("a", "three"), context.member("b", "three")
    context.joined(a)
    assert b.join().error is ErrorCode.NONE
    assert b.owned == {}
    return a, b


def state_of(context: ConsumerContext, member: ConsumerMember) -> MemberState:
    """Return the reconciliation state of a member."""
    return context.group.current(member.id).state


def test_a_partition_changes_hands() -> None:
    """A partition moves in three heartbeats: A learns of it, A confirms, B gets it."""
    context = ConsumerContext()
    a, b = two(context)
    assert (a.epoch, b.epoch) == (2, 3)
    assert state_of(context, b) is MemberState.UNRELEASED_PARTITIONS

    answer = a.send()
    assert answer.response.assignment is not None
    kept = a.owned["three"]
    assert (len(kept), a.epoch) == (2, 2)
    assert state_of(context, a) is MemberState.UNREVOKED_PARTITIONS
    assert context.state == "Reconciling"

    assert b.own() is ErrorCode.NONE
    assert b.owned == {}
    assert a.own() is ErrorCode.NONE
    assert a.epoch == 3
    assert state_of(context, a) is MemberState.STABLE
    assert b.own() is ErrorCode.NONE
    assert b.count == 1
    assert sorted(kept + b.owned["three"]) == [0, 1, 2]
    assert context.state == "Stable"
    context.check()


def test_a_member_that_does_not_say_what_it_owns_owns_it_still() -> None:
    """A heartbeat that lists no partitions, or lists the revoked partition, releases nothing."""
    context = ConsumerContext()
    a, _ = two(context)
    all_of_it = dict(a.owned)
    assert a.beat() is ErrorCode.NONE
    context.written()
    assert a.beat() is ErrorCode.NONE
    assert a.own(all_of_it) is ErrorCode.NONE
    assert state_of(context, a) is MemberState.UNREVOKED_PARTITIONS
    assert context.written() == []


def test_a_member_may_have_given_up_before_it_is_told() -> None:
    """A member that already lists only its target goes directly to the target epoch."""
    context = ConsumerContext()
    a, b = two(context)
    target = context.group.targets["a"][context.id_of("three")]
    assert a.own({"three": sorted(target)}) is ErrorCode.NONE
    assert a.epoch == 3
    assert state_of(context, a) is MemberState.STABLE
    context.reconcile(a, b)
    context.check()


def test_a_newer_target_counts_as_soon_as_all_is_given_up() -> None:
    """If C joins while A revokes for B, A continues with the newer target."""
    context = ConsumerContext()
    a, b = two(context)
    c = context.member("c", "three")
    assert a.beat() is ErrorCode.NONE
    assert c.join().error is ErrorCode.NONE
    context.reconcile(a, b, c)
    assert [one.count for one in (a, b, c)] == [1, 1, 1]
    assert context.epochs == (4, 4)
    context.check()


def test_more_is_to_be_given_up_while_the_member_gives_up() -> None:
    """A member with further revocations stays at its epoch."""
    context = ConsumerContext()
    a, b = two(context)
    assert a.beat() is ErrorCode.NONE
    first = dict(a.owned)
    c = context.member("c", "three")
    assert c.join().error is ErrorCode.NONE
    assert a.own(first) is ErrorCode.NONE
    assert a.count == 1
    assert a.epoch == 2
    assert state_of(context, a) is MemberState.UNREVOKED_PARTITIONS
    context.reconcile(a, b, c)
    context.check()


def test_a_member_gets_back_what_it_has_just_given_up() -> None:
    """A revoked partition that became free again is assigned to the same member."""
    context = ConsumerContext()
    a, b = two(context)
    assert a.beat() is ErrorCode.NONE
    assert b.leave() is ErrorCode.NONE
    assert a.own() is ErrorCode.NONE
    assert (a.count, a.epoch) == (3, 4)
    assert context.state == "Stable"
    context.check()


def test_waiting_members_get_what_is_free_bit_by_bit() -> None:
    """A waiting member gets each partition as soon as the partition is free."""
    context = ConsumerContext()
    a = context.member("a", "two")
    context.joined(a)
    b = context.member("b", "two", "six", assignor="range")
    assert b.join().error is ErrorCode.NONE
    assert state_of(context, b) is MemberState.UNRELEASED_PARTITIONS
    assert b.owned["six"] == [0, 1, 2, 3, 4, 5]
    context.reconcile(a, b)
    assert len(b.owned["two"]) == 1
    context.check()


def test_topics_that_a_member_no_longer_reads_are_given_up_at_once() -> None:
    """Partitions of unsubscribed topics are revoked before the next target is computed.

    The member stays at its epoch.
    """
    context = ConsumerContext(consumer_assignment_interval_ms=1000)
    a = context.member("a", "three", "one")
    context.joined(a)
    assert a.beat(subscribed_topic_names=["one"]) is ErrorCode.NONE
    assert a.owned == {"one": [0]}
    current = context.group.current("a")
    assert (current.epoch, current.previous_epoch) == (2, 2)
    assert current.state is MemberState.UNREVOKED_PARTITIONS
    assert current.revoking == {context.id_of("three"): {0: 2, 1: 2, 2: 2}}
    assert context.state == "Assigning"

    assert a.beat(subscribed_topic_names=[]) is ErrorCode.NONE
    assert context.group.current("a").assigned == {}
    assert len(context.group.current("a").revoking) == 2
    context.written()
    assert a.beat(subscribed_topic_names=["nowhere"]) is ErrorCode.NONE
    assert context.written() == ["member a", "epoch 5"]

    context.broker.advance(1000)
    context.reconcile(a)
    assert a.owned == {}
    context.check()


def test_the_member_may_have_given_up_what_it_no_longer_reads() -> None:
    """A member that no longer owns its unsubscribed topics has nothing to revoke."""
    context = ConsumerContext(consumer_assignment_interval_ms=1000)
    a = context.member("a", "three", "one")
    context.joined(a)
    assert a.own({"one": [0]}, subscribed_topic_names=["one"]) is ErrorCode.NONE
    current = context.group.current("a")
    assert current.state is MemberState.STABLE
    assert current.assigned.keys() == {context.id_of("one")}
    context.check()


def test_a_subscription_that_keeps_what_is_owned_moves_nothing() -> None:
    """A subscription that keeps all owned topics revokes nothing before the next target."""
    context = ConsumerContext(consumer_assignment_interval_ms=1000)
    a = context.member("a", "three")
    context.joined(a)
    context.written()
    assert a.beat(subscribed_topic_names=["three", "one"]) is ErrorCode.NONE
    assert context.written() == ["member a", "epoch 3"]


def test_a_member_that_reads_nothing_moves_on_from_the_epoch_before() -> None:
    """A new subscription to nonexistent topics is recorded, although the epoch stays, as in Kafka.

    The previous epoch becomes equal to the member epoch.
    """
    context = ConsumerContext(consumer_assignment_interval_ms=1000)
    a = context.member("a", "nowhere")
    context.joined(a)
    assert context.group.current("a").previous_epoch == 0
    assert a.beat(subscribed_topic_names=["neither"]) is ErrorCode.NONE
    assert context.group.current("a").previous_epoch == a.epoch == 2
    assert context.written()[-1] == "current a 2"


def test_topics_that_are_deleted_are_given_up() -> None:
    """Partitions of deleted topics must be revoked; the member keeps its other partitions."""
    context = ConsumerContext()
    a = context.member("a", "three", "one")
    context.joined(a)
    context.change_topics(three=0)
    assert a.beat() is ErrorCode.NONE
    assert a.owned == {"one": [0]}
    assert a.epoch == 2
    context.reconcile(a)
    assert context.group.targets["a"] == {context.id_of("one"): {0}}
    context.check()


def test_partitions_keep_the_epoch_at_which_they_were_assigned() -> None:
    """Each partition keeps the epoch of its assignment (KIP-1251)."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    context.change_topics(three=4)
    context.reconcile(a)
    owned = context.group.current("a").assigned[context.id_of("three")]
    assert owned == {0: 2, 1: 2, 2: 2, 3: 3}
    context.check()


def test_a_member_in_a_state_of_a_later_version_has_to_rejoin() -> None:
    """A member in an unknown state gets FENCED_MEMBER_EPOCH until it owns nothing.

    A topic entry without partitions counts as owning something.
    """
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    context.replay(
        (
            ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=2,
                previous_member_epoch=0,
                state=99,
                assigned_partitions=[
                    TopicPartitions(topic_id=context.id_of("three"), partitions=[0, 1, 2])
                ],
            ),
        )
    )
    assert context.state == "Reconciling"
    assert a.beat() is ErrorCode.FENCED_MEMBER_EPOCH
    assert a.own({"three": []}) is ErrorCode.FENCED_MEMBER_EPOCH
    assert a.own({}) is ErrorCode.NONE
    assert (a.count, context.state) == (3, "Stable")
    context.check()
