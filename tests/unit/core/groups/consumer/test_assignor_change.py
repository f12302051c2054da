"""A member that names another assignor triggers a new assignment (KIP-848)."""

from __future__ import annotations

from protocol.errors import ErrorCode
from tests.unit.core.groups.consumer.context import ConsumerContext


def test_another_assignor_raises_the_group_epoch() -> None:
    """The epoch rises if and only if the group's chosen assignor changes."""
    context = ConsumerContext()
    a, b = context.member("a", "three"), context.member("b", "three")
    context.joined(a, b)
    epoch = context.group.epoch
    # Naming the default assignor explicitly is no change.
    assert a.beat(server_assignor="uniform") is ErrorCode.NONE
    assert context.group.epoch == epoch
    assert a.beat(server_assignor="range") is ErrorCode.NONE
    assert context.group.epoch == epoch + 1
    assert b.beat(server_assignor="range") is ErrorCode.NONE
    assert a.beat(server_assignor="uniform") is ErrorCode.NONE
    assert context.group.preferred_assignor(context.group.members) == "uniform"
    assert context.group.epoch == epoch + 2
    context.check()


def test_a_joining_member_may_change_the_assignor() -> None:
    """A joining member can change the assignor, also without any subscription."""
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    epoch = context.group.epoch
    assert context.member("b").join(server_assignor="range").error is ErrorCode.NONE
    assert context.group.epoch == epoch + 1


def test_a_static_member_comes_back_with_another_assignor() -> None:
    """A returning static member's vote replaces its previous vote."""
    context = ConsumerContext()
    a = context.member("a", "three", instance_id="i")
    assert a.join().error is ErrorCode.NONE
    epoch = context.group.epoch
    assert a.leave(-2) is ErrorCode.NONE
    b = context.member("b", "three", instance_id="i")
    assert b.join(server_assignor="range").error is ErrorCode.NONE
    assert context.group.epoch == epoch + 1
    context.check()
