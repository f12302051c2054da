"""Conversion from and to other kinds: classic groups, classic members, records."""

from __future__ import annotations

import pytest

from coordinator_server.core.groups.streams.streams_group import StreamsGroup
from protocol.errors import ErrorCode
from protocol.offsets_log import GroupMetadataKey, GroupMetadataValue
from protocol.streams_group_records import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataKey,
)
from tests.harness.one_group import GROUP, KilledError
from tests.harness.topologies import subtopology, topology
from tests.unit.core.groups.context import commit, leave, offsets
from tests.unit.core.groups.streams.context import (
    StreamsContext,
)


def test_records_of_another_kind_are_no_matter() -> None:
    """Records of other kinds of groups do not prevent loading the log."""
    context = StreamsContext()
    context.joined(context.member("m"))
    key = GroupMetadataKey(group=GROUP)
    assert context.group.replay((key, GroupMetadataValue())) is context.group
    context.check()


def test_committed_offsets_are_kept() -> None:
    """A group with only offsets becomes a streams group and keeps the offsets."""
    context = StreamsContext()
    commit(context.broker, ("three", 0, 7))
    member = context.member("m")
    answer = member.join()
    assert (answer.error, answer.response.endpoint_information_epoch) == (ErrorCode.NONE, 0)
    assert offsets(context.broker) == {("three", 0): (7, "")}
    assert member.count == 3
    context.check()
    context.broker.crash()
    assert context.state == "Stable"
    assert offsets(context.broker) == {("three", 0): (7, "")}


def test_an_endpoint_in_a_group_that_was_there() -> None:
    """The response has the endpoint epoch, although the new streams group does not keep it."""
    context = StreamsContext()
    commit(context.broker, ("three", 0, 7))
    member = context.member("m", endpoint=("h", 1))
    assert member.join().response.endpoint_information_epoch == 1
    assert context.group.endpoint_epoch == 0


def test_a_classic_group_with_members_is_left_alone() -> None:
    """A classic group with members is not converted.

    An empty classic group is converted, and its record is deleted.
    """
    context = StreamsContext()
    classic = context.classic("c", version=3)
    classic.join()
    classic.sync()
    member = context.member("m")
    for answer in (member.join(), member.send(member_epoch=1), member.send(member_epoch=-1)):
        assert answer.response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.response.error_message == f"Group {GROUP} is not a streams group."
    classic.leave()
    member = context.member("m")
    assert member.send(member_epoch=1).response.error_message == (
        f"Group {GROUP} is not a streams group."
    )
    context.joined(member)
    context.check()
    context.broker.crash()
    assert context.state == "Stable"


def test_classic_requests_to_a_streams_group() -> None:
    """A streams group refuses classic joins; other classic requests get UNKNOWN_MEMBER_ID."""
    context = StreamsContext()
    context.joined(context.member("m"))
    classic = context.classic("c")
    response = classic.join().response
    assert (response.error_code, response.member_id) == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "",
    )
    classic.id = "c"
    assert classic.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert classic.sync().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert leave(context.broker, ("c", None)).response.members[0].error_code == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert context.state == "Stable"


def test_a_classic_member_makes_an_empty_group_classic() -> None:
    """A classic join without a member id converts an empty group; its offsets stay."""
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    member.commit(("three", 0, 7))
    member.leave()
    classic = context.classic("c", version=3)
    assert classic.join(member_id="old").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert context.state == "Empty"
    classic.id = ""
    context.broker.append_error = lambda: ErrorCode.NOT_ENOUGH_REPLICAS
    assert classic.join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    context.broker.append_error = lambda: ErrorCode.NONE
    assert classic.join().error is ErrorCode.NONE
    assert classic.generation == 1
    assert context.broker.group is not None
    assert offsets(context.broker) == {("three", 0): (7, "")}
    context.broker.check_replay_law()
    response = context.member("m").join().response
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_joining_classic_member_may_be_refused_by_then() -> None:
    """The group is converted even if the joining classic member is refused, as in Kafka."""
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    member.leave()
    answer = context.classic("c", version=4).join()
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert context.broker.group is not None


def test_records_in_any_order() -> None:
    """Compacted records give the same state in any order."""
    context = StreamsContext({"three": 3, "changelog": 3}, streams_num_standby_replicas=1)
    asked = topology(subtopology("0", "three", changelogs=["changelog"]))
    first = context.member("a", asked, tags={"zone": "z"}, endpoint=("h", 1))
    second = context.member("b", asked)
    context.joined(first)
    second.join(rack_id="r")
    first.own()
    group = context.group
    records = group.state_records()
    for order in (records, records[::-1]):
        again = StreamsGroup(GROUP, context.broker.environment)
        for record in order:
            assert again.replay(record) is again
        assert sorted(map(repr, again.state_records())) == sorted(map(repr, records))
        for task in range(3):
            assert again.holders.runner("0", task) == group.holders.runner("0", task)
        assert again.state == group.state


def test_records_of_earlier_releases() -> None:
    """Records of earlier releases have no settings; tombstones without a target are ignored."""
    group = StreamsGroup(GROUP, StreamsContext().broker.environment)
    assert (group.epoch, group.assignment_epoch) == (1, 1)
    value = StreamsGroupMetadataValue(epoch=5, last_assignment_configs=None)
    group.replay((StreamsGroupMetadataKey(group_id=GROUP), value))
    group.replay((StreamsGroupTargetAssignmentMetadataKey(group_id=GROUP), None))
    group.replay((StreamsGroupMemberMetadataKey(group_id=GROUP, member_id="m"), None))
    assert (group.epoch, group.assignment_configs, group.validated_topology_epoch) == (5, {}, -1)
    assert group.is_subscribed("three") is False
    assert len(group.state_records()) == 2


@pytest.mark.parametrize("survivors", range(9))
def test_a_crash_in_the_midst_of_a_write(survivors: int) -> None:
    """After a crash any prefix of a batch gives a working group."""
    context = StreamsContext()
    member = context.member("m")
    records: list[int] = []

    def some(count: int) -> int | None:
        records.append(count)
        return min(survivors, count)

    context.broker.survivors = some
    with pytest.raises(KilledError):
        member.join()
    context.broker.survivors = lambda _: None
    context.broker.crash()
    answer = member.join()
    assert answer.error is ErrorCode.NONE
    for _ in range(3):
        member.own()
    assert member.count == 3
    context.check()
