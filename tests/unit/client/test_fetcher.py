"""The fetcher in a cluster with failing brokers: the partitions that it still reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.client import Client, ClientError, fetcher
from coordinator_server.client.fetcher import Fetcher, FetchSettings, Partition
from protocol.batch import Record, build_batch
from protocol.errors import ErrorCode

RECORDS = build_batch([Record(0, 0, None, b"value", [])]).to_bytes()


class Cluster:
    """Brokers by id, each the leader of its partitions in `leaders`; -1 is no leader."""

    def __init__(self, leaders: dict[Partition, int]) -> None:
        self.leaders = leaders
        self.nodes = {1: None, 2: None}
        self.down: set[int] = set()
        self.missing: set[str] = set()
        self.look_ups = 0
        self.now_s = 0.0

    def monotonic(self) -> float:
        """Return the simulated time, which advances by 500 ms per Fetch and by each sleep."""
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        """Advance the time."""
        self.now_s += pause_s

    def metadata(self, names: list[str]) -> Any:
        """Return the leaders, and an error for missing topics."""
        self.look_ups += 1
        topics = []
        for name in names:
            partitions = [
                SimpleNamespace(partition_index=index, leader_id=leader)
                for (topic, index), leader in self.leaders.items()
                if topic == name and name not in self.missing
            ]
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name in self.missing else 0
            topics.append(SimpleNamespace(name=name, error_code=code, partitions=partitions))
        return SimpleNamespace(topics=topics)

    def ask(self, request: Any, node_id: int, **_: Any) -> Any:
        """Return a record of each partition that this broker leads."""
        if node_id in self.down:
            raise ClientError(ErrorCode.NETWORK_EXCEPTION)
        self.now_s += 0.5
        responses = []
        for topic in request.topics:
            partitions = [
                SimpleNamespace(
                    partition_index=item.partition,
                    error_code=0
                    if self.leaders[topic.topic, item.partition] == node_id
                    else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    records=RECORDS,
                    aborted_transactions=None,
                )
                for item in topic.partitions
            ]
            responses.append(SimpleNamespace(topic=topic.topic, partitions=partitions))
        return SimpleNamespace(responses=responses)


def read(reader: Fetcher, *partitions: Partition) -> set[Partition]:
    """Return the partitions from which one fetch gets records."""
    pieces, errors = reader.fetch(dict.fromkeys(partitions, 0), 1.0)
    assert not errors
    return {fetched.partition for piece in pieces for fetched in piece}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return two brokers with a partition each."""
    cluster = Cluster({("t", 0): 1, ("t", 1): 2})
    monkeypatch.setattr(fetcher, "time", cluster)
    return cluster


def test_a_partition_without_a_leader_holds_up_no_other(cluster: Cluster) -> None:
    """A partition without a leader does not delay other partitions."""
    cluster.leaders["t", 1] = -1
    reader = Fetcher(cast(Client, cluster), FetchSettings())
    assert read(reader, ("t", 0), ("t", 1)) == {("t", 0)}


def test_a_leader_that_cannot_be_reached_holds_up_no_other(cluster: Cluster) -> None:
    """An unreachable leader does not delay other partitions, and metadata requests are limited.

    The controller may take some seconds to notice the failure.
    """
    cluster.down.add(2)
    reader = Fetcher(cast(Client, cluster), FetchSettings())
    for _ in range(100):
        assert read(reader, ("t", 0), ("t", 1)) == {("t", 0)}
    assert cluster.look_ups < cluster.now_s + 5


def test_a_leader_that_returns_is_read_again(cluster: Cluster) -> None:
    """A leader that returns is read again, even after a long absence and during slow fetches."""
    cluster.leaders["t", 1] = -1
    reader = Fetcher(cast(Client, cluster), FetchSettings())
    for _ in range(100):
        read(reader, ("t", 0), ("t", 1))
    cluster.leaders["t", 1] = 2
    assert ("t", 1) in set().union(*[read(reader, ("t", 0), ("t", 1)) for _ in range(4)])


def test_a_topic_that_is_deleted_holds_up_no_other(cluster: Cluster) -> None:
    """A deleted topic does not delay other topics.

    The deleted topic stays subscribed until a member with a pattern rejoins.
    """
    cluster.leaders["u", 0] = 1
    cluster.missing.add("u")
    reader = Fetcher(cast(Client, cluster), FetchSettings())
    assert read(reader, ("t", 0), ("t", 1), ("u", 0)) == {("t", 0), ("t", 1)}


def test_a_leader_that_moves_is_followed(cluster: Cluster) -> None:
    """NOT_LEADER_OR_FOLLOWER triggers a metadata request, and the new leader is read."""
    reader = Fetcher(cast(Client, cluster), FetchSettings())
    assert read(reader, ("t", 0)) == {("t", 0)}
    cluster.leaders["t", 0] = 2
    assert read(reader, ("t", 0)) == set()
    assert read(reader, ("t", 0)) == {("t", 0)}
