"""Leaders: placement, elections when brokers stop and start, moves, epochs, persistence."""

from __future__ import annotations

from collections import Counter

import pytest

from coordinator_server.steps import run_all
from protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.errors import ErrorCode
from storage.topic_catalogue import PartitionLeadership
from tests.harness.clock import START_MS
from tests.harness.nodes import Nodes
from tests.harness.records import batch


def started(**overrides: str) -> Nodes:
    """Return three brokers and topic `t` of six partitions with two replicas each."""
    nodes = Nodes(**overrides)
    nodes.cluster.topics.create("t", 6, {}, 2)
    return nodes


def leaders(nodes: Nodes, topic: str = "t") -> list[int]:
    """Return the leader of each partition."""
    found = nodes.cluster.topics.topic(topic)
    assert found is not None
    return [partition.leader_id for partition in found.partitions]


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_partitions_spread_over_the_brokers(factor: int) -> None:
    """Each broker leads and follows the same number of partitions."""
    nodes = Nodes()
    topic = nodes.cluster.topics.create("t", 6, {}, factor)
    assert Counter(leaders(nodes)) == {1: 2, 2: 2, 3: 2}
    replicas = Counter(one for partition in topic.partitions for one in partition.replicas)
    assert replicas == {1: 2 * factor, 2: 2 * factor, 3: 2 * factor}
    assert all(len(set(partition.replicas)) == factor for partition in topic.partitions)


def test_topics_of_one_partition_spread_as_well() -> None:
    """Topics of one partition are led by different brokers, in a deterministic way."""
    nodes, others = Nodes(), Nodes()
    for one in (nodes, others):
        for number in range(30):
            one.cluster.topics.create(f"topic-{number}", 1, {})
    found = [leaders(nodes, f"topic-{number}")[0] for number in range(30)]
    assert set(found) == {1, 2, 3}
    assert found == [leaders(others, f"topic-{number}")[0] for number in range(30)]


async def test_a_stopped_broker_hands_over_what_it_led() -> None:
    """When a leader stops, the first running replica leads at the next epoch.

    Partitions that the broker did not lead keep their leaders.
    """
    nodes = started()
    before = leaders(nodes)
    await nodes.cluster.stop_broker(2)
    for index, leader_id in enumerate(before):
        partition = nodes.partition("t", index)
        if leader_id == 2:
            assert partition.leader_id == partition.replicas[1]
            assert partition.leader_epoch == 1
        else:
            assert (partition.leader_id, partition.leader_epoch) == (leader_id, 0)


async def test_a_partition_without_a_running_replica_is_offline_until_one_returns() -> None:
    """A partition without a running replica is offline until its broker starts.

    Metadata has LEADER_NOT_AVAILABLE and leader -1.
    """
    nodes = started()
    topic = nodes.cluster.topics.create("single", 3, {}, 1)
    (index,) = [one.index for one in topic.partitions if one.leader_id == 3]
    await nodes.cluster.stop_broker(3)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="single")])
    answer = nodes.ask(request, node_id=1)
    told = {one.partition_index: one for one in answer.topics[0].partitions}[index]
    assert told.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (told.leader_id, told.isr_nodes, told.offline_replicas) == (-1, [], [3])
    assert [one.node_id for one in answer.brokers] == [1, 2]
    await nodes.cluster.start_broker(3)
    partition = nodes.partition("single", index)
    assert (partition.leader_id, partition.leader_epoch) == (3, 2)
    answer = nodes.ask(request, node_id=1)
    assert [one.node_id for one in answer.brokers] == [1, 2, 3]
    assert [one.port for one in answer.brokers] == [9092, 9093, 9094]


async def test_a_broker_that_returns_takes_nothing_from_others() -> None:
    """A returning broker leads only offline partitions; its replicas are in sync again."""
    nodes = started()
    await nodes.cluster.stop_broker(1)
    without = leaders(nodes)
    assert 1 not in without
    await nodes.cluster.start_broker(1)
    assert leaders(nodes) == without


async def test_new_partitions_are_led_by_brokers_that_run() -> None:
    """New partitions are led only by running brokers."""
    nodes = started()
    await nodes.cluster.stop_broker(1)
    topic = nodes.cluster.topics.create("new", 4, {}, 3)
    assert set(leaders(nodes, "new")) == {2, 3}
    assert all(partition.replicas[2] == 1 for partition in topic.partitions)
    added = nodes.cluster.topics.placed(topic, 6)
    run_all(nodes.cluster.topics.add_partitions({topic: added}))
    assert -1 not in leaders(nodes, "new")
    assert len(topic.partitions[5].replicas) == 3


def test_a_move_to_a_broker_without_replica_reassigns_it() -> None:
    """A move to a broker without a replica replaces the leader's replica.

    A move to the leader does nothing.
    """
    nodes = started()
    partition = nodes.partition("t", 0)
    leader_id, follower_id = partition.replicas
    (other_id,) = {1, 2, 3} - set(partition.replicas)
    nodes.move(partition, leader_id)
    assert (partition.leader_id, partition.leader_epoch) == (leader_id, 0)
    nodes.move(partition, follower_id)
    assert (partition.leader_id, partition.leader_epoch) == (follower_id, 1)
    assert partition.replicas == (leader_id, follower_id)
    nodes.move(partition, other_id)
    assert (partition.leader_id, partition.leader_epoch) == (other_id, 2)
    assert partition.replicas == (leader_id, other_id)


def test_batches_carry_the_epoch_of_the_leader() -> None:
    """Batches after an election have the new leader epoch."""
    nodes = started()
    partition = nodes.partition("t", 0)
    partition.append(batch(b"a"), START_MS)
    nodes.move(partition, partition.replicas[1])
    partition.append(batch(b"b"), START_MS)
    assert partition.log.end_offset_of_epoch(0) == (0, 1)
    assert partition.log.end_offset_of_epoch(1) == (1, 2)
    assert partition.leader_epoch_error(0) is ErrorCode.FENCED_LEADER_EPOCH
    assert partition.leader_epoch_error(2) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_readers_learn_where_an_epoch_ended() -> None:
    """The leader answers OffsetForLeaderEpoch, also for epochs without records.

    An epoch above the current epoch is unknown.
    """
    nodes = started()
    partition = nodes.partition("t", 0)
    first, second = partition.replicas
    nodes.move(partition, second)
    partition.append(batch(b"a", b"b"), START_MS)
    nodes.move(partition, first)

    def ask(node_id: int, epoch: int, index: int = 0, current: int = -1) -> tuple[int, ...]:
        asked = OffsetForLeaderPartition(
            partition=index, leader_epoch=epoch, current_leader_epoch=current
        )
        request = OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])]
        )
        (topic,) = (nodes.ask(request, node_id=node_id)).topics
        (told,) = topic.partitions
        return told.error_code, told.leader_epoch, told.end_offset

    assert ask(first, 0) == (ErrorCode.NONE, 0, 0)
    assert ask(first, 1) == (ErrorCode.NONE, 1, 2)
    assert ask(first, 2) == (ErrorCode.NONE, 2, 2)
    assert ask(first, 3) == (ErrorCode.NONE, -1, -1)
    assert ask(first, 1, current=2) == (ErrorCode.NONE, 1, 2)
    assert ask(first, 1, current=1) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert ask(first, 1, current=3) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert ask(second, 1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
    assert ask(first, 1, index=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


async def test_who_leads_is_known_after_a_restart() -> None:
    """Leaders, epochs and replicas survive a restart, also of partitions without records."""
    nodes = started()
    nodes.move(nodes.partition("t", 4), 1)
    await nodes.cluster.stop_broker(1)
    topic = nodes.cluster.topics.topic("t")
    assert topic is not None
    before = topic.leadership()
    await nodes.cluster.stop()
    again = Nodes(nodes.disk)
    topic = again.cluster.topics.topic("t")
    assert topic is not None
    assert topic.leadership() == before
    for partition, kept in zip(topic.partitions, before, strict=True):
        assert partition.leader_epoch == kept.leader_epoch


async def test_a_restart_with_fewer_brokers_elects_among_them() -> None:
    """After a restart with fewer brokers, replicas of missing brokers are dropped.

    The leader epochs continue.
    """
    nodes = started()
    moved = nodes.partition("t", 0)
    nodes.move(moved, 3)
    epoch = moved.leader_epoch
    await nodes.cluster.stop()
    again = Nodes(nodes.disk, 1)
    assert leaders(again) == [1] * 6
    partition = again.partition("t", 0)
    assert partition.replicas == (1,)
    assert partition.leader_epoch == epoch + 1
    await again.cluster.stop()
    assert leaders(Nodes(nodes.disk, 1)) == [1] * 6


def test_one_broker_keeps_no_table() -> None:
    """With broker.count=1 the catalogue of topics has no leaders."""
    nodes = Nodes(None, 1)
    topic = nodes.cluster.topics.create("t", 2, {})
    assert topic.leadership() == (PartitionLeadership(1, 0, (1,)),) * 2
    assert b"leadership" not in nodes.disk.read_file("/data/topics.json")


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(-1, ErrorCode.NONE), (3, ErrorCode.NONE), (4, ErrorCode.INVALID_REPLICATION_FACTOR)],
)
def test_create_topics_takes_as_many_replicas_as_there_are_brokers(
    factor: int, expected: ErrorCode
) -> None:
    """A replication factor above the number of brokers is refused; the default is reduced."""
    nodes = Nodes(default_replication_factor="9")
    topic = CreatableTopic(name="new", num_partitions=2, replication_factor=factor)
    (result,) = (nodes.ask(CreateTopicsRequest(topics=[topic]), node_id=2)).topics
    assert result.error_code == expected
    if not expected:
        assert result.replication_factor == 3


async def test_replicas_may_be_placed_by_hand() -> None:
    """A manual assignment is used as it is, and its first running replica leads."""
    nodes = Nodes()
    await nodes.cluster.stop_broker(3)
    places = [
        CreatableReplicaAssignment(partition_index=0, broker_ids=[3, 2]),
        CreatableReplicaAssignment(partition_index=1, broker_ids=[1, 3]),
    ]
    topic = CreatableTopic(name="new", num_partitions=-1, replication_factor=-1, assignments=places)
    (result,) = (nodes.ask(CreateTopicsRequest(topics=[topic]), node_id=2)).topics
    assert result.error_code == ErrorCode.NONE
    assert leaders(nodes, "new") == [2, 1]
    assert nodes.partition("new", 0).replicas == (3, 2)
