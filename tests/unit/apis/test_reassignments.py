"""Reassignments and elections requested by clients: moves, waits, and persistence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from coordinator_server.apis import alter_partition_reassignments, elect_leaders
from coordinator_server.steps import Steps
from coordinator_server.topics.names import OFFSETS_TOPIC
from coordinator_server.topics.topic import Reassignment
from protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.apis.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.apis.list_partition_reassignments import ListPartitionReassignmentsRequest
from protocol.errors import ErrorCode
from storage.errors import StorageError
from storage.memory_disk import MemoryDisk
from tests.harness.nodes import Nodes

PREFERRED, UNCLEAN = 0, 1


def started(*places: Sequence[int], disk: MemoryDisk | None = None) -> Nodes:
    """Return three brokers and a topic `t` whose partitions have these replicas."""
    nodes = Nodes(disk)
    topics = nodes.cluster.topics
    list(topics.add([topics.new_topic("t", len(places), {}, places=dict(enumerate(places)))]))
    return nodes


def alter(
    nodes: Nodes, *targets: tuple[int, list[int] | None], topic: str = "t", **fields: Any
) -> list[int]:
    """Return the error codes of AlterPartitionReassignments for partitions of one topic."""
    partitions = [
        ReassignablePartition(partition_index=index, replicas=replicas)
        for index, replicas in targets
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=partitions)], **fields
    )
    answer = nodes.ask(request, node_id=1)
    return [one.error_code for one in answer.responses[0].partitions]


def unfinished(nodes: Nodes) -> dict[int, tuple[list[int], list[int], list[int]]]:
    """Return ListPartitionReassignments: replicas, adding replicas, removing replicas."""
    request = ListPartitionReassignmentsRequest(topics=None)
    answer = nodes.ask(request, node_id=1)
    return {
        one.partition_index: (one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in answer.topics
        for one in topic.partitions
    }


def elect(nodes: Nodes, kind: int, *indexes: int) -> list[int]:
    """Return the error codes of ElectLeaders."""
    asked = [TopicPartitions(topic="t", partitions=list(indexes))]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
    (result,) = (nodes.ask(request, node_id=1)).replica_election_results
    return [one.error_code for one in result.partition_result]


def places(nodes: Nodes) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return leader, leader epoch and replicas of each partition."""
    topic = nodes.cluster.topics.topic("t")
    assert topic is not None
    return [(one.leader_id, one.leader_epoch, one.replicas) for one in topic.partitions]


async def test_leaders_and_replicas_move_and_are_kept() -> None:
    """A leader that loses its replica is replaced; the new state survives a restart."""
    disk = MemoryDisk()
    nodes = started((1, 2), (1, 2), (1, 2), disk=disk)
    assert alter(nodes, (0, [3]), (1, [2, 1]), (2, [1, 3])) == [0, 0, 0]
    expected = [(3, 1, (3,)), (1, 0, (2, 1)), (1, 1, (1, 3))]
    assert places(nodes) == expected
    assert unfinished(nodes) == {}
    assert elect(nodes, PREFERRED, 0, 1) == [ErrorCode.ELECTION_NOT_NEEDED, 0]
    expected[1] = (2, 1, (2, 1))
    assert places(nodes) == expected
    await nodes.cluster.stop()
    again = Nodes(disk)
    assert places(again) == expected
    await again.cluster.stop()


async def test_a_reassignment_waits_for_a_stopped_broker() -> None:
    """A reassignment to a stopped broker is listed and completes when that broker starts."""
    nodes = started((1, 2), (1, 2))
    await nodes.cluster.stop_broker(3)
    assert alter(nodes, (0, [3, 2]), (1, [2, 1, 3])) == [0, 0]
    assert unfinished(nodes) == {0: ([3, 2, 1], [3], [1]), 1: ([2, 1, 3], [3], [])}
    assert places(nodes) == [(1, 0, (3, 2, 1)), (1, 0, (2, 1, 3))]
    assert elect(nodes, PREFERRED, 0, 1) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 0]
    await nodes.cluster.start_broker(3)
    assert unfinished(nodes) == {}
    assert places(nodes) == [(3, 1, (3, 2)), (2, 1, (2, 1, 3))]
    await nodes.cluster.stop()


async def test_an_unfinished_reassignment_is_finished_by_a_restart() -> None:
    """A restart completes unfinished reassignments, as all brokers of a process start together."""
    disk = MemoryDisk()
    nodes = started((1, 2), disk=disk)
    await nodes.cluster.stop_broker(3)
    assert alter(nodes, (0, [2, 3])) == [0]
    recorded = nodes.cluster.topics.logs.topics()["t"].leadership
    assert recorded == ((1, 0, (2, 3, 1), (3,), (1,)),)
    await nodes.cluster.stop()
    again = Nodes(disk)
    assert places(again) == [(2, 1, (2, 3))]
    assert again.partition("t", 0).reassignment is None
    await again.cluster.stop()


async def test_a_reassignment_is_cancelled() -> None:
    """Cancelling restores the old replicas; cancelling again gets NO_REASSIGNMENT_IN_PROGRESS."""
    nodes = started((1, 2))
    await nodes.cluster.stop_broker(3)
    assert alter(nodes, (0, [3])) == [0]
    assert nodes.partition("t", 0).reassignment == Reassignment((3,), (1, 2))
    assert alter(nodes, (0, None)) == [0]
    assert places(nodes) == [(1, 1, (1, 2))]
    assert alter(nodes, (0, None)) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
    await nodes.cluster.stop()


async def test_an_offline_partition_is_not_led_by_a_replica_that_it_gets() -> None:
    """A new replica leads an offline partition only after an unclean election."""
    nodes = started((2,), (2,))
    await nodes.cluster.stop_broker(2)
    not_available = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert elect(nodes, UNCLEAN, 0, 1) == [not_available, not_available]
    assert alter(nodes, (0, [3]), (1, [3])) == [0, 0]
    assert places(nodes) == [(-1, 1, (3, 2)), (-1, 1, (3, 2))]
    assert elect(nodes, PREFERRED, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert elect(nodes, UNCLEAN, 0) == [0]
    assert places(nodes)[0][0] == 3
    assert unfinished(nodes) == {1: ([3, 2], [3], [2])}
    await nodes.cluster.start_broker(2)
    assert [(leader, replicas) for leader, _, replicas in places(nodes)] == [(3, (3,))] * 2
    await nodes.cluster.stop()


async def test_a_cancellation_may_need_an_unclean_election() -> None:
    """A cancellation that needs an unclean election is refused unless the topic allows one.

    If the topic allows such elections, the partition has no leader afterwards.
    """
    nodes = started((2,))
    await nodes.cluster.stop_broker(2)
    await nodes.cluster.stop_broker(1)
    topic = nodes.cluster.topics.topic("t")
    assert topic is not None
    partition = nodes.partition("t", 0)
    leadership = nodes.cluster.topics.leadership
    assert leadership.reassign(partition, (1, 3))
    leadership.lead(partition, 3)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[ReassignablePartition()])]
    )
    answer = nodes.ask(request, node_id=3)
    (result,) = answer.responses[0].partitions
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert result.error_message == (
        "Unable to revert partition assignment for t:0 because it would require an unclean leader "
        "election."
    )
    topic.configs = {"unclean.leader.election.enable": "true"}
    answer = nodes.ask(request, node_id=3)
    assert [one.error_code for one in answer.responses[0].partitions] == [0]
    assert (partition.leader_id, partition.replicas) == (-1, (2,))
    await nodes.cluster.stop()


async def test_the_number_of_replicas_may_be_kept() -> None:
    """A fixed replication factor counts the target replicas of an unfinished reassignment."""
    nodes = started((1, 2))
    await nodes.cluster.stop_broker(3)
    no_change: dict[str, Any] = {"allow_replication_factor_change": False}
    refused = ErrorCode.INVALID_REPLICATION_FACTOR
    assert alter(nodes, (0, [1]), (0, [3]), **no_change) == [refused, refused]
    assert alter(nodes, (0, [3])) == [0]
    assert alter(nodes, (0, [2, 1]), (0, [2]), **no_change) == [refused, 0]
    await nodes.cluster.stop()


async def test_a_group_stays_where_its_leader_stays() -> None:
    """A new leader epoch on the same broker does not disturb the group's members."""
    nodes = Nodes(offsets_topic_replication_factor="2")
    nodes.cluster.topics.create("t", 1, {})
    home = nodes.home("g")
    neighbour = next(name for name in map(str, range(100)) if nodes.home(name) is home)
    leader_id, follower_id = home.replicas
    nodes.loaded()
    member_id = nodes.join(leader_id, "g")
    assert alter(nodes, (home.index, [leader_id]), topic=OFFSETS_TOPIC) == [0]
    assert home.leader_epoch == 1
    assert nodes.heartbeat(leader_id, "g", member_id) == ErrorCode.NONE
    assert nodes.commit(leader_id, neighbour, 7) == ErrorCode.NONE
    assert alter(nodes, (home.index, [follower_id]), topic=OFFSETS_TOPIC) == [0]
    nodes.loaded()
    assert nodes.heartbeat(leader_id, "g", member_id) == ErrorCode.NOT_COORDINATOR
    assert nodes.heartbeat(follower_id, "g", member_id) == ErrorCode.NONE
    await nodes.cluster.stop()


async def test_what_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions whose change cannot be written get the disk error; other partitions change."""
    nodes = started((1, 2), (1, 2))

    def fail(topics: object) -> Steps:
        yield
        raise StorageError("no space left")

    monkeypatch.setattr(nodes.cluster.topics, "_leadership_steps", fail)
    storage = ErrorCode.KAFKA_STORAGE_ERROR
    assert alter(nodes, (0, [2, 1]), (1, [1, 2])) == [storage, 0]
    assert elect(nodes, PREFERRED, 0, 1) == [storage, ErrorCode.ELECTION_NOT_NEEDED]
    await nodes.cluster.stop()


async def test_too_many_changes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reassignments beyond the limit fail; too many elections fail entirely, as in Kafka."""
    for module in (alter_partition_reassignments, elect_leaders):
        monkeypatch.setattr(module, "MAX_RECORDS_PER_REQUEST", 2)
    nodes = started((1, 2), (1, 2), (1, 2))
    failed = ErrorCode.UNKNOWN_SERVER_ERROR
    targets = [(index, [2, 1]) for index in range(3)]
    assert alter(nodes, (0, [1, 2]), *targets) == [0, 0, 0, failed]
    assert alter(nodes, targets[2]) == [0]
    refused = ErrorCode.POLICY_VIOLATION
    assert elect(nodes, PREFERRED, 0, 1, 2) == [refused] * 3
    assert [leader for leader, _, _ in places(nodes)] == [1, 1, 1]
    assert elect(nodes, PREFERRED, 0, 1) == [0, 0]
    await nodes.cluster.stop()
