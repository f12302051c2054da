"""The control server's view of consumer, share and streams groups while time is advanced."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.testing.groups import GivenUp, from_json
from coordinator_server.testing.records import TopicPartition
from protocol.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.harness.records import batch
from tests.unit.control.modern_nodes import ModernNodes
from tests.unit.core.groups.streams.context import READS_THREE


@pytest.fixture
def nodes() -> ModernNodes:
    """Return a cluster of one broker."""
    return ModernNodes(None, 1)


def of(found: dict[str, Any], member_id: str) -> dict[str, Any]:
    """Return one member of a group."""
    members: dict[str, dict[str, Any]] = {one["member_id"]: one for one in found["members"]}
    return members[member_id]


async def test_a_member_that_waits(nodes: ModernNodes) -> None:
    """A waiting member is shown with the owner that it waits for, and the waiting time.

    The owner is fenced when it does not revoke within its rebalance timeout.
    """
    nodes.beat("a", 0)
    await nodes.controller.advance(1_000)
    nodes.beat("b", 0)
    found = await nodes.group()
    assert (found["type"], found["state"], found["generation"]) == ("consumer", "Reconciling", 3)
    waiting = of(found, "b")
    assert waiting["assignment"] == {}
    assert waiting["waits_for"] == "a to release three 2"
    assert of(found, "a")["state"] == "STABLE"
    nodes.beat("a", 2)
    await nodes.controller.advance(2_000)
    found = await nodes.group()
    assert of(found, "b")["waiting_ms"] == 2_000
    revoking = of(found, "a")
    assert (revoking["state"], revoking["revoking"]) == ("UNREVOKED_PARTITIONS", {"three": [2]})
    assert revoking["revoking_ms"] == 2_000
    assert found["now"] == [
        "Reconciling, epoch 3, 2 members",
        "a: epoch 2, UNREVOKED_PARTITIONS; has three 0-1; has still to give up three 2, "
        "for 2 000 ms",
        "b: epoch 3, UNRELEASED_PARTITIONS; has nothing; waits for a to release three 2, "
        "for 2 000 ms",
    ]
    seen = from_json(found)
    assert (seen.type, seen.assignment_epoch) == ("consumer", 3)
    assert [member.target for member in seen.members] == [
        (("three", 0), ("three", 1)),
        (("three", 2),),
    ]
    assert [member.revoking for member in seen.members] == [(("three", 2),), ()]
    lines = str(seen).splitlines()
    assert lines[0] == "Reconciling, epoch 3, 2 members"
    assert lines[1].endswith("assigned three-0, three-1, has to give up three-2")
    assert lines[2].endswith("assigned nothing, waits for a to release three 2")
    assert lines[4].startswith("  under way: ")
    line = found["under_way"][0]
    assert "epoch 3: b on /127.0.0.1 joined; 0 of 2 members with the new assignment" in line
    assert " after 2 000 ms so far" in line
    await nodes.controller.advance(28_000)
    nodes.beat("b", 3)
    found = await nodes.group()
    assert [one["member_id"] for one in found["members"]] == ["b"]
    assert of(found, "b")["assignment"] == {"three": [0, 1, 2]}
    assert found["under_way"] == []
    assert (
        "a on /127.0.0.1 did not give its partitions up within 30 000 ms"
        in found["last_rebalance"][0]
    )


async def test_the_interval_between_assignments(nodes: ModernNodes) -> None:
    """The first heartbeat after the assignment interval computes the next target assignment."""
    nodes.beat("a", 0)
    assert (nodes.beat("b", 0)).member_epoch == 2
    assert (await nodes.group())["state"] == "Assigning"
    await nodes.controller.advance(999)
    assert (nodes.beat("b", 2)).member_epoch == 2
    await nodes.controller.advance(1)
    assert (nodes.beat("b", 2)).member_epoch == 3


async def test_sessions_end(nodes: ModernNodes) -> None:
    """Each session ends at its own millisecond while time is advanced."""
    nodes.beat("a", 0)
    await nodes.controller.advance(44_999)
    assert len((await nodes.group())["members"]) == 1
    await nodes.controller.advance(1)
    found = await nodes.group()
    assert (found["state"], found["members"]) == ("Empty", [])


async def test_share_partitions(nodes: ModernNodes) -> None:
    """In-flight records of share partitions are shown until they reach the delivery limit."""
    nodes.cluster.group_configs.set({"g": {"share.auto.offset.reset": "earliest"}})
    epoch = nodes.share("m", 0)
    assert not from_json(await nodes.group()).is_settled
    await nodes.controller.advance(1_000)
    epoch = nodes.share("m", epoch)
    nodes.partition("t", 0).append(batch(b"1"), nodes.cluster.clock.now_ms())
    for delivery in range(1, 6):
        assert nodes.take("m", delivery - 1) == 1
        found = await nodes.group()
        (partition,) = found["share_partitions"]
        assert partition["states"] == {"Acquired": 1}
        assert partition["deliveries"] == {str(delivery): 1}
        assert partition["members"] == {"m": 1}
        assert found["now"][-1] == (
            f"t 0: from 0 on, 1 in flight (1 Acquired); 1 delivered {delivery} times; m has 1"
        )
        seen = from_json(found)
        assert seen.share_partitions[TopicPartition("t", 0)].deliveries == {delivery: 1}
        assert "  t-0: from 0 on, 1 in flight" in str(seen).splitlines()
        await nodes.controller.advance(30_000)
        epoch = nodes.share("m", epoch)
    assert from_json(await nodes.group()).share_partitions[TopicPartition("t", 0)].given_up == (
        GivenUp(0, 0, 5, "m"),
    )
    found = await nodes.group()
    (partition,) = found["share_partitions"]
    assert (partition["start_offset"], partition["in_flight"]) == (1, 0)
    assert found["now"][-1] == "t 0: from 1 on, nothing in flight; 1 record given up"
    assert partition["given_up"] == [GivenUp(0, 0, 5, "m")._asdict()]
    assert found["type"] == "share"
    assert of(found, "m")["state"] == "STABLE"
    assert from_json(found).is_settled
    assert found["last_rebalance"][0].endswith(
        "record 0 of t 0 given up after 5 deliveries, the last one to test on /127.0.0.1"
    )


async def test_streams_tasks(nodes: ModernNodes) -> None:
    """Streams tasks are shown by subtopology."""
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="s",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        topology=READS_THREE,
        process_id="p",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    nodes.ask(request, 0)
    found = await nodes.group()
    assert "0 of 1 member with the new assignment after 0 ms so far" in found["under_way"][0]
    assert of(found, "s")["assignment"] == {}
    await nodes.controller.advance(3_000)
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id="s", member_epoch=1)
    nodes.ask(request, 0)
    found = await nodes.group()
    assert (found["type"], found["state"]) == ("streams", "Stable")
    member = of(found, "s")
    assert member["assignment"] == member["target"] == {"0": [0, 1, 2]}
    assert (member["subscription"], member["standby"]) == (["three"], {})
