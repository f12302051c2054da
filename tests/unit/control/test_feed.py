"""The feed of events: its ring, resume, slow listeners and the end without listeners."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from coordinator_server.cluster import Cluster
from coordinator_server.control import feed
from coordinator_server.control.feed import Feed
from coordinator_server.events.log import LOG
from coordinator_server.steps import Computation, run_all
from protocol.apis.delete_groups import DeleteGroupsRequest
from protocol.apis.init_producer_id import InitProducerIdRequest
from tests.unit.control.virtual_time import VirtualTimeNodes


@pytest.fixture
def nodes() -> VirtualTimeNodes:
    """Return a cluster of one broker."""
    return VirtualTimeNodes(None, 1)


async def begun(events: Feed, last: int | None = None) -> AsyncGenerator[bytes, None]:
    """Return a listener that has got the comment at the start of its stream."""
    listener = events.listen(last, lambda event: event.kind == "topic")
    assert (await anext(listener)).startswith(b":")
    return listener


def data(part: bytes) -> list[dict[str, Any]]:
    """Return the events of a part of the stream."""
    lines = part.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


async def test_a_listener_that_does_not_read_is_cut_off(
    nodes: VirtualTimeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener's stream ends once the ring has dropped events that the listener has not read.

    A listener that reads gets all events.
    """
    monkeypatch.setattr(feed, "KEPT_EVENTS", 5)
    monkeypatch.setattr(feed, "INTERVAL_SECONDS", 0.001)
    events = Feed(nodes.cluster)
    slow, quick = await begun(events), await begun(events)
    seen: list[str] = []
    waiting = asyncio.ensure_future(anext(slow))
    for number in range(12):
        nodes.cluster.topics.create(f"t{number:02}", 1, {})
        while f"t{number:02}" not in seen:
            seen += [one["data"]["topic"] for one in data(await anext(quick))]
    assert seen == [f"t{number:02}" for number in range(12)]
    assert data(await waiting)[0]["data"]["topic"] == "t00"
    with pytest.raises(StopAsyncIteration):
        await anext(slow)
    await quick.aclose()
    events.stop()


async def test_a_resume_continues_or_begins_with_reset(
    nodes: VirtualTimeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resume within the ring repeats nothing; any other resume begins with `reset`."""
    monkeypatch.setattr(feed, "INTERVAL_SECONDS", 0.001)
    events = Feed(nodes.cluster)
    listener = await begun(events)
    nodes.cluster.topics.create("first", 1, {})
    (first,) = data(await anext(listener))
    nodes.cluster.topics.create("second", 1, {})
    (second,) = data(await anext(listener))
    await listener.aclose()
    again = await begun(events, first["id"])
    assert data(await anext(again)) == [second]
    await again.aclose()
    for wrong in (1, second["id"] + 1_000_000):
        late = await begun(events, wrong)
        assert data(await anext(late))[0]["type"] == "reset"
        await late.aclose()
    events.stop()


async def test_without_a_listener_the_feed_ends(
    nodes: VirtualTimeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After LINGER_SECONDS without a listener the state is not compared any more."""
    monkeypatch.setattr(feed, "INTERVAL_SECONDS", 0.001)
    monkeypatch.setattr(feed, "LINGER_SECONDS", 0.01)
    listener = await begun(Feed(nodes.cluster))
    assert nodes.cluster.journal.listeners
    await listener.aclose()
    async with asyncio.timeout(5):
        while nodes.cluster.journal.listeners:
            await asyncio.sleep(0)


class Compared:
    """The feed of two brokers, which compares the state when it is asked to."""

    def __init__(self) -> None:
        self.nodes = VirtualTimeNodes(None, 2, transaction_state_log_num_partitions="1")
        self.feed = Feed(self.nodes.cluster)
        self.states()

    def states(self) -> list[tuple[str, str]]:
        """Compare the state; return name and state of new events of groups and transactions."""
        self.nodes.turn()
        seen = len(self.feed._events)
        run_all(self.feed._compare())
        new = [json.loads(event.json) for event in list(self.feed._events)[seen:]]
        return [
            (event["type"], event["data"]["state"])
            for event in new
            if event["type"] in ("group", "transaction")
        ]


async def test_a_group_of_a_stopped_broker_is_not_removed() -> None:
    """A group without a coordinator has no event; a deleted group becomes Dead."""
    compared = Compared()
    nodes = compared.nodes
    assert not nodes.commit(nodes.home("g").leader_id, "g", 1)
    assert compared.states() == [("group", "Empty")]
    for node_id in (1, 2):
        await nodes.cluster.stop_broker(node_id)
        assert compared.states() == []
    await nodes.cluster.start_broker(1)
    run_all(compared.feed._compare())  # compare before the group is loaded
    assert compared.states() == []
    deleted = nodes.ask(DeleteGroupsRequest(groups_names=["g"]), node_id=1)
    assert not deleted.results[0].error_code
    assert compared.states() == [("group", "Dead")]
    assert compared.states() == []


async def test_a_group_that_moves_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that misses a group, which moved between two steps, reports nothing."""
    compared = Compared()
    nodes = compared.nodes
    assert not nodes.commit(nodes.home("g").leader_id, "g", 1)
    assert compared.states() == [("group", "Empty")]
    state_of = feed._state_of

    def without_groups(cluster: Cluster) -> Computation[feed.State]:
        state = yield from state_of(cluster)
        return {key: data for key, data in state.items() if key[0] != "group"}

    with monkeypatch.context() as patch:
        patch.setattr(feed, "_state_of", without_groups)
        assert compared.states() == []
    assert compared.states() == []


async def test_a_transaction_of_a_stopped_broker_is_not_removed() -> None:
    """A transactional id has no event while its coordinator is stopped."""
    compared = Compared()
    nodes = compared.nodes
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    for node_id in (1, 2):
        nodes.ask(request, node_id=node_id)
    assert compared.states() == [("transaction", "Empty")]
    for node_id in (1, 2):
        await nodes.cluster.stop_broker(node_id)
        assert compared.states() == []
    await nodes.cluster.start_broker(2)
    assert compared.states() == []


async def test_a_bug_ends_the_streams_and_is_logged(
    nodes: VirtualTimeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a comparison raises, the streams end; a listener that comes back starts the feed again."""
    events: list[str] = []
    monkeypatch.setattr(type(LOG), "emit", lambda _, event, **fields: events.append(event))
    monkeypatch.setattr(feed, "INTERVAL_SECONDS", 0.001)
    stream = Feed(nodes.cluster)
    listener = await begun(stream)
    with monkeypatch.context() as patch:
        patch.setattr(feed, "_state_of", lambda _: 1 / 0)
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(listener), 5)
    assert events == ["control_task.failed"]
    again = await begun(stream)
    nodes.cluster.topics.create("later", 1, {})
    assert data(await anext(again))[0]["data"]["topic"] == "later"
    await again.aclose()
    stream.stop()
