"""Three brokers, ours or Kafka's, for scenarios with moving leaders or coordinators.

Broker 1 has the controller and is never stopped; scenarios describe everything through it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.conformance.calls import Calls
from tests.conformance.environment import Environment
from tests.support import Broker, address_of

PARTITIONS = 4
"""Number of partitions of `__transaction_state` and of `__consumer_offsets`."""
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(PARTITIONS),
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
"""The settings of profile C."""

_GROUP, _TRANSACTION = 0, 1
_SECONDS = 30.0


class Cluster(Protocol):
    """The operations of a cluster; each returns when its effect is visible."""

    @property
    def addresses(self) -> Mapping[int, tuple[str, int]]:
        """Return host and port of each broker by id."""

    def move(self, topic: str, partition: int, node_id: int) -> None:
        """Make a broker the leader of a partition."""

    def stop(self, node_id: int) -> None:
        """Stop a broker."""

    def start(self, node_id: int) -> None:
        """Start a stopped broker."""

    def suspend(self, node_id: int) -> None:
        """Make a broker unresponsive; the broker must not lead partitions of coordinator topics.

        Requests of other Kafka nodes to a suspended broker wait. If the broker were stopped, its
        partitions would have no leader, and Kafka would write no transaction markers to them.
        """

    def resume(self, node_id: int) -> None:
        """Let a suspended broker answer again."""


class OurCluster:
    """Three brokers in one process of ours."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.addresses = {
            number: address_of(address)
            for number, address in enumerate(broker.bootstrap_servers.split(","), 1)
        }

    def move(self, topic: str, partition: int, node_id: int) -> None:
        """Make a broker the leader of a partition."""
        self._ask(f"/partitions/{topic}/{partition}/move?to={node_id}")

    def stop(self, node_id: int) -> None:
        """Stop a broker."""
        self._ask(f"/brokers/{node_id}/stop")

    def start(self, node_id: int) -> None:
        """Start a stopped broker."""
        self._ask(f"/brokers/{node_id}/start")

    def suspend(self, node_id: int) -> None:
        """Make a broker unresponsive by stopping it, because our brokers share a process."""
        self.stop(node_id)

    def resume(self, node_id: int) -> None:
        """Let a suspended broker answer again."""
        self.start(node_id)

    def _ask(self, path: str) -> None:
        self._broker.control.call("POST", path)


@contextmanager
def our_cluster(directory: Path) -> Iterator[Cluster]:
    """Run a process with three brokers of profile C."""
    with Broker(SETTINGS, data_dir=directory, broker_count=3) as broker:
        yield OurCluster(broker)


def environment_of(cluster: Cluster) -> Environment:
    """Create and load both coordinator topics; return the environment of the scenarios."""
    host, port = cluster.addresses[1]
    environment = Environment(host, port)
    environment.cluster = cluster
    stage = Calls(environment, "prepare")
    end = time.monotonic() + _SECONDS
    for key_type in (_GROUP, _TRANSACTION):
        body = {"key_type": key_type, "coordinator_keys": ["warm"]}
        while True:
            answer = stage.quiet("FindCoordinator", 4, body)
            if answer["coordinators"][0]["error_code"] == 0:
                break
            assert time.monotonic() < end, answer
            time.sleep(0.1)
    stage.close()
    return environment
