"""Static members: leaving for a while, returning under another id, and conflicts."""

from __future__ import annotations

from coordinator_server.core.groups.consumer.member import MemberState
from protocol.errors import ErrorCode
from tests.unit.core.groups.consumer.context import ConsumerContext, ConsumerMember


def joined(context: ConsumerContext) -> ConsumerMember:
    """Return a static member that owns all of "three"."""
    member = context.member("a", "three", instance_id="i-a")
    context.joined(member)
    return member


def test_a_static_member_leaves_for_a_while() -> None:
    """A static member that leaves for a while keeps its partitions at epoch -2.

    The group epoch stays.
    """
    context = ConsumerContext()
    a = joined(context)
    context.written()
    answer = a.send(member_epoch=-2, instance_id="i-a")
    assert (answer.response.member_id, answer.response.member_epoch) == ("a", -2)
    assert context.written() == ["current a -2"]
    current = context.group.current("a")
    assert (current.epoch, current.previous_epoch) == (-2, 0)
    assert current.assigned == {context.id_of("three"): {0: 0, 1: 0, 2: 0}}
    assert (context.state, context.epochs) == ("Reconciling", (2, 2))
    context.check()


def test_it_comes_back_under_another_id() -> None:
    """A returning static member takes over the state of its predecessor without a new epoch."""
    context = ConsumerContext()
    a = joined(context)
    assert a.leave(-2) is ErrorCode.NONE
    context.written()
    b = context.member("b", "three", instance_id="i-a")
    assert b.join().error is ErrorCode.NONE
    assert context.written() == [
        "-current a",
        "-target a",
        "-member a",
        "member b",
        "target b",
        "current b 0",
        "current b 2",
    ]
    assert (b.epoch, b.count) == (2, 3)
    assert (context.state, context.epochs) == ("Stable", (2, 2))
    assert context.group.static_ids == {"i-a": "b"}
    assert a.beat(member_epoch=2) is ErrorCode.FENCED_INSTANCE_ID
    context.check()


def test_it_comes_back_with_another_subscription() -> None:
    """A return with another subscription causes a new target; the new id replaces the old id."""
    context = ConsumerContext()
    a = joined(context)
    other = context.member("z", "three")
    assert other.join().error is ErrorCode.NONE
    context.reconcile(a, other)
    assert a.leave(-2) is ErrorCode.NONE
    b = context.member("b", "three", "one", instance_id="i-a")
    assert b.join().error is ErrorCode.NONE
    assert context.epochs == (4, 4)
    assert context.group.targets.keys() == {"b", "z"}
    context.reconcile(b, other)
    assert b.owned["one"] == [0]
    context.check()


def test_it_comes_back_while_the_target_is_awaited() -> None:
    """Until there is a new target, a returning member has the old member's target."""
    context = ConsumerContext(consumer_assignment_interval_ms=1000)
    a = joined(context)
    assert a.leave(-2) is ErrorCode.NONE
    b = context.member("b", "three", "one", instance_id="i-a")
    assert b.join().error is ErrorCode.NONE
    assert (b.epoch, b.owned) == (2, {"three": [0, 1, 2]})
    assert context.state == "Assigning"
    context.check()


def test_it_comes_back_under_its_own_id() -> None:
    """A static member can return under its own id as well as under another id."""
    context = ConsumerContext()
    a = joined(context)
    assert a.leave(-2) is ErrorCode.NONE
    assert a.join().error is ErrorCode.NONE
    assert (a.epoch, a.count, context.epochs) == (2, 3, (2, 2))
    context.check()


def test_an_instance_id_in_use_is_not_released() -> None:
    """A used instance id gets UNRELEASED_INSTANCE_ID, also when its own member rejoins."""
    context = ConsumerContext()
    a = joined(context)
    for name in "ab":
        answer = context.member(name, "three", instance_id="i-a").join()
        assert answer.error is ErrorCode.UNRELEASED_INSTANCE_ID
        assert "owned by a member" in answer.response.error_message
    assert a.beat() is ErrorCode.NONE


def test_an_instance_id_that_is_not_known() -> None:
    """An unknown instance id gets UNKNOWN_MEMBER_ID for a heartbeat and for a leave."""
    context = ConsumerContext()
    a = joined(context)
    for epoch in (2, -1, -2):
        answer = a.send(member_epoch=epoch, instance_id="other")
        assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
        assert answer.response.error_message == "Instance id other is unknown."


def test_an_instance_id_of_another_member() -> None:
    """Another member's instance id gets FENCED_INSTANCE_ID for a heartbeat and for a leave."""
    context = ConsumerContext()
    joined(context)
    for epoch in (2, -1, -2):
        answer = context.member("b").send(member_epoch=epoch, instance_id="i-a")
        assert answer.error is ErrorCode.FENCED_INSTANCE_ID
    assert context.group.member_count == 1


def test_the_epoch_of_a_static_member_is_checked() -> None:
    """A static member's heartbeat with a wrong epoch gets FENCED_MEMBER_EPOCH."""
    context = ConsumerContext()
    a = joined(context)
    assert a.beat(member_epoch=7) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_static_member_leaves_for_good() -> None:
    """A static member that leaves for good raises the epoch and frees its instance id."""
    context = ConsumerContext()
    a = joined(context)
    assert a.leave() is ErrorCode.NONE
    assert (context.state, context.group.static_ids) == ("Empty", {})
    assert context.member("b", "three", instance_id="i-a").join().error is ErrorCode.NONE
    context.check()


def test_a_member_that_brings_another_instance_id() -> None:
    """A member that changes its instance id frees the old instance id for another member."""
    context = ConsumerContext()
    a = joined(context)
    a.instance_id = "second"
    assert a.join().error is ErrorCode.NONE
    assert context.group.static_ids == {"second": "a"}
    assert context.group.members["a"].group_instance_id == "second"
    a.instance_id = "i-a"
    assert a.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    b = context.member("b", "three", instance_id="i-a")
    assert b.join().error is ErrorCode.NONE
    assert context.group.static_ids == {"i-a": "b", "second": "a"}
    context.check()


def test_a_static_member_in_a_full_group() -> None:
    """In a full group an absent static member can return under any id; new members cannot join."""
    context = ConsumerContext(consumer_max_size=1)
    a = joined(context)
    assert a.leave(-2) is ErrorCode.NONE
    assert context.member("b", "three").join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert context.member("b", "three", instance_id="i-a").join().error is ErrorCode.NONE
    context.check()


def test_two_static_members_come_back_with_each_others_ids() -> None:
    """Two static members can return with each other's ids.

    Each takes over the state of the other instance, as far as it still exists.
    """
    context = ConsumerContext()
    a = joined(context)
    b = context.member("b", "one", instance_id="i-b")
    assert b.join().error is ErrorCode.NONE
    assert a.leave(-2) is ErrorCode.NONE
    assert b.leave(-2) is ErrorCode.NONE
    assert context.member("a", "one", instance_id="i-b").join().error is ErrorCode.NONE
    assert context.group.static_ids == {"i-b": "a"}
    assert context.member("b", "three", instance_id="i-a").join().error is ErrorCode.NONE
    assert context.group.static_ids == {"i-b": "a", "i-a": "b"}
    context.check()


def test_what_was_to_be_given_up_is_free_when_a_static_member_leaves_for_a_while() -> None:
    """When a revoking static member leaves for a while, the revoked partitions become free.

    The member keeps the partitions of its target.
    """
    context = ConsumerContext()
    a = joined(context)
    b = context.member("b", "three")
    assert b.join().error is ErrorCode.NONE
    assert a.beat() is ErrorCode.NONE
    assert a.leave(-2) is ErrorCode.NONE
    current = context.group.current("a")
    assert (current.revoking, current.state) == ({}, MemberState.UNREVOKED_PARTITIONS)
    assert b.own() is ErrorCode.NONE
    assert b.count == 1
    context.check()


def test_a_new_instance_id_has_no_target_until_the_next_assignment() -> None:
    """A member that waits for partitions and rejoins as a static member no longer waits for them.

    Recorded from Kafka 4.4.0 (ModernGroup.targetAssignment); without an instance id it still waits.
    """
    context = ConsumerContext()
    a, b = context.member("a", "three"), context.member("b", "three")
    context.joined(a)
    assert (b.join().error, b.epoch, b.owned) == (ErrorCode.NONE, 3, {})
    b.instance_id = "i-b"
    assert (b.join().error, b.epoch, b.owned) == (ErrorCode.NONE, 3, {})
    assert a.beat() is ErrorCode.NONE
    assert a.own() is ErrorCode.NONE
    assert (b.beat(), b.owned) == (ErrorCode.NONE, {})
    b.topics = ["three", "one"]
    assert (b.join(member_epoch=3).error, b.epoch) == (ErrorCode.NONE, 4)
    assert b.owned
    context.check()


def test_a_static_member_takes_over_with_the_id_of_another_member() -> None:
    """The new assignment, not the predecessor's target, becomes the target of the reused id."""
    context = ConsumerContext()
    a, gone = context.member("a", "three"), context.member("s", "one", instance_id="i-s")
    context.joined(a)
    assert gone.join().error is ErrorCode.NONE
    assert a.beat() is ErrorCode.NONE
    assert gone.leave(-2) is ErrorCode.NONE
    again = context.member("a", "three", instance_id="i-s")
    assert again.join().error is ErrorCode.NONE
    assert context.group.targets["a"] == {context.id_of("three"): {0, 1, 2}}
    context.reconcile(again)
    assert again.owned == {"three": [0, 1, 2]}
    context.check()
