"""Producers, topics and groups in cluster scenarios, and helpers that move coordinators.

By default data and groups are on broker 1, and the transaction coordinator is on another broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from protocol.errors import ErrorCode
from protocol.hashing import partition_for
from tests.conformance import timing
from tests.conformance.cluster import PARTITIONS
from tests.conformance.producers import Producer
from tests.conformance.stage import Stage

NODES = (1, 2, 3)
HOME = 1
"""The broker with data and groups."""
ELSEWHERE = ("Produce", "TxnOffsetCommit")
"""Producer requests that do not go to the transaction coordinator."""

_NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_TRANSACTION = 1


class MovingProducer(Producer):
    """A producer that sends data to the broker `leader`, and other requests to `coordinator`."""

    coordinator = HOME
    leader = HOME

    def again(self, name: str) -> Self:
        """Return another producer with the same transactional id and coordinator."""
        other = super().again(name)
        other.coordinator, other.leader = self.coordinator, self.leader
        return other

    def started(self) -> Self:
        """Return this producer after an unrecorded InitProducerId.

        Kafka's broker answers COORDINATOR_LOAD_IN_PROGRESS until it has a block of producer ids.
        """
        was, self.t.recording = self.t.recording, False
        while self.init()["error_code"]:
            self.t.nap(0.05)
        self.t.recording = was
        return self

    def move(self, node_id: int, *, stopped: int | None = None) -> None:
        """Make a broker the coordinator, unrecorded, and send requests there from now on."""
        partition = partition_for(self.transactional_id, PARTITIONS)
        self.t.cluster.move("__transaction_state", partition, node_id)
        self.follow(node_id, stopped=stopped)

    def follow(self, node_id: int, *, stopped: int | None = None) -> None:
        """Wait until all brokers know a broker as the coordinator, and send requests there."""
        end = time.monotonic() + 30
        for node in NODES:
            while node != stopped and not self._knows(node, node_id):
                assert time.monotonic() < end, f"{node} does not know of {node_id}"
                self.t.nap(0.05)
        self.coordinator = node_id

    def find(self, *, stopped: int | None = None) -> None:
        """Find the coordinator, which must not be the stopped broker, and send requests there."""
        while (node := self.named_by(HOME)[1]) in (stopped, -1):
            self.t.nap(0.05)
        self.follow(node, stopped=stopped)

    def end_unanswered(self, *, committed: bool) -> None:
        """Send EndTxn without waiting.

        Kafka answers before the markers are written, our broker afterwards.
        """
        body = {"committed": committed, **self._identity({})}
        version = self.versions["EndTxn"]
        self.t.send(self.t.connect(self.coordinator), "EndTxn", version, body)

    def named_by(self, node: int) -> list[Any]:
        """Return error and coordinator id in a broker's FindCoordinator answer, unrecorded."""
        body = {"key_type": _TRANSACTION, "coordinator_keys": [self.transactional_id]}
        answer = self.t.quiet("FindCoordinator", 4, body, self.t.connect(node))["coordinators"][0]
        return [ErrorCode(answer["error_code"]).name, answer["node_id"]]

    def describe(self) -> Any:
        """Return DescribeTransactions of the id from its coordinator, unrecorded."""
        return self._described(self.coordinator)

    def _knows(self, node: int, coordinator: int) -> bool:
        is_there = ErrorCode(self._described(node)["error_code"]) not in _NOT_YET
        return self.named_by(node)[1] == coordinator and is_there == (node == coordinator)

    def _described(self, node: int) -> Any:
        asked = {"transactional_ids": [self.transactional_id]}
        answer = self.t.quiet("DescribeTransactions", 0, asked, self.t.connect(node))
        return answer["transaction_states"][0]

    def _ask(
        self,
        api: str,
        version: int | None,
        body: dict[str, Any],
        note: str,
        show: Callable[[Any], Any],
    ) -> Any:
        node = self.leader if api in ELSEWHERE else self.coordinator
        self._connection = self.t.connect(node)
        return super()._ask(api, version, body, note, show)


def topic(t: Stage, *replicas: tuple[int, ...], suffix: str = "own") -> str:
    """Create a topic with these replicas, leader first, unrecorded; return its name."""
    name = f"{t.g}-{suffix}"
    t.name_it(name, f"<{suffix}>")
    assignments = [
        {"partition_index": index, "broker_ids": list(nodes)}
        for index, nodes in enumerate(replicas)
    ]
    wanted = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": assignments,
    }
    created = t.raw("CreateTopics", 7, {"topics": [wanted], "timeout_ms": 9000})
    assert created["topics"][0]["error_code"] == 0, created
    t.own_topics[name] = created["topics"][0]["topic_id"]
    for index, nodes in enumerate(replicas):
        lead(t, name, index, nodes[0])
    return name


def lead(t: Stage, name: str, index: int, node_id: int) -> None:
    """Wait until all brokers know the leader of a partition, and the leader serves requests."""
    asked = {"topics": [{"name": name, "topic_id": bytes(16)}]}
    for node in NODES:
        while True:
            (seen,) = t.quiet("Metadata", 12, asked, t.connect(node))["topics"]
            leaders = {one["partition_index"]: one["leader_id"] for one in seen["partitions"]}
            if leaders.get(index) == node_id:
                break
            t.nap(0.05)
    partition = {"partition_index": index, "timestamp": -1, "current_leader_epoch": -1}
    body = {"replica_id": -1, "topics": [{"name": name, "partitions": [partition]}]}
    while True:
        (seen,) = t.quiet("ListOffsets", 8, body, t.connect(node_id))["topics"]
        if seen["partitions"][0]["error_code"] == 0:
            return
        t.nap(0.05)


def move_group(t: Stage, node_id: int) -> None:
    """Make a broker the coordinator of the scenario's group, unrecorded."""
    index = partition_for(t.g, PARTITIONS)
    t.cluster.move("__consumer_offsets", index, node_id)
    body = {"groups": [t.g]}
    for node in NODES:
        while True:
            answer = t.quiet("DescribeGroups", 5, body, t.connect(node))["groups"][0]
            if (ErrorCode(answer["error_code"]) in _NOT_YET) == (node != node_id):
                break
            t.nap(0.05)


def offsets(
    t: Stage, topic_name: str, node_id: int, label: str = "", *, require_stable: bool = True
) -> None:
    """Record one broker's OffsetFetch of the scenario's group for two partitions."""
    topics = [{"name": topic_name, "partition_indexes": [0, 1]}]
    body = {"groups": [{"group_id": t.g, "topics": topics}], "require_stable": require_stable}
    answer = t.quiet("OffsetFetch", 8, body, t.connect(node_id))
    (group,) = answer["groups"]
    shown = {
        t.partition(one["name"], place["partition_index"]): [
            ErrorCode(place["error_code"]).name,
            place["committed_offset"],
        ]
        for one in group["topics"]
        for place in one["partitions"]
    }
    t.rec(f"offsets {label}".strip(), [ErrorCode(group["error_code"]).name, shown])


@contextmanager
def suspended(t: Stage, node_id: int) -> Iterator[None]:
    """Suspend a broker during the block."""
    t.cluster.suspend(node_id)
    try:
        yield
    finally:
        t.cluster.resume(node_id)


@contextmanager
def without(t: Stage, node_id: int) -> Iterator[None]:
    """Stop a broker during the block, which takes some time."""
    t.deadline += 120 * timing.scale
    t.cluster.stop(node_id)
    try:
        yield
    finally:
        t.cluster.start(node_id)
