"""Pages of rebalances: their limit, and records that are only in memory."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_server.control import rebalances
from coordinator_server.control.request import ControlError, ControlRequest
from coordinator_server.control.routes import ROUTES
from coordinator_server.core.groups.explain import Cause, Rebalance, RebalanceOutcome, Trigger
from coordinator_server.rebalances.journal import GATHER_MS
from tests.unit.control.virtual_time import VirtualTimeNodes

(ROUTE,) = (route for route in ROUTES if route.verb == "groups rebalances")


def ended(nodes: VirtualTimeNodes, *generations: int, group: str = "g") -> None:
    """Let rebalances of a group end; their records are in memory, but not yet in the topic."""
    cause = Cause(Trigger.MEMBER_LEFT, "m-1", None, "m", "/127.0.0.1", "")
    for generation in generations:
        rebalance = Rebalance(cause, generation - 1, None, 1_000)
        outcome = RebalanceOutcome.STABLE
        nodes.journal.take(group, rebalance.end(outcome, "consumer", 2_000, generation=generation))
    nodes.turn()


async def page(nodes: VirtualTimeNodes, **query: str) -> tuple[list[int], str | None]:
    """Return the generations of a page, and where the next page begins."""
    request = ControlRequest(
        nodes.cluster, {"GROUP": "g"}, query, b"", values=ROUTE.values(query), route=ROUTE
    )
    answer = await rebalances.rebalances(request)
    return [one["account"]["generation"] for one in answer["rebalances"]], answer["next"]


async def all_pages(nodes: VirtualTimeNodes, limit: int) -> list[list[int]]:
    """Return the generations of all pages."""
    pages = []
    query = {"limit": str(limit)}
    while True:
        generations, after = await page(nodes, **query)
        pages.append(generations)
        if after is None:
            return pages
        query["after"] = after


@pytest.mark.parametrize("enabled", ["true", "false"])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 500])
async def test_a_page_has_no_more_than_its_limit(
    monkeypatch: pytest.MonkeyPatch, limit: int, enabled: str
) -> None:
    """Each rebalance is on one page, in the topic or in memory; all pages but the last are full."""
    monkeypatch.setattr(rebalances, "_WINDOW", 4)
    nodes: Any = VirtualTimeNodes(None, 1, group_events_enable=enabled)
    ended(nodes, *range(1, 8))
    ended(nodes, 1, 2, 3, group="other")
    nodes.advance(GATHER_MS)
    ended(nodes, 8, 9, 10)
    pages = await all_pages(nodes, limit)
    assert [one for generations in pages for one in generations] == list(range(10, 0, -1))
    assert {len(generations) for generations in pages[:-1]} <= {limit}
    assert len(pages[-1]) <= limit


async def test_records_in_memory_go_on_in_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record is on exactly one page, before and after the record is written to the topic.

    In this test all records have the same end and generation.
    """
    nodes = VirtualTimeNodes(None, 1)
    ended(nodes, 1, 2, 5, 5, 5, 5)
    first, after = await page(nodes, limit="1")
    assert after is not None
    second, after = await page(nodes, limit="1", after=after)
    nodes.advance(GATHER_MS)
    ended(nodes, 6)
    assert after is not None
    rest, end = await page(nodes, limit="4", after=after)
    assert (first, second, rest, end) == ([5], [5], [5, 5, 2, 1], None)


@pytest.mark.parametrize("after", ["", "x", "-1", "1.2", "1.2.x", "1.2.3.4", "9" * 40])
async def test_a_text_that_is_not_from_a_page_is_refused(after: str) -> None:
    """A value of `after` that cannot be the `next` of a page gets status 400."""
    nodes = VirtualTimeNodes(None, 1)
    with pytest.raises(ControlError, match="is not from a page") as raised:
        await page(nodes, after=after)
    assert raised.value.status == 400
