"""Three nodes of Apache Kafka on this machine, to record scenarios with moving leaders.

Node 1 is also the controller. A node is stopped with SIGKILL; the controller notices when the
node's session ends.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import kafka
from kafka.errors import KafkaError

from tests.conformance.calls import Calls
from tests.conformance.cluster import SETTINGS, Cluster
from tests.conformance.connection import Abort
from tests.conformance.environment import Environment
from tests.oracle.kafka_process import CLUSTER_ID, java
from tests.support import free_port, wait_for

NODES = (1, 2, 3)
_KAFKA_SETTINGS = {
    **SETTINGS,
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    # Leaders must change only when a scenario changes them.
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": "20000",
    "broker.heartbeat.interval.ms": "500",
}
_PREFERRED = 0
_SECONDS = 90.0


class KafkaCluster:
    """A cluster of three Kafka processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._controller_port = free_port()
        self.addresses = {node: ("127.0.0.1", free_port()) for node in NODES}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start_all(self) -> None:
        """Format and start the nodes, and wait until they are up."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for node in NODES:
            self._format(node)
            self._launch(node)
        self._wait_until_whole()

    def move(self, topic: str, partition: int, node_id: int) -> None:
        """Make the broker the first of two replicas, and elect the preferred leader.

        Node 2 is a replica only of the partitions that it leads. Otherwise another leader would
        wait for node 2 while node 2 is suspended.
        """
        place = kafka.TopicPartition(topic, partition)

        def is_led() -> bool:
            return bool(self._partitions()[place]["leader_id"] == node_id)

        replicas = [node_id, 3 if node_id == 1 else 1]
        wait_for(partial(self._reassign, place, replicas), f"{place} is reassigned")
        wait_for(is_led, f"{node_id} leads {place}")

    def stop(self, node_id: int) -> None:
        """Send SIGKILL, and wait until the controller has noticed."""
        self._kill(node_id)
        wait_for(lambda: node_id not in self._live(), f"{node_id} is fenced", _SECONDS, 0.1)

    def suspend(self, node_id: int) -> None:
        """Send SIGSTOP. If not resumed within its session, the node loses its leaderships."""
        self._processes[node_id].send_signal(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """Send SIGCONT, and wait until the cluster is as before."""
        self._processes[node_id].send_signal(signal.SIGCONT)
        self._wait_until_whole()

    def start(self, node_id: int) -> None:
        """Start a node, and wait until every partition has a leader and all replicas in sync."""
        self._launch(node_id)
        self._wait_until_whole()

    def end(self) -> None:
        """End all processes."""
        for node in self._processes:
            self._kill(node)

    def _kill(self, node: int) -> None:
        self._processes[node].kill()
        self._processes[node].wait()

    def _format(self, node: int) -> None:
        port, roles = self.addresses[node][1], "broker,controller" if node == 1 else "broker"
        listeners = f"PLAINTEXT://127.0.0.1:{port}"
        properties = {
            "process.roles": roles,
            "node.id": str(node),
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "advertised.listeners": listeners,
            "listeners": listeners
            + (f",CONTROLLER://127.0.0.1:{self._controller_port}" if node == 1 else ""),
            "log.dirs": str(self._directory / f"data-{node}"),
            **_KAFKA_SETTINGS,
        }
        file = self._properties(node)
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        command = java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file))
        subprocess.run(command, capture_output=True, check=True)

    def _launch(self, node: int) -> None:
        command = java("kafka.Kafka", str(self._properties(node)))
        with (self._directory / f"node-{node}.log").open("ab") as log:
            self._processes[node] = subprocess.Popen(command, stdout=log, stderr=log)

    def _properties(self, node: int) -> Path:
        return self._directory / f"node-{node}.properties"

    def _reassign(self, place: kafka.TopicPartition, replicas: list[int]) -> bool:
        """Return whether the reassignment succeeded."""
        host, port = self.addresses[1]
        admin: Any = kafka.KafkaAdminClient(bootstrap_servers=f"{host}:{port}")
        # Any broker forwards requests to the controller, and broker 1 always runs.
        admin._controller_id = 1
        try:
            admin.alter_partition_reassignments({place: replicas})
            wait_for(lambda: not admin.list_partition_reassignments([place]), "it is done")
            admin.elect_leaders(_PREFERRED, {place.topic: [place.partition]})
        except KafkaError:
            return False
        finally:
            admin.close()
        return True

    def _metadata(self) -> dict[str, Any]:
        """Return node 1's metadata; empty while it does not answer."""
        calls = Calls(Environment(*self.addresses[1]), "metadata")
        try:
            answer: dict[str, Any] = calls.quiet("Metadata", 12, {"topics": None})
        except Abort:
            return {"brokers": [], "topics": []}
        finally:
            calls.close()
        return answer

    def _live(self) -> set[int]:
        return {broker["node_id"] for broker in self._metadata()["brokers"]}

    def _partitions(self) -> dict[kafka.TopicPartition, Any]:
        return {
            kafka.TopicPartition(topic["name"], one["partition_index"]): one
            for topic in self._metadata()["topics"]
            for one in topic["partitions"]
        }

    def _wait_until_whole(self) -> None:
        def is_whole() -> bool:
            return self._live() == set(NODES) and all(
                one["leader_id"] > 0 and set(one["isr_nodes"]) == set(one["replica_nodes"])
                for one in self._partitions().values()
            )

        wait_for(is_whole, "all nodes and replicas are back", _SECONDS, 0.2)


@contextmanager
def kafka_cluster(directory: Path) -> Iterator[Cluster]:
    """Run three nodes of profile C."""
    cluster = KafkaCluster(directory)
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.end()
