"""StreamsGroupHeartbeat: joins, epochs, refused requests, and what raises the group epoch."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.core.groups.streams.status import StatusCode
from protocol.apis.streams_group_heartbeat import (
    StreamsKeyValue,
    StreamsSubtopology,
    StreamsTaskOffset,
    StreamsTopology,
)
from protocol.errors import ErrorCode
from tests.harness.one_group import GROUP
from tests.harness.topologies import internal, subtopology, topology
from tests.unit.core.groups.streams.context import (
    StreamsContext,
    listed,
    statuses,
)

MANY = [f"n{number}" for number in range(4_000)]


def test_the_first_member_gets_all_tasks() -> None:
    """The first member gets epoch 2, all tasks, and the intervals that a client needs."""
    context = StreamsContext()
    member = context.member("m")
    answer = member.join()
    response = answer.response
    assert (response.member_id, response.member_epoch) == ("m", 2)
    assert response.heartbeat_interval_ms == 5000
    assert (response.acceptable_recovery_lag, response.task_offset_interval_ms) == (10_000, 60_000)
    assert (response.standby_tasks, response.warmup_tasks, response.status) == ([], [], [])
    assert member.active == {"0": [0, 1, 2]}
    assert context.epochs == (2, 2)
    assert context.state == "Stable"
    context.check()
    answer = member.own()
    assert answer.response.active_tasks is None
    assert answer.response.member_epoch == 2


def test_two_members_share_the_tasks() -> None:
    """The second member gets its tasks after the first member has released them."""
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first)
    assert second.join().response.member_epoch == 3
    assert (second.active, context.state) == ({}, "Reconciling")
    assert first.own().response.member_epoch == 2
    assert first.active == {"0": [0, 1]}
    assert second.own().response.active_tasks is None
    context.check()
    assert first.own().response.member_epoch == 3
    assert second.own().response.member_epoch == 3
    assert second.active == {"0": [2]}
    assert context.state == "Stable"
    context.check()


def test_a_member_that_leaves() -> None:
    """A leave raises the epoch; the next heartbeat of any member computes the target."""
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first, second)
    before = context.group.epoch
    answer = first.send(member_epoch=-1)
    assert (answer.response.member_epoch, answer.response.status) == (-1, [])
    assert answer.response.heartbeat_interval_ms == 0
    assert context.epochs == (before + 1, before)
    assert context.state == "Assigning"
    assert first.leave() is ErrorCode.UNKNOWN_MEMBER_ID
    second.own()
    assert second.active == {"0": [0, 1, 2]}
    second.leave()
    assert context.state == "Empty"
    assert second.send(member_epoch=5).error is ErrorCode.UNKNOWN_MEMBER_ID
    context.check()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"warmup_tasks": listed({"0": [1]})}, "WarmupTasks must be empty when (re-)joining."),
        (
            {"topology": topology(StreamsSubtopology(source_topic_regex=["t.*"]))},
            "Regular expressions for source topics are not supported yet.",
        ),
        ({"member_id": "\x01 "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby_tasks": listed({"0": [1]})}, "StandbyTasks must be empty when (re-)joining."),
        ({"warmup_tasks": None}, "WarmupTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        (
            {"member_epoch": -3},
            "MemberEpoch is -3, but must be greater than or equal to -2.",
        ),
        (
            {"member_epoch": 1, "active_tasks": None},
            "If one task-type is non-null, all must be non-null.",
        ),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
    ],
)
def test_malformed_requests(fields: dict[str, Any], message: str) -> None:
    """Malformed requests are refused before the group is looked up, in Kafka's order."""
    context = StreamsContext()
    response = context.member("m").join(**fields).response
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert context.broker.any_group is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            topology(subtopology("0", "one", changelogs=[internal("c", 2)])),
            "Changelog topic c must have an undefined partition count, but it is set to 2.",
        ),
        (
            topology(
                subtopology("0", "one", "__consumer_offsets", sinks=["__share_group_state", "one"])
            ),
            "Use of Kafka internal topics __consumer_offsets,__share_group_state in a Kafka "
            "Streams topology is prohibited.",
        ),
        (
            topology(
                subtopology("0", "one", "", repartitions=["a/b", "a/b"], changelogs=["c", ".."])
            ),
            "Topic names ,a/b,.. are not valid topic names.",
        ),
    ],
)
def test_names_and_sizes_that_no_topology_may_have(asked: Any, message: str) -> None:
    """Invalid names and sizes of a topology are refused before the group is looked up."""
    response = StreamsContext().member("m", asked).join().response
    expected = ErrorCode.STREAMS_INVALID_TOPOLOGY, message
    assert (response.error_code, response.error_message) == expected


@pytest.mark.parametrize(
    "asked",
    [
        topology(*(subtopology(str(number), "one") for number in range(4_001))),
        topology(subtopology("0", *(f"t{number}" for number in range(4_000)))),
        topology(
            subtopology("0", "one", changelogs=[internal("c", configs=dict.fromkeys(MANY, "v"))])
        ),
        topology(subtopology("0", "one", joined=[([0] * 4_000, [])])),
        topology(subtopology("0", "one"), subtopology("1", *MANY), subtopology("2", *MANY)),
    ],
    ids=["subtopologies", "topics", "configs", "joined topics", "more topics"],
)
def test_topologies_that_would_hold_others_up(asked: StreamsTopology) -> None:
    """Topologies of more than 4000 entries are refused at once, unlike in Kafka."""
    context = StreamsContext()
    response = context.member("m", asked).join().response
    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert response.error_message == "A topology of more than 4000 entries is not served."
    assert context.broker.any_group is None


def test_more_tags_than_anybody_has() -> None:
    """A member with more than 4000 client tags is refused."""
    member = StreamsContext().member("m", tags=dict.fromkeys([*MANY, "one more"], ""))
    response = member.join().response
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "More than 4000 client tags are not served."


def test_groups_that_do_not_exist() -> None:
    """Only a join creates a group; as in Kafka, a heartbeat and a leave get different texts."""
    member = StreamsContext().member("m")
    response = member.send(member_epoch=1).response
    expected = ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {GROUP} not found."
    assert (response.error_code, response.error_message) == expected
    response = member.send(member_epoch=-1).response
    expected = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found."
    assert (response.error_code, response.error_message) == expected


def test_unknown_members() -> None:
    """An unknown streams member gets UNKNOWN_MEMBER_ID at any epoch."""
    context = StreamsContext()
    context.joined(context.member("m"))
    stranger = context.member("s")
    for epoch in (-1, 1, 9):
        response = stranger.send(member_epoch=epoch).response
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert response.error_message == f"Member s is not a member of group {GROUP}."


def test_epochs_that_are_not_right() -> None:
    """Wrong epochs are fenced, but the previous epoch is accepted if the member lists its tasks.

    A member sends its previous epoch if the last response got lost.
    """
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first)
    second.join()
    first.own()
    assert first.own().response.member_epoch == 3
    too_large = first.send(member_epoch=4).response
    assert too_large.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert too_large.error_message == (
        "The streams group member has a greater member epoch (4) than the one known by the group "
        "coordinator (3). The member must abandon all its partitions and rejoin."
    )
    for epoch, active, standby in (
        (1, None, None),
        (2, {"0": [2]}, None),
        (2, {"7": [0]}, None),
        (2, None, {"0": [0]}),
    ):
        answer = first.own(active, standby, member_epoch=epoch)
        assert answer.response.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert f"has a smaller member epoch ({epoch}) than" in answer.response.error_message
    assert first.beat(member_epoch=2) is ErrorCode.FENCED_MEMBER_EPOCH
    assert first.own(member_epoch=2).error is ErrorCode.NONE
    assert first.epoch == 3
    context.check()


def test_joining_again_is_no_news() -> None:
    """A rejoin returns the whole assignment again and writes no record."""
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    records = len(context.broker.log)
    member.active = {}
    assert member.join().response.member_epoch == 2
    assert member.active == {"0": [0, 1, 2]}
    assert len(context.broker.log) == records


def test_a_full_group() -> None:
    """A full group refuses new members, but its own members may rejoin."""
    context = StreamsContext(streams_max_size=1)
    member = context.member("m")
    context.joined(member)
    response = context.member("n").join().response
    assert response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert response.error_message == (
        "The streams group has reached its maximum capacity of 1 members."
    )
    assert member.join().error is ErrorCode.NONE
    assert member.own(task_offsets=[StreamsTaskOffset()]).error is ErrorCode.NONE


def test_what_a_member_says_of_itself_raises_the_epoch() -> None:
    """Each changed field of a member raises the epoch; null leaves a field unchanged."""
    context = StreamsContext()
    member = context.member("m", tags={"zone": "a"}, endpoint=("host", 9))
    member.join(rack_id="r")
    epoch = context.group.epoch
    assert context.group.members["m"].tags == {"zone": "a"}
    assert context.group.members["m"].endpoint == ("host", 9)
    assert member.own(rack_id="r").error is ErrorCode.NONE
    assert context.group.epoch == epoch
    for changes in (
        {"rack_id": "s"},
        {"rebalance_timeout_ms": 7},
        {"process_id": "other"},
        {"client_tags": [StreamsKeyValue(key="zone", value="b")]},
    ):
        assert member.own(**changes).error is ErrorCode.NONE
        epoch += 1
        assert context.group.epoch == epoch
    assert context.group.members["m"].rack_id == "s"
    tags = [StreamsKeyValue(key="zone", value="b")] * 2
    assert member.own(client_tags=tags).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert context.group.epoch == epoch
    context.check()


def test_tasks_that_are_not_in_the_topology() -> None:
    """A member that lists tasks outside of the topology is refused."""
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    response = member.own({"7": [0]}).response
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "Subtopology 7 does not exist in the topology."
    for partition in (3, -1):
        response = member.own(standby={"0": [partition]}).response
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert response.error_message == (
            f"Task {partition} for subtopology 0 is invalid. "
            "Number of tasks for this subtopology: 3"
        )


def test_tasks_that_are_listed_twice() -> None:
    """If the broker must read a task list, a subtopology named twice fails the request.

    Kafka does the same.
    """
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first)
    second.join()
    twice = [*listed({"0": [0]}), *listed({"0": [1]})]
    answer = first.send(active_tasks=twice, standby_tasks=[], warmup_tasks=[])
    assert answer.error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_topology_is_not_changed() -> None:
    """A different topology is refused, and an older topology epoch is stale.

    The order of the subtopologies does not matter.
    """
    parts = subtopology("0", "three"), subtopology("1", "two")
    context = StreamsContext()
    context.joined(context.member("a", topology(*parts, epoch=3)))
    assert context.member("b", topology(*reversed(parts), epoch=3)).join().response.status == []
    for changed in (topology(*parts, epoch=4), topology(parts[0], epoch=3)):
        response = context.member("c", changed).join().response
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert response.error_message == "Topology updates are not supported yet."
    stale = context.member("d", topology(parts[0], epoch=2))
    detail = "The member's topology epoch 2 is behind the group's topology epoch 3."
    assert statuses(stale.join())[StatusCode.STALE_TOPOLOGY] == detail
    assert statuses(stale.own())[StatusCode.STALE_TOPOLOGY] == detail
    context.check()


def test_more_partitions_are_more_tasks() -> None:
    """A change of a topic in the topology raises the epoch; a change of another topic does not."""
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    context.change_topics(two=5)
    member.own()
    assert context.epochs == (2, 2)
    context.change_topics(three=4)
    member.own()
    assert context.epochs == (3, 3)
    assert member.active == {"0": [0, 1, 2, 3]}


def test_a_request_to_shut_down_reaches_everybody() -> None:
    """A shutdown request reaches every member until the group is empty.

    The status names the first member that requested the shutdown.
    """
    context = StreamsContext()
    first, second = context.member("a"), context.member("b")
    context.joined(first, second)
    detail = (
        "Streams group member a encountered a fatal error and requested a shutdown for the "
        "entire application."
    )
    expected = {StatusCode.SHUTDOWN_APPLICATION: detail}
    assert statuses(first.own(shutdown_application=True)) == expected
    assert statuses(second.own(shutdown_application=True)) == expected
    assert first.leave(shutdown_application=True) is ErrorCode.NONE
    assert statuses(second.own()) == expected
    assert second.leave() is ErrorCode.NONE
    assert statuses(first.join()) == {}


def test_who_is_no_member_can_ask_to_shut_down() -> None:
    """An unknown member is refused but can request a shutdown of the application, as in Kafka."""
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    stranger = context.member("s")
    assert stranger.leave(shutdown_application=True) is ErrorCode.UNKNOWN_MEMBER_ID
    assert StatusCode.SHUTDOWN_APPLICATION in statuses(member.own())


def test_a_failed_write_changes_nothing() -> None:
    """If a write fails, the member gets the error and the group does not change."""
    context = StreamsContext()
    member = context.member("m")
    context.broker.append_error = lambda: ErrorCode.NOT_ENOUGH_REPLICAS
    assert member.join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert context.broker.any_group is None
    context.broker.append_error = lambda: ErrorCode.NONE
    context.joined(member)
    context.change_topics(three=4)
    context.broker.append_error = lambda: ErrorCode.NOT_ENOUGH_REPLICAS
    assert member.own().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert member.count == 3
    context.broker.append_error = lambda: ErrorCode.NONE
    member.own()
    assert member.count == 4
    context.check()


def test_a_bug_costs_one_request() -> None:
    """A bug fails one request with UNKNOWN_SERVER_ERROR, and the group continues."""
    context = StreamsContext()
    member = context.member("m")
    context.joined(member)
    context.broker.survives_bugs = True
    context.broker.configs["streams.heartbeat.interval.ms"] = "no number"
    assert member.own().failed
    context.broker.configs.clear()
    assert member.own().error is ErrorCode.NONE


def test_requests_to_a_broker_that_is_not_the_coordinator() -> None:
    """A broker that does not coordinate the group returns NOT_COORDINATOR."""
    context = StreamsContext()
    context.broker.unload()
    assert context.member("m").join().error is ErrorCode.NOT_COORDINATOR
