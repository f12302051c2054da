"""Descriptions of a streams group: StreamsGroupDescribe, ListGroups, DescribeGroups, states."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from coordinator_server.core.groups.effects import STEP_ITEMS, Effects
from coordinator_server.core.groups.streams.describe import DescribeStreamsGroup, describe
from coordinator_server.core.groups.streams.state import STATE_RULES, StreamsGroupState
from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.apis.list_groups import ListGroupsRequest
from protocol.apis.streams_group_describe import (
    DescribedStreamsAssignment,
    StreamsGroupDescribeRequest,
)
from protocol.apis.streams_group_heartbeat import StreamsTaskOffset
from protocol.errors import ErrorCode
from protocol.streams_group_records import StreamsGroupTopologyKey
from tests.harness.one_group import GROUP
from tests.harness.topologies import internal, subtopology, topology
from tests.unit.core.groups.context import commit
from tests.unit.core.groups.streams.context import (
    StreamsContext,
    listed,
)

CONFIGS = {"retention.ms": "5"}
COUNTS_WORDS = topology(
    subtopology("1", repartitions=["r"], changelogs=[internal("c", configs=CONFIGS)]),
    subtopology("0", "three", "one", sinks=["r"]),
    epoch=4,
)


def tasks(assignment: DescribedStreamsAssignment) -> tuple[Any, ...]:
    """Return active, standby and warm-up tasks."""
    return tuple(
        {one.subtopology_id: one.partitions for one in kind}
        for kind in (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
    )


def topics(described: Any) -> list[Any]:
    """Return each described subtopology in short form."""
    return [
        (
            one.subtopology_id,
            one.source_topics,
            one.repartition_sink_topics,
            [(topic.name, topic.partitions) for topic in one.repartition_source_topics],
            [
                (
                    topic.name,
                    topic.partitions,
                    [(pair.key, pair.value) for pair in topic.topic_configs],
                )
                for topic in one.state_changelog_topics
            ],
        )
        for one in described.topology.subtopologies
    ]


def test_a_group_with_its_members() -> None:
    """The description has epochs, current and target tasks, and the member's own fields."""
    context = StreamsContext()
    first = context.member("a", tags={"zone": "z"}, endpoint=("h", 65535))
    second = context.member("b")
    first.join(rack_id="r")
    second.join()
    first.own()
    described = context.describe(include_authorized_operations=True)
    assert (described.group_id, described.group_state) == (GROUP, "Reconciling")
    assert (described.group_epoch, described.assignment_epoch) == (3, 3)
    assert described.authorized_operations == 3400
    one, other = described.members
    assert (one.member_id, one.member_epoch, one.instance_id, one.rack_id) == ("a", 2, None, "r")
    assert (one.client_id, one.client_host, one.topology_epoch) == ("client", "/127.0.0.1", 0)
    assert one.process_id == "process-a"
    assert one.user_endpoint is not None
    assert (one.user_endpoint.host, one.user_endpoint.port) == ("h", 65535)
    assert [(tag.key, tag.value) for tag in one.client_tags] == [("zone", "z")]
    assert (one.task_offsets, one.task_end_offsets, one.is_classic) == ([], [], False)
    assert tasks(one.assignment) == tasks(one.target_assignment) == ({"0": [0, 1]}, {}, {})
    assert other.user_endpoint is None
    assert tasks(other.assignment) == ({}, {}, {})
    assert tasks(other.target_assignment) == ({"0": [2]}, {}, {})
    assert context.describe().authorized_operations == -(2**31)


def test_the_offsets_that_a_member_reports() -> None:
    """The last report of each kind of offset is described; duplicate offsets are refused.

    The reports are processed in steps.
    """
    context = StreamsContext()
    member = context.member("a")
    context.joined(member)
    many = [StreamsTaskOffset(subtopology_id="0", partition=one) for one in range(501)]
    end = StreamsTaskOffset(subtopology_id="0", partition=0, offset=9)
    assert member.beat(task_offsets=many) is ErrorCode.NONE
    assert member.beat(task_end_offsets=[end]) is ErrorCode.NONE
    assert member.send(task_offsets=[end, end]).response.error_message == (
        "Task offsets contain a duplicate entry for subtopology 0 and partition 0."
    )
    assert member.beat() is ErrorCode.NONE
    (described,) = context.describe().members
    assert [one.partition for one in described.task_offsets] == list(range(501))
    assert [(one.partition, one.offset) for one in described.task_end_offsets] == [(0, 9)]
    reply: Any = SimpleNamespace()
    steps = describe(context.group, DescribeStreamsGroup(GROUP), reply, 0, Effects())
    assert len(list(steps)) == 501 // STEP_ITEMS
    assert reply.response.members == [described]
    assert member.leave() is ErrorCode.NONE
    assert not context.group.task_offsets


def test_the_offsets_of_a_heartbeat_that_fails_are_kept() -> None:
    """Reported offsets are stored, as in Kafka, even if a repeated task list fails the request.

    If a request with an unknown task fails, its offsets are not stored.
    """
    context = StreamsContext()
    member, other = context.member("a"), context.member("b")
    context.joined(member)
    # Once there is a second member, the broker examines the tasks that the first member lists.
    assert other.join().error is ErrorCode.NONE
    twice = [*listed({"0": [0]}), *listed({"0": [1]})]
    for tasks, offset, error in (
        (twice, 7, ErrorCode.UNKNOWN_SERVER_ERROR),
        (listed({"0": [9]}), 8, ErrorCode.INVALID_REQUEST),
    ):
        reported = StreamsTaskOffset(subtopology_id="0", partition=0, offset=offset)
        lists: dict[str, Any] = {"standby_tasks": [], "warmup_tasks": []}
        answer = member.send(active_tasks=tasks, task_offsets=[reported], **lists)
        assert answer.error is error
        described, _ = context.describe().members
        assert [one.offset for one in described.task_offsets] == [7]


def test_the_topology_as_it_came_and_as_it_is() -> None:
    """StreamsGroupDescribe has partition counts of internal topics once the group is ready.

    Before, the counts are those in the member's topology.
    """
    context = StreamsContext({"three": 3, "one": 1})
    member = context.member("m", COUNTS_WORDS)
    member.join()
    described = context.describe()
    assert described.group_state == "NotReady"
    assert described.topology is not None
    assert described.topology.epoch == 4
    assert topics(described) == [
        ("0", ["one", "three"], ["r"], [], []),
        ("1", [], [], [("r", 0)], [("c", 0, [("retention.ms", "5")])]),
    ]
    member.own()
    described = context.describe()
    assert described.group_state == "Stable"
    assert topics(described) == [
        ("0", ["one", "three"], ["r"], [], []),
        ("1", [], [], [("r", 3)], [("c", 3, [("retention.ms", "5")])]),
    ]
    context.broker.crash()
    assert topics(context.describe())[1][3:] == ([("r", 0)], [("c", 0, [("retention.ms", "5")])])


def test_groups_that_are_none() -> None:
    """Groups that cannot be described get Kafka's errors and texts.

    A group without a topology gets UNKNOWN_SERVER_ERROR.
    """
    context = StreamsContext()
    described = context.describe()
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == f"Group {GROUP} not found."
    assert context.describe(group_ids=[""]).error_code == ErrorCode.INVALID_GROUP_ID
    assert commit(context.broker, ("one", 0, 1)) == [ErrorCode.NONE]
    described = context.describe()
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == f"Group {GROUP} is not a streams group."
    context.joined(context.member("m"))
    context.broker.crash()
    context.group.replay((StreamsGroupTopologyKey(group_id=GROUP), None))
    assert context.describe().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert context.state == "NotReady"


def test_a_group_without_a_topology_cannot_go_on() -> None:
    """Heartbeats of a group without a topology fail, as in Kafka."""
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    context.broker.crash()
    context.group.replay((StreamsGroupTopologyKey(group_id=GROUP), None))
    assert member.own().error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not context.group.is_subscribed("three")
    assert member.commit(("three", 0, 1), generation_id_or_member_epoch=1) == [
        ErrorCode.STALE_MEMBER_EPOCH
    ]


def test_many_groups_and_members_are_described_in_steps() -> None:
    """Many groups and members are described in steps, completely and in order."""
    context = StreamsContext(streams_initial_rebalance_delay_ms=1)
    for number in range(501):
        context.member(f"m{number}").join()
    assert len(context.describe().members) == 501
    names = [str(number) for number in range(201)]
    request = StreamsGroupDescribeRequest(group_ids=names)
    groups = context.broker.send(request, 0).response.groups
    assert [group.group_id for group in groups] == names


def test_a_streams_group_in_the_list() -> None:
    """ListGroups shows streams groups with their type; the filter for NotReady is `not_ready`.

    Kafka does the same.
    """
    context = StreamsContext({"three": 3})
    context.member("m", topology(subtopology("0", "lost"))).join()
    for states, count in (([], 1), (["not_ready"], 1), (["NotReady"], 0), (["stable"], 0)):
        request = ListGroupsRequest(states_filter=states, types_filter=["Streams"])
        groups = context.broker.send(request, 5).response.groups
        assert len(groups) == count
    (listed,) = context.broker.send(ListGroupsRequest(), 5).response.groups
    shown = listed.group_id, listed.protocol_type, listed.group_state, listed.group_type
    assert shown == (GROUP, "streams", "NotReady", "streams")


def test_it_is_no_group_of_another_kind() -> None:
    """DescribeGroups shows a streams group as Dead, with the reason since version 6."""
    context = StreamsContext()
    context.joined(context.member("m"))
    described = context.broker.describe(5)
    assert (described.group_state, described.error_code) == ("Dead", ErrorCode.NONE)
    described = context.broker.describe(6)
    assert (described.group_state, described.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert described.error_message == f"Group {GROUP} is not a classic group."
    asked = context.broker.send(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)
    (consumer_group,) = asked.response.groups
    assert consumer_group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert consumer_group.error_message == f"Group {GROUP} is not a consumer group."
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="c",
        rebalance_timeout_ms=1,
        subscribed_topic_names=["three"],
        topic_partitions=[],
    )
    assert context.broker.send(request, 1).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_states() -> None:
    """The first matching rule determines the state; a group goes through every state."""
    assert [state for state, _ in STATE_RULES] == [
        StreamsGroupState.DEAD,
        StreamsGroupState.EMPTY,
        StreamsGroupState.NOT_READY,
        StreamsGroupState.ASSIGNING,
        StreamsGroupState.RECONCILING,
        StreamsGroupState.STABLE,
    ]
    context = StreamsContext({"one": 1}, streams_assignment_interval_ms=10)
    member = context.member("m")
    member.join()
    seen = [context.state]
    context.change_topics(three=3)
    member.own()
    seen.append(context.state)
    context.broker.advance(10)
    member.own()
    seen.append(context.state)
    other = context.member("n")
    context.broker.advance(10)
    other.join()
    seen.append(context.state)
    member.leave()
    other.leave()
    seen.append(context.state)
    group = context.group
    assert "Empty" in repr(group)
    context.broker.unload()
    seen.append(group.state)
    assert seen == ["NotReady", "Assigning", "Stable", "Reconciling", "Empty", "Dead"]
    assert group.is_vacant
    assert not group.is_empty
