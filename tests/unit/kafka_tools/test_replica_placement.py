"""Replica assignments that kafka-reassign-partitions --generate proposes."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_server.client import ClientError
from coordinator_server.kafka_tools.frame import ToolError
from coordinator_server.kafka_tools.reassign_start import known_racks, place

RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_partition_has_one_replica_in_each_rack(seed: int) -> None:
    """Each partition has a replica in each rack, and each broker leads equally often."""
    placed = place(RACKS, 12, 3, Random(seed))
    assert all({RACKS[broker] for broker in one} == {"a", "b", "c"} for one in placed)
    assert Counter(one[0] for one in placed) == dict.fromkeys(RACKS, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_more_replicas_than_racks_are_on_different_brokers(seed: int) -> None:
    """With more replicas than racks, all replicas are on different brokers.

    The same holds if one rack has fewer brokers than the other racks.
    """
    racks = {1: "a", 2: "b", 3: "b", 4: "b"}
    placed = place(racks, 9, 4, Random(seed))
    assert all(sorted(one) == [1, 2, 3, 4] for one in placed)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_racks_leaders_go_round_the_brokers(seed: int) -> None:
    """Without racks leaders rotate: each of four brokers leads one of four partitions in a row."""
    placed = place(dict.fromkeys((7, 8, 9, 10)), 8, 2, Random(seed))
    for part in (placed[:4], placed[4:]):
        assert sorted(one[0] for one in part) == [7, 8, 9, 10]
    assert all(len(set(one)) == 2 for one in placed)


def test_a_single_broker_gets_all_partitions() -> None:
    """A single broker gets all partitions; drawing another broker would never end."""
    assert place({5: None}, 3, 1, Random(1)) == [[5], [5], [5]]


@pytest.mark.parametrize(
    ("racks", "message"),
    [({}, "All brokers are currently fenced"), ({1: None, 2: None}, "target replication factor")],
)
def test_too_few_brokers_are_refused(racks: dict[int, str | None], message: str) -> None:
    """Too few brokers are refused with the text of Kafka's placer."""
    with pytest.raises(ClientError, match=message):
        place(racks, 1, 3, Random(1))


def test_racks_of_some_brokers_alone_are_refused() -> None:
    """If only some brokers have a rack, the request is refused unless racks are disabled.

    Brokers without a rack may also be left out.
    """
    nodes = [SimpleNamespace(node_id=1, rack="a"), SimpleNamespace(node_id=2, rack=None)]
    client: Any = SimpleNamespace(
        call=lambda _, attempt: attempt(), metadata=lambda _: SimpleNamespace(brokers=nodes)
    )
    with pytest.raises(ToolError, match="Not all brokers have rack information"):
        known_racks(client, [1, 2], is_aware=True)
    assert known_racks(client, [1, 2], is_aware=False) == {1: None, 2: None}
    assert known_racks(client, [1, 3], is_aware=True) == {1: "a"}
    assert known_racks(client, [2], is_aware=True) == {2: None}
