"""The feed of events: its ring, resume, slow listeners and the end without listeners."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from coordinator_server.control import feed
from coordinator_server.control.feed import Feed
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
    """If the ring has passed a listener, its stream ends; another listener gets all events."""
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
    """A resume within the ring repeats nothing; one from before or after it begins with `reset`."""
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
