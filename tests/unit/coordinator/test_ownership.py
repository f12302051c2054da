"""Groups follow the leader of their partition: the coordinator, and a change of the coordinator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator_server.net.call import Call
from coordinator_server.steps import run_all
from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.apis.delete_groups import DeleteGroupsRequest
from protocol.apis.describe_groups import DescribeGroupsRequest
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.apis.list_groups import ListGroupsRequest
from protocol.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.apis.offset_delete import OffsetDeleteRequest
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.apis.sync_group import SyncGroupRequest
from protocol.errors import ErrorCode
from tests.harness.clock import START_MS
from tests.harness.groups import commit_request, join_request
from tests.harness.nodes import Nodes
from tests.harness.records import batch


def started(**overrides: str) -> tuple[Nodes, int, int, int]:
    """Start a cluster with topic `t`; return it, the coordinator of `g` and two further brokers."""
    nodes = Nodes(**overrides)
    nodes.cluster.topics.create("t", 1, {}, 3)
    first = nodes.home("g").leader_id
    second, third = {1, 2, 3} - {first}
    return nodes, first, second, third


def group_tasks(nodes: Nodes) -> list[str]:
    """Return the groups that have a task, on any broker."""
    return sorted(
        f"group {group_id}"
        for broker in nodes.cluster.brokers.values()
        for group_id in broker.groups.tasks
    )


def test_only_the_leader_coordinates() -> None:
    """Only the leader coordinates; other brokers return NOT_COORDINATOR and know the leader."""
    nodes, leader, other, _ = started()
    member_id = nodes.join(leader, "g")
    wrong = ErrorCode.NOT_COORDINATOR
    for node_id in (1, 2, 3):
        assert nodes.find(node_id, "g") == (ErrorCode.NONE, leader, 9091 + leader)
    joined = nodes.ask(join_request("g"), 3, node_id=other)
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    assert joined.error_code == wrong
    assert (nodes.ask(request, 2, node_id=other)).error_code == wrong
    assert (nodes.ask(leave, node_id=other)).error_code == wrong
    assert nodes.heartbeat(other, "g", member_id) == wrong
    assert nodes.commit(other, "g", 1) == wrong
    assert nodes.committed(other, "g") == (wrong, -1)
    described = nodes.ask(DescribeGroupsRequest(groups=["g"]), node_id=other)
    assert described.groups[0].error_code == wrong
    deleted = nodes.ask(DeleteGroupsRequest(groups_names=["g"]), node_id=other)
    assert deleted.results[0].error_code == wrong
    offsets = nodes.ask(OffsetDeleteRequest(group_id="g"), node_id=other)
    assert offsets.error_code == wrong
    listed = {
        node_id: [one.group_id for one in (nodes.ask(ListGroupsRequest(), node_id=node_id)).groups]
        for node_id in (leader, other)
    }
    assert listed == {leader: ["g"], other: []}
    assert nodes.heartbeat(leader, "g", member_id) == ErrorCode.NONE


def test_a_moved_group_goes_on_elsewhere() -> None:
    """A moved group keeps its generation, members and offsets; the old coordinator forgets it."""
    nodes, old, new, _ = started()
    member_id = nodes.join(old, "g")
    home = nodes.home("g")
    request = commit_request("g", 7)
    request.generation_id_or_member_epoch, request.member_id = 1, member_id
    answer = nodes.ask(request, node_id=old)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    nodes.move(home, new)
    nodes.loaded()
    assert nodes.find(old, "g") == (ErrorCode.NONE, new, 9091 + new)
    assert nodes.heartbeat(old, "g", member_id) == ErrorCode.NOT_COORDINATOR
    assert nodes.heartbeat(new, "g", member_id) == ErrorCode.NONE
    assert nodes.committed(new, "g") == (ErrorCode.NONE, 7)
    assert not nodes.cluster.brokers[old].groups.tasks
    assert group_tasks(nodes) == ["group g"]


def test_parked_requests_are_answered_when_the_group_moves() -> None:
    """When a group moves, parked joins and syncs get NOT_COORDINATOR, and their timers end."""
    nodes, old, new, _ = started(group_initial_rebalance_delay_ms="3000")
    join = nodes.send(join_request("g"), 3, node_id=old)
    nodes.turn()
    assert not join.answered
    nodes.move(nodes.home("g"), new)
    assert join.replies[0].error_code == ErrorCode.NOT_COORDINATOR
    nodes.loaded()
    assert not nodes.cluster.brokers[old].groups.tasks
    assert group_tasks(nodes) == ["group g"]  # the new coordinator has the task of the empty group

    nodes, old, new, _ = started()
    leader = nodes.join(old, "g")
    follower = nodes.send(join_request("g"), 3, node_id=old)
    rejoin = nodes.send(_rejoin("g", leader), 3, node_id=old)
    nodes.turn()
    assert rejoin.replies
    joined = follower.replies[0]
    request = SyncGroupRequest(group_id="g", generation_id=2, member_id=joined.member_id)
    sync = nodes.send(request, 2, node_id=old)
    nodes.turn()
    assert not sync.answered
    nodes.move(nodes.home("g"), new)
    assert sync.replies[0].error_code == ErrorCode.NOT_COORDINATOR


def _rejoin(group: str, member_id: str) -> JoinGroupRequest:
    request = join_request(group, member_id)
    request.protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1")]
    return request


def test_while_the_new_coordinator_loads_members_stay_calm() -> None:
    """During the load heartbeats get NONE, other requests COORDINATOR_LOAD_IN_PROGRESS."""
    nodes, old, new, _ = started()
    member_id = nodes.join(old, "g")
    nodes.move(nodes.home("g"), new)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    join = nodes.send(join_request("g", member_id), 3, node_id=new)
    commit = nodes.send(commit_request("g", 1), node_id=new)
    assert join.replies[0].error_code == loading
    assert commit.replies[0].topics[0].partitions[0].error_code == loading
    assert nodes.send(ListGroupsRequest(), node_id=new).replies[0].error_code == loading
    assert nodes.heartbeat(new, "g", member_id) == ErrorCode.NONE


async def test_a_load_that_is_overtaken_is_dropped() -> None:
    """A group that moves on during its load exists only at its last coordinator."""
    nodes, old, passed, last = started()
    assert nodes.commit(old, "g", 5) == ErrorCode.NONE
    home = nodes.home("g")
    for turns in range(12):
        nodes.move(home, passed)
        for _ in range(turns):
            await asyncio.sleep(0)
        nodes.move(home, last)
        nodes.loaded()
        assert not nodes.cluster.brokers[passed].groups.tasks
        assert nodes.commit(passed, "g", 9) == ErrorCode.NOT_COORDINATOR
        assert nodes.committed(last, "g") == (ErrorCode.NONE, 5)
        assert group_tasks(nodes) == ["group g"]


def test_what_was_asked_before_a_move_is_still_done() -> None:
    """A commit in the mailbox is written and acknowledged before the group moves."""
    nodes, old, new, _ = started()
    assert nodes.commit(old, "g", 1) == ErrorCode.NONE
    asked = nodes.send(commit_request("g", 2), node_id=old)
    nodes.move(nodes.home("g"), new)
    assert asked.replies[0].topics[0].partitions[0].error_code == ErrorCode.NONE
    nodes.loaded()
    assert nodes.committed(new, "g") == (ErrorCode.NONE, 2)


def test_the_old_coordinator_cannot_write() -> None:
    """Requests in the mailbox of the old coordinator are refused and not written."""
    nodes, old, new, _ = started()
    assert nodes.commit(old, "g", 1) == ErrorCode.NONE
    home = nodes.home("g")
    end_offset = home.log.log_end_offset
    late = nodes.send(commit_request("g", 2), node_id=old)
    home.begin_leadership(new)
    nodes.turn()
    answered = late.replies[0].topics[0].partitions[0].error_code
    assert answered == ErrorCode.NOT_COORDINATOR
    assert home.log.log_end_offset == end_offset


def test_an_epoch_that_is_over_never_writes_again() -> None:
    """If leadership returns, the partition is reloaded; a handle of an old epoch cannot append."""
    nodes, old, new, _ = started()
    assert nodes.commit(old, "g", 1) == ErrorCode.NONE
    former = nodes.cluster.brokers[old].groups.tasks["g"].partition
    home = nodes.home("g")
    nodes.move(home, new)
    nodes.move(home, old)
    nodes.loaded()
    end_offset = home.log.log_end_offset
    assert former.append([]) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert nodes.cluster.brokers[old].groups.tasks["g"].partition is not former
    assert home.log.log_end_offset == end_offset
    assert nodes.committed(old, "g") == (ErrorCode.NONE, 1)


async def test_a_stopped_coordinator_is_replaced() -> None:
    """The next replica replaces a stopped coordinator and has all committed offsets.

    Parked joins are answered.
    """
    nodes, old, *_ = started()
    new = nodes.home("g").replicas[1]
    assert nodes.commit(old, "g", 3) == ErrorCode.NONE
    nodes.join(old, "g")
    parked = nodes.send(join_request("g"), 3, node_id=old)
    nodes.turn()
    broker = nodes.cluster.brokers[old]
    await nodes.cluster.stop_broker(old)
    assert parked.replies[0].error_code == ErrorCode.NOT_COORDINATOR
    assert broker.groups.unavailable("g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    nodes.loaded()
    assert nodes.find(new, "g") == (ErrorCode.NONE, new, 9091 + new)
    assert nodes.committed(new, "g") == (ErrorCode.NONE, 3)
    assert group_tasks(nodes) == ["group g"]


async def test_a_broker_that_never_saw_a_group_takes_over_all_of_anothers() -> None:
    """A broker can take over several partitions at once before it has served any group."""
    nodes = Nodes(None, 2)
    nodes.cluster.topics.create("t", 1, {})
    homes = [nodes.home(group) for group in ("a", "b", "c", "d", "e", "f")]
    assert len({home.index for home in homes if home.leader_id == 2}) > 1
    await nodes.cluster.stop_broker(2)
    nodes.loaded()
    for group in ("a", "b", "c", "d", "e", "f"):
        assert nodes.commit(1, group, 1) == ErrorCode.NONE


async def test_a_group_whose_partition_is_offline_has_no_coordinator() -> None:
    """A group on an offline partition gets COORDINATOR_NOT_AVAILABLE until its broker is back."""
    nodes, leader, *_ = started(offsets_topic_replication_factor="1")
    (other, *_) = {1, 2, 3} - {leader}
    assert nodes.commit(leader, "g", 3) == ErrorCode.NONE
    await nodes.cluster.stop_broker(leader)
    assert nodes.find(other, "g") == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
    assert nodes.commit(other, "g", 4) == ErrorCode.NOT_COORDINATOR
    await nodes.cluster.start_broker(leader)
    nodes.loaded()
    assert nodes.find(other, "g") == (ErrorCode.NONE, leader, 9091 + leader)
    assert nodes.committed(leader, "g") == (ErrorCode.NONE, 3)


def test_every_broker_follows_a_new_offsets_topic() -> None:
    """After the offsets topic is deleted, the leaders of the new topic start without groups."""
    nodes, leader, *_ = started()
    nodes.join(leader, "g")
    parked = nodes.send(join_request("g"), 3, node_id=leader)
    nodes.turn()
    topic = nodes.cluster.topics.topic(OFFSETS_TOPIC)
    assert topic is not None
    run_all(nodes.cluster.topics.delete([topic]))
    assert parked.replies[0].error_code == ErrorCode.NOT_COORDINATOR
    for node_id in (1, 2, 3):
        assert nodes.find(node_id, "g") == (ErrorCode.NONE, leader, 9091 + leader)
    assert nodes.committed(leader, "g") == (ErrorCode.NONE, -1)
    assert nodes.commit(leader, "g", 1) == ErrorCode.NONE


def test_what_follows_a_refusal_at_once_meets_no_closed_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A parked join is answered when the offsets topic is deleted.

    A commit that the client sends right after this response is served by the new topic.
    """
    nodes, leader, *_ = started(group_initial_rebalance_delay_ms="3000")
    parked = nodes.send(join_request("g"), 3, node_id=leader)
    nodes.turn()
    followed: list[Any] = []
    sound = Call.reply

    def reply_and_go_on(call: Any, response: Any) -> None:
        sound(call, response)
        if call.connection is parked.connection:
            followed.append(nodes.send(commit_request("g", 1), node_id=leader))

    monkeypatch.setattr(Call, "reply", reply_and_go_on)
    topic = nodes.cluster.topics.topic(OFFSETS_TOPIC)
    assert topic is not None
    run_all(nodes.cluster.topics.delete([topic]))
    nodes.turn()
    assert parked.replies[0].error_code == ErrorCode.NOT_COORDINATOR
    assert followed[0].replies[0].topics[0].partitions[0].error_code == ErrorCode.NONE


def test_only_the_leader_serves_a_partition() -> None:
    """Produce, Fetch and ListOffsets on another broker get NOT_LEADER_OR_FOLLOWER.

    The response names the leader.
    """
    nodes, *_ = started()
    partition = nodes.partition("t", 0)
    leader, other, _ = partition.replicas
    topic = nodes.cluster.topics.topic("t")
    assert topic is not None
    wrong = ErrorCode.NOT_LEADER_OR_FOLLOWER
    data = PartitionProduceData(index=0, records=batch(b"a"))
    produce = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(topic_id=topic.topic_id, partition_data=[data])]
    )
    answer = nodes.ask(produce, node_id=other)
    told = answer.responses[0].partition_responses[0]
    assert told.error_code == wrong
    assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (leader, 0)
    assert [(one.node_id, one.port) for one in answer.node_endpoints] == [(leader, 9091 + leader)]
    assert partition.log.log_end_offset == 0
    answer = nodes.ask(_fetch(topic.topic_id, 0), node_id=other)
    told = answer.responses[0].partitions[0]
    assert (told.error_code, told.current_leader.leader_id) == (wrong, leader)
    assert [(one.node_id, one.port) for one in answer.node_endpoints] == [(leader, 9091 + leader)]
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=-1)])
    listed = nodes.ask(ListOffsetsRequest(topics=[asked]), node_id=other)
    assert listed.topics[0].partitions[0].error_code == wrong
    produced = nodes.ask(produce, node_id=leader)
    assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("how", ["moved", "stopped"])
async def test_a_fetch_that_waits_is_told_of_the_new_leader(how: str) -> None:
    """A waiting fetch is answered at once with the id and epoch of the new leader.

    The new leader has the records.
    """
    nodes, *_ = started()
    partition = nodes.partition("t", 0)
    old, new, _ = partition.replicas
    partition.append(batch(b"a"), START_MS)
    topic = nodes.cluster.topics.topic("t")
    assert topic is not None
    parked = nodes.send(_fetch(topic.topic_id, 1), node_id=old)
    nodes.turn()
    assert not parked.answered
    if how == "moved":
        nodes.move(partition, new)
    else:
        await nodes.cluster.stop_broker(old)
    told = parked.replies[0].responses[0].partitions[0]
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (new, 1)
    again = nodes.send(_fetch(topic.topic_id, 1), node_id=new)
    partition.append(batch(b"b"), START_MS)
    nodes.turn()
    assert again.replies[0].responses[0].partitions[0].high_watermark == 2


def _fetch(topic_id: bytes, offset: int) -> FetchRequest:
    one = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic_id=topic_id, partitions=[one])]
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics)
