"""Metrics of share groups, consumer groups and transactions."""

from __future__ import annotations

from typing import Any, cast

import pytest

from coordinator_server.counting.counts import Counts
from coordinator_server.topics.topic import Partition
from protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from protocol.apis.end_txn import EndTxnRequest
from protocol.apis.init_producer_id import InitProducerIdRequest
from storage.errors import StorageError
from storage.partition_log import PartitionLog
from tests.harness.records import batch
from tests.unit.control.modern_nodes import ModernNodes
from tests.unit.metrics.scene import Samples, exposition, parsed, total, value


@pytest.fixture
def nodes() -> ModernNodes:
    """Return a cluster of one broker that counts."""
    return ModernNodes(None, 1, counts=Counts())


async def samples_of(nodes: ModernNodes) -> Samples:
    """Return the samples of the cluster's scrape."""
    nodes.turn()
    return parsed((await exposition(nodes.cluster)).body.decode())


async def test_share_records_are_counted_by_state(nodes: ModernNodes) -> None:
    """Acquired records are counted as in flight and as lag.

    Records that reach the delivery limit are counted as given up.
    """
    nodes.cluster.group_configs.set({"g": {"share.auto.offset.reset": "earliest"}})
    epoch = nodes.share("m", 0)
    await nodes.controller.advance(1_000)
    epoch = nodes.share("m", epoch)
    nodes.partition("t", 0).append(batch(b"1"), nodes.cluster.clock.now_ms())
    of = {"broker": 1, "group": "g"}
    for delivery in range(5):
        assert nodes.take("m", delivery) == 1
        samples = await samples_of(nodes)
        assert value(samples, "coordinator_share_records", **of, state="acquired") == 1
        assert value(samples, "coordinator_share_lag_records", **of, topic="t", partition=0) == 1
        assert value(samples, "coordinator_share_sessions", broker=1) == 1
        assert value(samples, "coordinator_groups", broker=1, type="share", state="Stable") == 1
        await nodes.controller.advance(30_000)
        epoch = nodes.share("m", epoch)
    samples = await samples_of(nodes)
    name, cause = "coordinator_share_records_given_up_total", "delivery limit reached"
    assert value(samples, name, broker=1, cause=cause) == 1
    assert value(samples, "coordinator_share_lag_records", **of, topic="t", partition=0) == 0


async def test_a_log_that_cannot_be_opened_costs_its_own_lag(
    nodes: ModernNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share partition whose log has a disk error has no lag; all other metrics are served."""
    epoch = nodes.share("m", 0)
    await nodes.controller.advance(1_000)
    nodes.share("m", epoch)
    nodes.take("m", 0)
    of = {"broker": 1, "group": "g", "topic": "t", "partition": 0}
    assert value(await samples_of(nodes), "coordinator_share_lag_records", **of) == 0
    opened: Any = vars(Partition)["log"]

    def log(partition: Partition) -> PartitionLog:
        if partition.topic_name == "t":
            raise StorageError("a disk error")
        return cast(PartitionLog, opened.fget(partition))

    monkeypatch.setattr(Partition, "log", property(log))
    samples = await samples_of(nodes)
    assert value(samples, "coordinator_share_lag_records", **of) is None
    assert value(samples, "coordinator_topics") is not None


async def test_epochs_of_consumer_groups_are_rebalances(nodes: ModernNodes) -> None:
    """When a member joins a consumer group, one rebalance with its phases is counted."""
    epoch = nodes.beat("m", 0).member_epoch
    await nodes.controller.advance(1_000)
    epoch = nodes.beat("m", epoch, []).member_epoch
    nodes.beat("m", epoch, [0, 1, 2])
    samples = await samples_of(nodes)
    of = {"broker": 1, "type": "consumer"}
    assert total(samples, "coordinator_rebalances_total", **of, cause="member joined") == 1
    name = "coordinator_rebalance_phase_seconds_count"
    assert value(samples, name, **of, phase="assign") == 1
    assert value(samples, "coordinator_members", **of) == 1
    await nodes.controller.advance(60_000)
    samples = await samples_of(nodes)
    reason = "session expired"
    assert value(samples, "coordinator_members_removed_total", **of, reason=reason) == 1


async def test_transactions_are_open_and_then_ended(nodes: ModernNodes) -> None:
    """The age of an open transaction is a metric; commits, aborts and timeouts are counted."""

    async def begin() -> tuple[int, int]:
        for _ in range(100):
            request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
            answer = nodes.ask(request, 4)
            if not answer.error_code:
                break
            nodes.turn()
        producer = answer.producer_id, answer.producer_epoch
        adding = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        nodes.ask(adding, 3)
        return producer

    for committed in (True, False, False):
        producer_id, epoch = await begin()
        request = EndTxnRequest(
            transactional_id="tx",
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )
        assert nodes.ask(request, 3).error_code == 0
    await begin()
    await nodes.controller.advance(20_000)
    samples = await samples_of(nodes)
    assert value(samples, "coordinator_transactions_open", broker=1) == 1
    assert value(samples, "coordinator_transaction_oldest_seconds", broker=1) == 20
    assert value(samples, "coordinator_transactional_ids", broker=1, state="Ongoing") == 1
    await nodes.controller.advance(60_000)
    samples = await samples_of(nodes)
    ended = [
        value(samples, "coordinator_transactions_total", broker=1, outcome=outcome)
        for outcome in ("committed", "aborted")
    ]
    assert ended == [1, 3]
    assert value(samples, "coordinator_transactions_timed_out_total", broker=1) == 1
    assert value(samples, "coordinator_transactions_open", broker=1) == 0
