"""ConsumerGroupDescribe and ListGroups of consumer groups."""

from __future__ import annotations

from coordinator_server.core.groups.consumer.member import ConsumerMember
from coordinator_server.core.groups.consumer.records import member_record
from coordinator_server.core.groups.effects import STEP_ITEMS
from protocol.apis.consumer_group_describe import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    ConsumerGroupDescribeRequest,
    MemberAssignment,
)
from protocol.apis.list_groups import ListGroupsRequest
from protocol.consumer_group_records import ClassicMemberMetadata
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.unit.core.groups.consumer.context import ConsumerContext, Owned


def owned(assignment: MemberAssignment) -> Owned:
    """Return an assignment by topic."""
    return {one.topic_name: list(one.partitions) for one in assignment.topic_partitions}


def test_a_stable_group() -> None:
    """The description has epochs, assignor, and all fields that the member sent."""
    context = ConsumerContext()
    member = context.member("a", "three", "one", instance_id="i", assignor="range")
    assert member.join(rack_id="r").error is ErrorCode.NONE
    group = context.describe()
    assert (group.error_code, group.error_message) == (ErrorCode.NONE, None)
    assert (group.group_id, group.group_state, group.assignor_name) == ("g", "Stable", "range")
    assert (group.group_epoch, group.assignment_epoch) == (2, 2)
    assert group.authorized_operations == -(2**31)
    (shown,) = group.members
    assert (shown.member_id, shown.instance_id, shown.rack_id) == ("a", "i", "r")
    assert (shown.client_id, shown.client_host) == ("client", "/127.0.0.1")
    assert (shown.member_epoch, shown.member_type) == (2, CONSUMER_MEMBER)
    assert (shown.subscribed_topic_names, shown.subscribed_topic_regex) == (["one", "three"], "")
    assert owned(shown.assignment) == {"one": [0], "three": [0, 1, 2]}
    assert owned(shown.target_assignment) == owned(shown.assignment)


def test_what_a_member_has_to_give_up_is_still_its_own() -> None:
    """Partitions to be revoked are shown as assigned; the target shows their new owner."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    assert context.member("b", "three").join().error is ErrorCode.NONE
    assert a.beat() is ErrorCode.NONE
    first, second = context.describe().members
    assert owned(first.assignment) == {"three": [0, 1, 2]}
    assert len(owned(first.target_assignment)["three"]) == 2
    assert owned(second.assignment) == {}
    assert first.member_epoch == 2


def test_topics_that_are_gone_are_not_shown() -> None:
    """Deleted topics are not shown, although the member owns them until it revokes them."""
    context = ConsumerContext()
    a = context.member("a", "three", "one")
    context.joined(a)
    context.change_topics(three=0)
    (shown,) = context.describe().members
    assert owned(shown.assignment) == owned(shown.target_assignment) == {"one": [0]}


def test_a_member_of_the_classic_protocol() -> None:
    """Since version 1 classic members have a separate member type."""
    context = ConsumerContext()
    a = context.member("a", "three")
    context.joined(a)
    context.rewrite("a", classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=6000))
    assert context.describe().members[0].member_type == CLASSIC_MEMBER


def test_groups_that_are_none() -> None:
    """An unknown or classic group gets GROUP_ID_NOT_FOUND, an empty id INVALID_GROUP_ID.

    The texts are Kafka's.
    """
    context = ConsumerContext()
    group = context.describe()
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.error_message == "Group g not found."
    context.classic("c").join()
    group = context.describe()
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.error_message == "Group g is not a consumer group."
    request = ConsumerGroupDescribeRequest(group_ids=[""])
    (group,) = context.broker.send(request, 1).response.groups
    assert group.error_code == ErrorCode.INVALID_GROUP_ID


def test_authorized_operations_are_shown_on_request() -> None:
    """Authorized operations are returned on request: all operations on a group."""
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=True)
    (group,) = context.broker.send(request, 1).response.groups
    assert group.authorized_operations == sum(1 << bit for bit in (3, 6, 8, 10, 11))


def test_a_large_group_is_described_in_steps() -> None:
    """A large group is described in steps and completely."""
    context = ConsumerContext()
    a = context.member("a")
    assert a.join().error is ErrorCode.NONE
    names = [f"m{number}" for number in range(STEP_ITEMS)]
    context.replay(*(member_record(GROUP, ConsumerMember(name)) for name in names))
    assert len(context.describe().members) == STEP_ITEMS + 1


def test_a_group_in_list_groups() -> None:
    """ListGroups shows the state and type by which its filters select the group."""
    context = ConsumerContext()
    context.joined(context.member("a", "three"))
    for states, types, count in (
        ([], [], 1),
        ([" STABLE "], ["Consumer"], 1),
        (["Empty"], [], 0),
        ([], ["classic"], 0),
    ):
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        assert len(context.broker.send(request, 5).response.groups) == count
    (listed,) = context.broker.send(ListGroupsRequest(), 5).response.groups
    assert (listed.group_id, listed.protocol_type) == ("g", "consumer")
    assert (listed.group_state, listed.group_type) == ("Stable", "consumer")
