"""Static members of streams groups: return, fencing, and timeouts (KIP-1071)."""

from __future__ import annotations

import pytest

from protocol.apis.streams_group_heartbeat import StreamsTaskOffset
from protocol.errors import ErrorCode
from tests.unit.core.groups.streams.context import StreamsContext, StreamsMember

E = ErrorCode


def static(context: StreamsContext, member_id: str) -> StreamsMember:
    """Return a member that has joined with the instance id "i"."""
    member = context.member(member_id)
    assert member.join(instance_id="i").error is E.NONE
    return member


def test_a_member_that_is_back_has_its_tasks() -> None:
    """A static member that left for a while takes over under another id.

    The group epoch stays.
    """
    context = StreamsContext()
    a = static(context, "a")
    tasks, epoch = a.active, context.group.epoch
    assert a.leave(member_epoch=-2, instance_id="i") is E.NONE
    assert context.group.members.keys() == {"a"}
    assert context.group.current("a").epoch == -2
    b = context.member("b")
    answer = b.join(instance_id="i", process_id=a.process).response
    assert (answer.error_code, answer.member_epoch) == (E.NONE, epoch)
    assert b.active == tasks
    assert context.group.members.keys() == {"b"}
    assert context.group.static_ids == {"i": "b"}
    assert context.group.epoch == epoch
    assert a.beat(instance_id="i") is E.FENCED_INSTANCE_ID
    assert a.leave(instance_id="i") is E.FENCED_INSTANCE_ID
    assert a.beat(member_epoch=2) is E.UNKNOWN_MEMBER_ID
    assert b.beat(instance_id="i") is E.NONE
    context.check()


def test_another_process_raises_the_epoch() -> None:
    """A static member that returns with another process id triggers a new assignment."""
    context = StreamsContext()
    a = static(context, "a")
    epoch = context.group.epoch
    a.leave(member_epoch=-2, instance_id="i")
    context.member("b").join(instance_id="i", process_id="elsewhere")
    assert context.group.epoch == epoch + 1
    context.check()


def test_an_instance_id_in_use() -> None:
    """The instance id of a member that has not left cannot be taken over, even by that member."""
    context = StreamsContext()
    static(context, "a")
    for member_id in ("a", "b"):
        response = context.member(member_id).join(instance_id="i").response
        assert response.error_code == E.UNRELEASED_INSTANCE_ID
        assert response.error_message == (
            f"Static member {member_id} with instance id i cannot join the group because the "
            "instance id is owned by a member."
        )


def test_unknown_instance_ids() -> None:
    """Heartbeats and leaves with an unknown instance id are refused."""
    context = StreamsContext()
    a = static(context, "a")
    for response in (a.send(instance_id="j"), a.send(member_epoch=-2, instance_id="j")):
        assert response.error is E.UNKNOWN_MEMBER_ID
        assert response.response.error_message == "Instance id j is unknown."


def test_a_static_member_leaves_for_good() -> None:
    """A static member that leaves for good frees its tasks and its instance id at once."""
    context = StreamsContext()
    a = static(context, "a")
    assert a.leave(instance_id="i") is E.NONE
    assert context.group.static_ids == {}
    static(context, "b")


def test_a_static_member_in_a_full_group() -> None:
    """In a full group a static member can return, also under another id."""
    context = StreamsContext(streams_max_size=1)
    a = static(context, "a")
    a.leave(member_epoch=-2, instance_id="i")
    assert context.member("b").join().error is E.GROUP_MAX_SIZE_REACHED
    static(context, "c")


def test_a_static_member_that_stays_away() -> None:
    """The session of an absent static member ends at the usual time."""
    context = StreamsContext()
    a = static(context, "a")
    a.leave(member_epoch=-2, instance_id="i")
    context.broker.advance(context.group.settings.streams_session_timeout_ms + 1)
    assert not context.group.members
    assert context.group.static_ids == {}


def test_a_static_member_takes_over_with_the_id_of_another_member() -> None:
    """The new assignment, not the predecessor's target, becomes the target of the reused id."""
    context = StreamsContext({"three": 1})
    a = context.member("a")
    assert a.join().error is E.NONE
    every = a.active
    gone = static(context, "s")
    assert gone.leave(member_epoch=-2, instance_id="i") is E.NONE
    again = context.member("a")
    assert again.join(instance_id="i", process_id="elsewhere").error is E.NONE
    assert context.group.members.keys() == {"a"}
    target = context.group.targets["a"].active
    assert {name: sorted(partitions) for name, partitions in target.items()} == every
    context.check()


@pytest.mark.parametrize(("member_id", "offsets"), [("a", []), ("b", [7])])
def test_the_offsets_of_a_static_member_that_returns(member_id: str, offsets: list[int]) -> None:
    """Kafka removes the offsets in a request that reuses the member id of the predecessor."""
    context = StreamsContext()
    a = static(context, "a")
    assert a.leave(member_epoch=-2, instance_id="i") is E.NONE
    again = context.member(member_id)
    report = [StreamsTaskOffset(subtopology_id="0", partition=0, offset=7)]
    answer = again.join(instance_id="i", process_id=a.process, task_offsets=report)
    assert answer.error is E.NONE
    (described,) = context.describe().members
    assert [entry.offset for entry in described.task_offsets] == offsets
    context.check()
