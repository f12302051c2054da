"""Advancing the time of a cluster: timers fire in order, each at its own time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator_server.clock.broker_clock import BrokerClock, SystemClock
from coordinator_server.cluster_reset import reset
from coordinator_server.composition import compose
from coordinator_server.config.config import Config
from coordinator_server.control import advance
from coordinator_server.control.advance import MAINTENANCE_ROUNDS, ClockController, ClockError
from coordinator_server.core.groups.classic.state import EMPTY, PREPARING_REBALANCE
from coordinator_server.events.log import LOG
from coordinator_server.maintenance.scheduler import MaintenanceScheduler
from protocol.errors import ErrorCode
from storage.memory_disk import MemoryDisk
from tests.harness.broker import DATA, InlineFlusher
from tests.harness.clock import START_MS, settle
from tests.harness.groups import join_request
from tests.harness.nodes import Nodes
from tests.harness.records import batch
from tests.unit.control.virtual_time import VirtualTimeNodes

SECOND_MS = 1000
DAY_MS = 24 * 3600 * SECOND_MS


@pytest.fixture
def nodes() -> VirtualTimeNodes:
    """Return a cluster of one broker."""
    return VirtualTimeNodes(None, 1)


async def test_timers_fire_in_the_order_of_real_time() -> None:
    """Sessions of many groups on three brokers expire at their own millisecond, in order."""
    nodes = VirtualTimeNodes(None, 3)
    timeouts_ms = {"late": 300_000, "early": 6_000, "middle": 45_000, "never": 300_001}
    for group, timeout_ms in timeouts_ms.items():
        nodes.join_with(group, timeout_ms)
    ended: list[tuple[str, int]] = []

    def noted(group_id: str, rebalance: Any) -> None:
        ended.append((group_id, rebalance.ended_ms - START_MS))

    for broker in nodes.cluster.brokers.values():
        broker.groups.explain = noted
    await nodes.controller.advance(300_000)
    assert ended == [("early", 6_000), ("middle", 45_000), ("late", 300_000)]
    assert nodes.elapsed_ms == 300_000


async def test_what_follows_from_a_timer_happens_within_the_advance(
    nodes: VirtualTimeNodes,
) -> None:
    """Members that do not sync are removed at the rebalance timeout, and the group is empty."""
    for _ in range(2):
        request = join_request("g")
        request.session_timeout_ms = request.rebalance_timeout_ms = 60_000
        nodes.send(request, 3, node_id=1)
    await settle()
    group = nodes.classic("g")
    # Both members have joined; neither sends SyncGroup or a heartbeat.
    assert group.generation_id > 0
    await nodes.controller.advance(59)
    assert group.membership.members
    await nodes.controller.advance(60_000)
    assert nodes.elapsed_ms == 60_059
    assert group.state is EMPTY


async def test_offsets_of_an_empty_group_expire_in_one_call(nodes: VirtualTimeNodes) -> None:
    """Offsets of an empty group expire after offsets.retention.minutes, and so does the group."""
    assert nodes.commit(1, "g", 5) == ErrorCode.NONE
    await nodes.controller.advance(7 * DAY_MS - 1)
    assert nodes.committed(1, "g") == (ErrorCode.NONE, 5)
    await nodes.controller.advance(600 * SECOND_MS)  # until after the next expiry check
    assert nodes.committed(1, "g") == (ErrorCode.NONE, -1)
    assert "g" not in nodes.cluster.brokers[1].groups.tasks


async def test_old_records_go(nodes: VirtualTimeNodes) -> None:
    """Retention is checked while time is advanced, and once more at the end if it is due."""
    log = nodes.cluster.topics.create("old", 1, {"retention.ms": "3600000"}).partitions[0].log
    log.append(batch(b"x", times_ms=[START_MS]), START_MS)
    await nodes.controller.advance(3599 * SECOND_MS)
    assert log.log_start_offset == 0
    await nodes.controller.advance(320 * SECOND_MS)
    assert log.log_start_offset == 1


async def test_a_week_takes_a_bounded_number_of_rounds(
    nodes: VirtualTimeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An advance by a week runs few of its 40 320 maintenance rounds, the last one at the end."""
    times_ms: list[int] = []
    begin = MaintenanceScheduler.step

    def step(scheduler: MaintenanceScheduler) -> int:
        times_ms.append(nodes.elapsed_ms)
        return begin(scheduler)

    monkeypatch.setattr(MaintenanceScheduler, "step", step)
    await nodes.controller.advance(7 * DAY_MS)
    assert MAINTENANCE_ROUNDS <= len(set(times_ms)) <= MAINTENANCE_ROUNDS + 2
    assert times_ms[-1] == 7 * DAY_MS


async def test_a_parked_fetch_returns_as_time_moves(nodes: VirtualTimeNodes) -> None:
    """A parked fetch is answered exactly at its max_wait_ms."""
    call = nodes.fetch(60_000)
    await settle()
    await nodes.controller.advance(59_999)
    assert not call.answered
    await nodes.controller.advance(1)
    assert call.answered


async def test_a_parked_fetch_returns_though_time_is_frozen(nodes: VirtualTimeNodes) -> None:
    """A parked fetch is answered while time is frozen, as its client waits in real time.

    Later requests of the connection wait behind the fetch.
    """
    await nodes.controller.freeze()
    call = nodes.fetch(5)
    while not call.answered:
        nodes.advance(1)
    assert nodes.elapsed_ms == 0


async def test_after_a_freeze_a_fetch_waits_as_long_as_before(nodes: VirtualTimeNodes) -> None:
    """After a freeze a fetch still waits for its max_wait_ms.

    The broker's time is then behind the machine's. Without a wait the client would poll in a busy
    loop.
    """
    await nodes.controller.freeze()
    nodes.advance(10_000)
    await nodes.controller.resume()
    call = nodes.fetch(5_000)
    await nodes.controller.advance(4_999)
    assert not call.answered
    await nodes.controller.advance(1)
    assert call.answered


async def test_frozen_the_initial_delay_does_not_end() -> None:
    """While time is frozen, the initial rebalance delay does not end."""
    nodes = VirtualTimeNodes(None, 1, group_initial_rebalance_delay_ms="3000")
    await nodes.controller.freeze()
    await nodes.controller.freeze()
    calls = []
    for _ in range(3):
        calls.append(nodes.send(join_request("g"), 3, node_id=1))
        nodes.advance(10_000)
        await settle()
    group = nodes.classic("g")
    assert group.state is PREPARING_REBALANCE
    assert nodes.controller.is_frozen
    # Members joined in the first 3 s, so the join phase is extended by 3 s, as in Kafka.
    await nodes.controller.advance(5_999)
    assert not any(call.answered for call in calls)
    await nodes.controller.advance(1)
    assert all(call.answered for call in calls)
    assert nodes.elapsed_ms == 6_000
    assert nodes.controller.is_frozen
    await nodes.controller.resume()
    await nodes.controller.resume()
    assert nodes.elapsed_ms == 6_000
    nodes.advance(7)
    assert nodes.elapsed_ms == 6_007


async def test_requests_that_came_before_are_handled_first(nodes: VirtualTimeNodes) -> None:
    """A heartbeat that arrived before an advance is handled at its arrival time."""
    member_id = nodes.join(1, "g")
    await nodes.controller.advance(9_000)
    request = join_request("h")
    joining = nodes.send(request, 3, node_id=1)
    beats: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: beats.append(nodes.heartbeat(1, "g", member_id)))
    await nodes.controller.advance(9_999)
    assert beats == [ErrorCode.NONE]
    assert joining.answered
    assert nodes.classic("g").membership.members


async def test_one_change_after_the_other(nodes: VirtualTimeNodes) -> None:
    """Concurrent advances add up, even if a broker is stopped and started at the same time."""
    await asyncio.gather(
        nodes.controller.advance(1_000),
        nodes.cluster.stop_broker(1),
        nodes.controller.advance(500),
        nodes.cluster.start_broker(1),
        nodes.controller.freeze(),
    )
    assert nodes.elapsed_ms == 1_500
    assert nodes.controller.is_frozen


async def test_a_broker_that_does_not_come_to_rest_is_an_error(
    nodes: VirtualTimeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Advancing fails if a broker does not come to rest; the error names its pending work.

    Afterwards time continues, and requests are handled again.
    """
    monkeypatch.setattr(advance, "QUIESCENCE_SECONDS", 0.0)
    monkeypatch.setattr(type(nodes.cluster), "busy_with", lambda *_, **__: "group g")
    released = []
    servers = type(nodes.cluster.servers)
    monkeypatch.setattr(servers, "release_requests", lambda _: released.append(True))
    with pytest.raises(ClockError, match="still busy with group g after 0 s"):
        await nodes.controller.advance(1_000)
    assert released == [True]
    assert not nodes.controller.is_frozen
    nodes.advance(5)
    assert nodes.elapsed_ms == 5


def test_without_control_there_is_no_virtual_clock() -> None:
    """Without clock control the brokers use the machine's clock itself."""
    nodes = Nodes(None, 1)
    clock: BrokerClock = nodes.clock
    assert nodes.cluster.clock is nodes.cluster.client_clock is clock
    config = Config(overrides={"log.dirs": DATA})
    cluster = compose(config, SystemClock(), MemoryDisk(), flusher=InlineFlusher(nodes.clock))
    with pytest.raises(ClockError, match="has no virtual clock"):
        ClockController(cluster)


async def test_a_reset_resets_the_clock(
    nodes: VirtualTimeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset restores the machine's time, which runs on; maintenance keeps its remaining delay."""
    monkeypatch.setattr(type(LOG), "emit", lambda *_, **__: None)
    await nodes.controller.advance(7 * DAY_MS)
    await nodes.controller.freeze()
    await reset(nodes.cluster)
    assert nodes.elapsed_ms == 0
    assert not nodes.controller.is_frozen
    log = nodes.cluster.topics.create("old", 1, {"retention.ms": "1000"}).partitions[0].log
    log.append(batch(b"x", times_ms=[START_MS]), START_MS)
    await nodes.controller.advance(320 * SECOND_MS)
    assert log.log_start_offset == 1
