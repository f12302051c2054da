"""Group, target and member epochs: when they rise, and which epochs a heartbeat may have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.errors import ErrorCode
from tests.unit.core.groups.consumer.context import ConsumerContext, ConsumerMember

SESSION_MS = 45_000


def test_a_new_subscription_raises_the_group_epoch() -> None:
    """A new set of topic names raises the epoch; order and repetitions do not matter."""
    context = ConsumerContext()
    member = context.member("a", "three", "one")
    context.joined(member)
    assert member.own(subscribed_topic_names=["one", "three", "one"]) is ErrorCode.NONE
    assert context.epochs == (2, 2)
    assert member.own(subscribed_topic_names=["one"]) is ErrorCode.NONE
    assert context.epochs == (3, 3)
    context.check()


def test_another_member_may_read_the_same() -> None:
    """A new member raises the epoch, although the metadata hash is unchanged."""
    context = ConsumerContext()
    a, b = context.member("a", "three"), context.member("b", "three")
    context.joined(a)
    hashed = context.group.metadata_hash
    assert b.join().error is ErrorCode.NONE
    assert (context.group.epoch, context.group.metadata_hash) == (3, hashed)
    context.check()


@pytest.mark.parametrize("change", [{"three": 4}, {"three": 0}, {"new": 2}])
def test_topics_that_are_read_and_change_raise_the_epoch(change: dict[str, int]) -> None:
    """More partitions, deletion and creation of a subscribed topic raise the epoch."""
    context = ConsumerContext()
    member = context.member("a", "three", "new")
    context.joined(member)
    context.change_topics(**change)
    assert member.own() is ErrorCode.NONE
    assert context.epochs == (3, 3)
    context.reconcile(member)
    counts = context.broker.topics.counts
    owned = {name: [*range(counts[name])] for name in ("new", "three") if name in counts}
    assert member.owned == owned
    context.check()


def test_other_topics_do_not_matter() -> None:
    """A change of unsubscribed topics changes neither the metadata hash nor the epoch."""
    context = ConsumerContext()
    member = context.member("a", "three")
    context.joined(member)
    context.written()
    context.change_topics(two=5)
    assert member.beat() is ErrorCode.NONE
    assert context.written() == []
    assert context.group.hashed_revision == context.broker.topics.revision


def test_a_greater_epoch_is_fenced() -> None:
    """A higher member epoch gets FENCED_MEMBER_EPOCH and changes nothing."""
    context = ConsumerContext()
    member = context.member("a", "three")
    context.joined(member)
    answer = member.send(member_epoch=9)
    assert answer.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert "a greater member epoch (9) than the one known by the group coordinator (2)" in (
        answer.response.error_message
    )


def test_a_smaller_epoch_is_fenced_but_for_the_previous_one() -> None:
    """The previous epoch is accepted only without partitions outside the assignment.

    A member sends its previous epoch if the last response got lost; other lower epochs are fenced.
    """
    context = ConsumerContext()
    a, b = context.member("a", "three"), context.member("b", "three")
    context.joined(a)
    assert b.join().error is ErrorCode.NONE
    assert (b.epoch, context.group.current("b").previous_epoch) == (3, 0)
    context.reconcile(a, b)
    current = context.group.current("a")
    assert (current.epoch, current.previous_epoch) == (3, 2)
    assert a.own(a.owned, member_epoch=2) is ErrorCode.NONE
    assert a.own({}, member_epoch=2) is ErrorCode.NONE
    assert a.own({"three": [], "one": []}, member_epoch=2) is ErrorCode.FENCED_MEMBER_EPOCH
    assert a.own({"three": [0, 1, 2]}, member_epoch=2) is ErrorCode.FENCED_MEMBER_EPOCH
    answer = a.send(member_epoch=2)
    assert answer.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert "a smaller member epoch (2)" in answer.response.error_message
    assert a.own({}, member_epoch=1) is ErrorCode.FENCED_MEMBER_EPOCH
    context.check()


def test_a_member_joins_again() -> None:
    """Epoch 0 is always accepted and acknowledges that all partitions are revoked."""
    context = ConsumerContext()
    a, b = context.member("a", "three"), context.member("b", "three")
    context.joined(a)
    assert b.join().error is ErrorCode.NONE
    assert a.beat() is ErrorCode.NONE
    assert context.group.current("a").revoking
    assert a.join().error is ErrorCode.NONE
    assert a.epoch == 3
    assert context.group.current("a").revoking == {}
    context.check()


def test_the_assignment_waits_for_its_interval() -> None:
    """During the assignment interval the group is Assigning and members keep their epochs.

    Any heartbeat after the interval computes the target.
    """
    context = ConsumerContext(consumer_assignment_interval_ms=1000)
    a, b = context.member("a", "three"), context.member("b", "three")
    assert a.join().error is ErrorCode.NONE
    assert b.join().error is ErrorCode.NONE
    assert (b.epoch, b.owned) == (2, {})
    assert (context.state, context.epochs) == ("Assigning", (3, 2))
    context.broker.advance(999)
    assert a.own() is ErrorCode.NONE
    assert context.state == "Assigning"
    context.broker.advance(1)
    assert a.own() is ErrorCode.NONE
    assert (context.state, context.epochs) == ("Reconciling", (3, 3))
    context.reconcile(a, b)
    assert (a.count, b.count) in {(1, 2), (2, 1)}
    context.check()


def leaves(member: ConsumerMember) -> None:
    """Let the member leave for good."""
    assert member.leave() is ErrorCode.NONE


def leaves_and_expires(member: ConsumerMember) -> None:
    """Let the member leave for a while and not return within its session."""
    assert member.leave(-2) is ErrorCode.NONE
    member.broker.advance(SESSION_MS)


def stays_silent(member: ConsumerMember) -> None:
    """Let the member miss its session timeout."""
    member.broker.advance(SESSION_MS)


@pytest.mark.parametrize("goes", [leaves, leaves_and_expires, stays_silent])
def test_the_first_member_after_the_last_is_assigned_at_once(
    goes: Callable[[ConsumerMember], None],
) -> None:
    """The first member of an empty group is assigned at once, even in the assignment interval.

    Kafka behaves so since 4.4.
    """
    context = ConsumerContext(consumer_assignment_interval_ms=10 * SESSION_MS)
    a, b = (context.member(name, "three", instance_id="i") for name in "ab")
    assert a.join().error is ErrorCode.NONE
    goes(a)
    assert (context.state, context.epochs) == ("Empty", (3, 3))
    context.broker.crash()
    assert b.join().error is ErrorCode.NONE
    assert (b.epoch, b.owned) == (4, {"three": [0, 1, 2]})
    assert (context.state, context.epochs) == ("Stable", (4, 4))
    context.check()


def test_a_member_that_leaves_others_behind_assigns_nothing() -> None:
    """Remaining members are reassigned only after the assignment interval."""
    context = ConsumerContext(consumer_assignment_interval_ms=1000)
    a, b = context.member("a", "three"), context.member("b", "three")
    assert a.join().error is ErrorCode.NONE
    assert b.join().error is ErrorCode.NONE
    leaves(b)
    assert (context.state, context.epochs) == ("Assigning", (4, 2))


def test_the_group_may_have_an_interval_of_its_own() -> None:
    """The group's own assignment interval overrides the broker's."""
    context = ConsumerContext(consumer_assignment_interval_ms=1000)
    context.broker.configs["consumer.assignment.interval.ms"] = "0"
    a, b = context.member("a", "three"), context.member("b", "three")
    context.joined(a, b)
    assert context.epochs == (3, 3)


def test_a_clock_that_was_set_back_does_not_hold_up_the_assignment() -> None:
    """If the clock was set back, a target with a future time is recomputed at once."""
    context = ConsumerContext(consumer_assignment_interval_ms=1000)
    a, b = context.member("a", "three"), context.member("b", "three")
    assert a.join().error is ErrorCode.NONE
    context.broker.clock.time_ms -= 500
    assert b.join().error is ErrorCode.NONE
    assert context.epochs == (3, 3)


def test_a_new_member_may_own_what_nobody_owned() -> None:
    """A new member gets unowned partitions in its joining heartbeat, at the target's epoch."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    context.change_topics(three=6)
    b = context.member("b", "three")
    assert b.join().error is ErrorCode.NONE
    assert b.epoch == 3
    assert b.owned == {"three": [3, 4, 5]}
    context.reconcile(a, b)
    context.check()
