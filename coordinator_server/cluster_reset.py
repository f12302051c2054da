"""Returns a running cluster to its state after the first start, for the next test of a user."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from coordinator_server.events.log import LOG
from coordinator_server.steps import run_all

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster
    from coordinator_server.shared_state import Clocks
    from coordinator_server.topics.manager import TopicManager


async def reset(
    cluster: Cluster, *, moves: bool = False, user: str | None = None, remote: str | None = None
) -> dict[str, int]:
    """Remove all state that clients created, and their connections; return how many.

    The result counts topics, groups and connections. Stopped brokers are started. With `moves` the
    brokers listen on other ports, so that former clients cannot reconnect. The removal happens in
    one turn of the event loop, connections first. Producer ids are not reused. Clocks, fault
    rules and the log level return to their initial values. `user` and `remote` name the requester
    in the log. Raises StorageError, StartError.
    """
    for node_id in cluster.node_ids:
        await cluster.start_broker(node_id)
    async with cluster.changing:
        cluster.check_open()
        servers = cluster.servers
        new_servers = {
            node_id: cluster.new_server(cluster.brokers[node_id])
            for node_id in (servers.by_id if moves else ())
        }
        elsewhere = await servers.start_elsewhere(new_servers)
        await _end_work(cluster)
        topics = tuple(cluster.topics.all_topics())
        removed = {
            "topics": len(topics),
            "groups": sum(len(broker.groups.tasks) for broker in cluster.brokers.values()),
            "connections": sum(map(servers.connection_count, cluster.node_ids)),
        }
        servers.abort_connections()
        former = servers.move(elsewhere)
        for broker in cluster.brokers.values():
            broker.forget()
        if topics:
            run_all(cluster.topics.delete(topics))
        cluster.shared.recent_deletions.clear()
        cluster.group_configs.clear()
        cluster.telemetry.clear()
        run_all(cluster.dynamic_configs.clear())
        cluster.security.forget()
        cluster.journal.forget()
        LOG.reset_level()
        cluster.topics.create_initial()
        _reset_clocks(cluster.shared.clocks, cluster.topics)
        cluster.shared.faults.reset()
        await asyncio.gather(*[server.disconnect() for server in former])
        if cluster.shared.counts is not None:
            await asyncio.sleep(0)  # one event loop iteration, in which the aborted connections end
            cluster.shared.counts.forget_closed()
    LOG.emit("cluster.reset", **removed, user=user, remote=remote)
    return removed


async def _end_work(cluster: Cluster) -> None:
    """Close connections until no work is in progress that may still write."""
    step_runner, flusher = cluster.step_runner, cluster.shared.flusher
    while step_runner or flusher.is_checking:
        cluster.servers.abort_connections()
        flusher.cancel_checks()
        await asyncio.sleep(0 if step_runner else 0.001)


def _reset_clocks(clocks: Clocks, topics: TopicManager) -> None:
    """Reset virtual clocks to the machine's time.

    All state with virtual times is already removed.
    """
    if clocks.broker is clocks.machine:
        return
    from coordinator_server.clock.virtual_clock import VirtualClock

    before_ms = clocks.broker.now_ms()
    for clock in (clocks.broker, clocks.client):
        assert isinstance(clock, VirtualClock)
        clock.reset()
    topics.clock_set_back(before_ms - clocks.broker.now_ms())
