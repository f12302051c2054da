"""The quorum, registrations, features, voters and log directories of brokers in one process."""

from __future__ import annotations

import asyncio

import pytest

from protocol.apis.add_raft_voter import AddRaftVoterRequest, VoterListener
from protocol.apis.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.describe_cluster import DescribeClusterRequest
from protocol.apis.describe_log_dirs import DescribeLogDirsRequest
from protocol.apis.describe_quorum import (
    DescribedQuorumPartition,
    DescribeQuorumRequest,
    QuorumPartition,
    QuorumTopic,
)
from protocol.apis.remove_raft_voter import RemoveRaftVoterRequest
from protocol.apis.unregister_broker import UnregisterBrokerRequest
from protocol.apis.unregister_controller import UnregisterControllerRequest
from protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from protocol.errors import ErrorCode
from tests.harness.broker import DATA
from tests.harness.nodes import Nodes

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def quorum(nodes: Nodes, node_id: int) -> DescribedQuorumPartition:
    """Return a broker's description of the metadata partition."""
    topic = QuorumTopic(topic_name="__cluster_metadata", partitions=[QuorumPartition()])
    answer = nodes.ask(DescribeQuorumRequest(topics=[topic]), node_id=node_id)
    found: DescribedQuorumPartition = answer.topics[0].partitions[0]
    assert [one.node_id for one in answer.nodes] == [found.leader_id]
    return found


async def test_the_controller_is_the_only_voter() -> None:
    """A new controller leads the quorum at a higher epoch; all other brokers are observers."""
    nodes = Nodes()
    found = quorum(nodes, 2)
    assert (found.leader_id, found.leader_epoch) == (1, 1)
    assert [one.replica_id for one in found.current_voters] == [1]
    assert [one.replica_id for one in found.observers] == [2, 3]
    before = found.high_watermark
    await nodes.cluster.stop_broker(3)
    assert (quorum(nodes, 2)).leader_epoch == 1
    await nodes.cluster.stop_broker(1)
    nodes.cluster.topics.create("t", 1, {})
    found = quorum(nodes, 2)
    assert (found.leader_id, found.leader_epoch) == (2, 2)
    assert [one.replica_id for one in found.observers] == []
    assert found.high_watermark > before
    assert {one.log_end_offset for one in found.current_voters} == {found.high_watermark}
    await nodes.cluster.start_broker(1)
    found = quorum(nodes, 2)
    assert (found.leader_id, found.leader_epoch) == (1, 3)
    await nodes.cluster.stop()


def described(nodes: Nodes) -> list[tuple[int, bool]]:
    """Return the brokers in DescribeCluster, and whether they are fenced."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    answer = nodes.ask(request, node_id=1)
    return [(one.broker_id, one.is_fenced) for one in answer.brokers]


async def test_an_unregistered_broker_gets_no_replicas_until_it_starts() -> None:
    """Unregistering stops a running broker, which gets no replicas until it starts again.

    A second UnregisterBroker for the stopped broker gets BROKER_ID_NOT_REGISTERED.
    """
    nodes = Nodes()
    topic = nodes.cluster.topics.create("t", 3, {}, 3)
    request = UnregisterBrokerRequest(broker_id=3)
    answer = nodes.ask(request, node_id=1)
    assert (answer.error_code, answer.error_message) == (0, "")
    async with asyncio.timeout(5):
        while 3 in nodes.cluster.brokers:
            await asyncio.sleep(0)
    assert {one.leader_id for one in topic.partitions} == {1, 2}
    assert described(nodes) == [(1, False), (2, False)]
    answer = nodes.ask(request, node_id=1)
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert answer.error_message == "Broker ID 3 is not currently registered"
    creation = CreatableTopic(name="wide", num_partitions=3, replication_factor=3)
    created = nodes.ask(CreateTopicsRequest(topics=[creation]), node_id=1)
    assert created.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    new = nodes.cluster.topics.create("new", 6, {})
    assert {one.replicas for one in new.partitions} == {(1,), (2,)}
    await nodes.cluster.start_broker(3)
    assert described(nodes) == [(1, False), (2, False), (3, False)]
    created = nodes.ask(CreateTopicsRequest(topics=[creation]), node_id=1)
    assert created.topics[0].error_code == ErrorCode.NONE
    await nodes.cluster.stop()


async def test_a_stopped_broker_is_unregistered() -> None:
    """A stopped broker is listed as fenced until it is unregistered."""
    nodes = Nodes()
    await nodes.cluster.stop_broker(2)
    assert described(nodes) == [(1, False), (2, True), (3, False)]
    nodes.ask(UnregisterBrokerRequest(broker_id=2), node_id=1)
    assert described(nodes) == [(1, False), (3, False)]
    await nodes.cluster.stop()


@pytest.mark.parametrize(
    ("feature", "level", "kind", "code", "text"),
    [
        ("group.version", 1, UPGRADE, 0, None),
        ("metadata.version", 7, UPGRADE, 95, "Can't downgrade the version of this feature without"),
        ("metadata.version", 7, SAFE_DOWNGRADE, 95, "7. Refusing to perform the requested"),
        ("metadata.version", 7, UNSAFE_DOWNGRADE, 95, "7. Unsafe metadata downgrade is not supp"),
        ("metadata.version", 6, UPGRADE, 95, "Local controller 1 only supports versions 7-"),
        ("group.version", 0, SAFE_DOWNGRADE, 96, "runs feature group.version at version 1 only."),
        ("nope", 0, UPGRADE, 95, "Feature nope not found."),
        ("nope", 1, UPGRADE, 95, "Local controller 1 does not support this feature."),
    ],
)
async def test_features_have_one_level(
    feature: str, level: int, kind: int, code: int, text: str | None
) -> None:
    """UpdateFeatures accepts only the current level of each feature."""
    nodes = Nodes(None, 1)
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[update])
    answer = nodes.ask(request, 2, node_id=1)
    assert answer.error_code == code
    assert (answer.error_message is None) == (text is None)
    if text is not None:
        assert text in answer.error_message
    await nodes.cluster.stop()


async def test_log_directories_are_those_of_the_replicas() -> None:
    """AlterReplicaLogDirs refuses replicas that the broker does not have."""
    nodes = Nodes()
    nodes.cluster.topics.create("t", 3, {}, 1)
    leaders = [nodes.partition("t", index).leader_id for index in range(3)]
    topics = [AlterReplicaLogDirTopic(name="t", partitions=[0, 1, 2, 3])]
    for path, elsewhere in ((DATA, ErrorCode.REPLICA_NOT_AVAILABLE), ("/other", None)):
        directory = AlterReplicaLogDir(path=path, topics=topics)
        request = AlterReplicaLogDirsRequest(dirs=[directory])
        answer = nodes.ask(request, node_id=2)
        codes = [one.error_code for one in answer.results[0].partitions]
        expected = [0 if one == 2 else elsewhere for one in leaders]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        not_found = ErrorCode.LOG_DIR_NOT_FOUND
        assert codes == ([*expected, unknown] if path == DATA else [not_found] * 4)
    await nodes.cluster.stop()


async def test_a_broker_describes_the_logs_of_its_replicas() -> None:
    """DescribeLogDirs lists only the partitions that the broker has a replica of."""
    nodes = Nodes()
    nodes.cluster.topics.create("t", 3, {}, 1)
    for node_id in nodes.cluster.node_ids:
        answer = nodes.ask(DescribeLogDirsRequest(topics=None), node_id=node_id)
        topic = next(one for one in answer.results[0].topics if one.name == "t")
        (described,) = topic.partitions
        assert nodes.partition("t", described.partition_index).replicas == (node_id,)
    await nodes.cluster.stop()


async def test_the_quorum_keeps_its_voter() -> None:
    """Voters can neither be added nor removed, for any cluster id in the request."""
    nodes = Nodes(None, 1)
    listener = VoterListener(name="CONTROLLER", host="h", port=1)
    added = AddRaftVoterRequest(
        cluster_id=nodes.cluster.cluster_id,
        voter_id=2,
        voter_directory_id=b"d" * 16,
        listeners=[listener],
    )
    removed = RemoveRaftVoterRequest(
        cluster_id=nodes.cluster.cluster_id, voter_id=1, voter_directory_id=b"d" * 16
    )
    for request in (added, removed):
        answer = nodes.ask(request)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        request.cluster_id = "other"
        answer = nodes.ask(request)
        assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    await nodes.cluster.stop()


@pytest.mark.parametrize(
    ("controller_id", "error", "message"),
    [
        (1, ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."),
        (
            2,
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            "Controller ID 2 is not currently registered.",
        ),
        (
            -1,
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            "Controller ID -1 is not currently registered.",
        ),
    ],
)
async def test_no_controller_can_be_unregistered(
    controller_id: int, error: ErrorCode, message: str
) -> None:
    """The active controller cannot be unregistered, and no other controller is registered."""
    nodes = Nodes()
    request = UnregisterControllerRequest(controller_id=controller_id)
    for node_id in (1, 2):
        answer = nodes.ask(request, node_id=node_id)
        assert (answer.error_code, answer.error_message) == (error, message)
    await nodes.cluster.stop()


async def test_the_next_controller_is_the_one_that_stays() -> None:
    """After a controller failover UnregisterController treats the new controller as active."""
    nodes = Nodes()
    await nodes.cluster.stop_broker(1)
    for controller_id, error in (
        (2, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
    ):
        request = UnregisterControllerRequest(controller_id=controller_id)
        answer = nodes.ask(request, node_id=3)
        assert answer.error_code == error
    await nodes.cluster.stop()
