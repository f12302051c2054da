"""Three brokers in one process: groups continue when a coordinator or leader moves or stops.

The tests control the cluster through its control server (docs/cluster.md).
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import kafka
import pytest

from coordinator_server.topics.names import OFFSETS_TOPIC
from protocol.hashing import partition_for
from tests.clients.conftest import SETTINGS
from tests.clients.support import Feed, Group
from tests.clients.variants import CLIENTS, StartGroup
from tests.support import Broker

PARTITIONS = 6
GROUPS_IN = int(SETTINGS.get("offsets.topic.num.partitions", 50))
PREFERRED = 0


class Cluster:
    """A process with three brokers."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers, because the first one may be stopped."""
        return self.broker.bootstrap_servers

    def ask(self, method: str, path: str) -> dict[str, Any]:
        """Return the response of the control server."""
        return self.broker.control.call(method, path)

    def coordinate(self, group: str, node_id: int) -> None:
        """Move the group's coordinator to a broker."""
        self.ask("POST", f"/groups/{group}/move?to={node_id}")

    def create(self, topic: str, replication_factor: int) -> None:
        """Create a topic with partitions spread over the brokers."""
        admin = kafka.KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            spec = {"num_partitions": PARTITIONS, "replication_factor": replication_factor}
            admin.create_topics({topic: spec}, wait_for_metadata=True)
            (described,) = admin.describe_topics([topic])
            assert {one["leader_id"] for one in described["partitions"]} == {1, 2, 3}
        finally:
            admin.close()


@pytest.fixture
def cluster(start_broker: Callable[..., Broker], tmp_path: Path) -> Iterator[Cluster]:
    """Start three brokers on one data directory.

    The unused `start_broker` marks tests that cannot run with an external broker.
    """
    with Broker(SETTINGS, data_dir=tmp_path / "cluster", broker_count=3) as broker:
        yield Cluster(broker)
        assert not broker.log_lines("[error")


def running(
    cluster: Cluster, name: str, start_group: StartGroup, client: str, assignor: str
) -> Group:
    """Start two members that share the topic `name`, in a group coordinated by broker 1."""
    cluster.create(name, 2)
    group: Group = start_group(cluster.bootstrap, client, assignor, session_timeout_ms=30_000)
    cluster.coordinate(group.settings.group, 1)
    members = [group.start() for _ in range(2)]
    group.wait_until_shared(members, [(name, number) for number in range(PARTITIONS)])
    return group


def progress(group: Group, count: int) -> None:
    """Wait until the group has processed `count` more records."""
    before = len(group.processed())
    group.wait_until(lambda: len(group.processed()) >= before + count, f"{count} records more")


def check_no_rebalance(group: Group, moves: list[Any]) -> None:
    """Check that the members kept their partitions the whole time."""
    assert [member.moves() for member in group.members] == moves, group.story()


@CLIENTS
@pytest.mark.real_time
def test_a_group_follows_its_coordinator(
    cluster: Cluster, name: str, start_group: StartGroup, client: str, assignor: str
) -> None:
    """When the coordinator moves, no rebalance happens and each record is read once."""
    group = running(cluster, name, start_group, client, assignor)
    moves = [member.moves() for member in group.members]
    with Feed(cluster.bootstrap, name, PARTITIONS, None, per_second=1_000) as sending:
        progress(group, 100)
        for node_id in (2, 3, 1, 3, 2):
            cluster.coordinate(group.settings.group, node_id)
            progress(group, 200)
        values = sending.finish()
    group.wait_until_processed(values)
    check_no_rebalance(group, moves)
    # A new member causes a rebalance, after which every member starts from committed offsets.
    group.start()
    partitions = [(name, number) for number in range(PARTITIONS)]
    group.wait_until_shared(group.members, partitions)
    with Feed(cluster.bootstrap, name, PARTITIONS, 60, prefix="late-") as sending:
        values += sending.join()
    group.wait_until_processed(values)


@pytest.mark.nightly
@CLIENTS
@pytest.mark.real_time
def test_a_group_goes_on_when_its_coordinator_is_stopped_and_started(
    cluster: Cluster, name: str, start_group: StartGroup, client: str, assignor: str
) -> None:
    """A group continues while its coordinator, which also leads partitions, stops and restarts."""
    group = running(cluster, name, start_group, client, assignor)
    moves = [member.moves() for member in group.members]
    with Feed(cluster.bootstrap, name, PARTITIONS, None, per_second=1_000) as sending:
        progress(group, 100)
        cluster.ask("POST", "/brokers/1/stop")
        progress(group, 500)
        cluster.ask("POST", "/brokers/1/start")
        progress(group, 200)
        cluster.coordinate(group.settings.group, 1)
        progress(group, 200)
        values = sending.finish()
    group.wait_until_processed(values)
    check_no_rebalance(group, moves)


@pytest.mark.nightly
@CLIENTS
@pytest.mark.real_time
def test_readers_and_writers_follow_a_leader(
    cluster: Cluster, name: str, start_group: StartGroup, client: str, assignor: str
) -> None:
    """Partitions are produced to and consumed while their leaders move through all brokers."""
    group = running(cluster, name, start_group, client, assignor)
    moves = [member.moves() for member in group.members]
    with Feed(cluster.bootstrap, name, PARTITIONS, None, per_second=1_000) as sending:
        for node_id in (1, 2, 3, 1):
            progress(group, 200)
            for number in range(PARTITIONS):
                cluster.ask("POST", f"/partitions/{name}/{number}/move?to={node_id}")
        values = sending.finish()
    group.wait_until_processed(values)
    check_no_rebalance(group, moves)


@CLIENTS
@pytest.mark.real_time
def test_readers_and_writers_follow_reassignments(
    cluster: Cluster, name: str, start_group: StartGroup, client: str, assignor: str
) -> None:
    """Partitions of the topic and of the offsets topic are reassigned while they are in use."""
    group = running(cluster, name, start_group, client, assignor)
    moves = [member.moves() for member in group.members]
    home = kafka.TopicPartition(OFFSETS_TOPIC, partition_for(group.settings.group, GROUPS_IN))
    places = [home, *(kafka.TopicPartition(name, number) for number in range(PARTITIONS))]
    with (
        closing(kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin,
        Feed(cluster.bootstrap, name, PARTITIONS, None, per_second=1_000) as sending,
    ):
        for replicas in ([3, 1], [1, 3], [2], [3, 2, 1], [1]):
            progress(group, 200)
            admin.alter_partition_reassignments(dict.fromkeys(places, replicas))
            assert not admin.list_partition_reassignments()
            admin.elect_leaders(
                PREFERRED,
                {
                    one.topic: [two.partition for two in places if two.topic == one.topic]
                    for one in places
                },
                raise_errors=False,
            )
            (described,) = admin.describe_topics([name])
            leaders = {one["leader_id"] for one in described["partitions"]}
            assert leaders == {replicas[0]}
        progress(group, 200)
        values = sending.finish()
    group.wait_until_processed(values)
    check_no_rebalance(group, moves)


def test_reassignments_survive_a_killed_process(
    start_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """Kill -9 keeps leaders, epochs and replicas; a pending reassignment completes later."""
    with Broker(SETTINGS, data_dir=tmp_path / "cluster", broker_count=3) as broker:
        cluster = Cluster(broker)
        cluster.create("moved", 2)
        done, waiting = (kafka.TopicPartition("moved", number) for number in (0, 1))
        with closing(kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
            admin.alter_partition_reassignments({done: [2, 3, 1]})
            admin.elect_leaders(PREFERRED, {"moved": [0]}, raise_errors=False)
            cluster.ask("POST", "/brokers/3/stop")
            admin.alter_partition_reassignments({waiting: [3]})
            (listed,) = admin.list_partition_reassignments().items()
            assert listed[0] == waiting
            before = placed(admin)
        broker.kill()
        broker.start()
        with closing(kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
            after = placed(admin)
            assert not admin.list_partition_reassignments()
        assert after[0] == before[0]
        assert after[0][0] == 2
        assert after[1][::2] == (3, [3])


def placed(admin: Any) -> dict[int, tuple[int, int, list[int]]]:
    """Return leader, leader epoch and replicas of each partition of the topic `moved`."""
    (described,) = admin.describe_topics(["moved"])
    return {
        one["partition_index"]: (one["leader_id"], one["leader_epoch"], one["replica_nodes"])
        for one in described["partitions"]
    }


@pytest.mark.nightly
@pytest.mark.real_time
def test_a_group_waits_for_a_coordinator_without_a_stand_in(
    cluster: Cluster, name: str, start_group: StartGroup
) -> None:
    """With replication factor 1, a stopped broker's partitions are offline until it restarts."""
    cluster.create(name, 1)
    group = start_group(cluster.bootstrap, "kafka-python", "range", session_timeout_ms=30_000)
    cluster.coordinate(group.settings.group, 2)
    member = group.start()
    group.wait_until_shared([member], [(name, number) for number in range(PARTITIONS)])
    with Feed(cluster.bootstrap, name, PARTITIONS, None, per_second=1_000) as sending:
        progress(group, 100)
        stopped = cluster.ask("POST", "/brokers/2/stop")
        assert stopped["offline_partitions"] >= PARTITIONS // 3
        progress(group, 100)
        assert cluster.ask("POST", "/brokers/2/start")["offline_partitions"] == 0
        values = sending.finish()
    group.wait_until_processed(values)


def test_a_new_process_knows_who_led(cluster: Cluster, name: str, start_group: StartGroup) -> None:
    """Leaders and coordinators stay the same across a restart of the process."""
    cluster.create(name, 2)
    for number in range(PARTITIONS):
        cluster.ask("POST", f"/partitions/{name}/{number}/move?to=3")
    cluster.coordinate("some-group", 2)
    cluster.broker.restart()
    brokers = {one["id"]: one for one in cluster.ask("GET", "/brokers")["brokers"]}
    assert brokers[3]["partitions_led"] >= PARTITIONS
    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        (described,) = admin.describe_topics([name])
        assert {one["leader_id"] for one in described["partitions"]} == {3}
        assert all(one["leader_epoch"] <= 2 for one in described["partitions"])
    finally:
        admin.close()
