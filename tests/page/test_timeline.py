"""The timeline of a group against the journal of random rebalances."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.page.browser import View, wait_for
from tests.page.random_group import Generation, RandomGroup
from tests.support import Broker

pytestmark = pytest.mark.nightly

GROUP, TOPIC, PARTITIONS, REBALANCES = "driven", "orders", 5, 50
EVENTS = "__group_events"
YEAR_MS = 365 * 86_400_000
SPANS = "Owners of partitions in this time"


class Span(NamedTuple):
    """Who had a partition from when to when."""

    partition: str
    member: str
    from_ms: int
    to_ms: int


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker whose clock is frozen."""
    with Broker() as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        broker.clock.freeze()
        yield broker


@pytest.fixture(scope="module")
def driven(broker: Broker) -> Iterator[RandomGroup]:
    """A group after its rebalances."""
    group = RandomGroup(broker, GROUP, TOPIC, PARTITIONS, seed=32)
    for _ in range(REBALANCES):
        group.rebalance()
    yield group
    group.close()


def journal(broker: Broker, group: str) -> list[dict[str, Any]]:
    """Return the accounts of a group in the topic of rebalances, the oldest first."""
    records = broker.consume(EVENTS, None)
    accounts = [
        json.loads(record.value or b"") for record in records if record.key == group.encode()
    ]
    return sorted(accounts, key=lambda account: (account["ended_ms"], account["generation"]))


def expected_spans(
    accounts: Sequence[Mapping[str, Any]], generations: Sequence[Generation], now_ms: int
) -> list[Span]:
    """Return the spans by what the members were told, at the times of the journal.

    For each partition: the owner after each rebalance, with equal neighbours joined. A name that
    several members of the first rebalance of a span have is followed by a part of the member id.
    """
    spans = []
    for partition in range(PARTITIONS):
        begun: tuple[int, str, str] | None = None
        for account, generation in zip(accounts, generations, strict=True):
            owner = generation.owners.get(partition)
            if begun is not None and begun[1] != owner:
                spans.append(Span(f"{TOPIC}-{partition}", begun[2], begun[0], account["ended_ms"]))
                begun = None
            if begun is None and owner is not None:
                begun = (account["ended_ms"], owner, shown_name(generation, owner))
        if begun is not None:
            spans.append(Span(f"{TOPIC}-{partition}", begun[2], begun[0], now_ms))
    return sorted(spans)


def shown_name(generation: Generation, owner: str) -> str:
    """Return the name of a member as the page shows it."""
    name = generation.names[owner]
    if Counter(generation.names.values())[name] == 1:
        return name
    return f"{name} {generation.ids[owner].removeprefix(name + '-')[:8]}"


def shown_spans(view: View) -> list[Span]:
    """Return the spans of the table below the timeline."""
    view.disclose("The same as a table")
    rows: list[list[str]] = view.page.locator(f"[aria-label='{SPANS}'] tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell =>"
        " cell.querySelector('time')?.dateTime ?? cell.innerText.trim()))"
    )
    return sorted(Span(row[0], row[1], milliseconds(row[2]), milliseconds(row[3])) for row in rows)


def milliseconds(text: str) -> int:
    """Return the milliseconds since 1970 of a time with zone."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_the_spans_are_those_of_the_journal(
    broker: Broker, driven: RandomGroup, open_view: Callable[..., View]
) -> None:
    """The page shows exactly who had which partition when, through all rebalances."""
    accounts = journal(broker, GROUP)
    assert len(accounts) == len(driven.generations) == REBALANCES
    assert driven.returns >= 3
    assert {account["outcome"] for account in accounts} == {"stable", "empty"}
    expected = expected_spans(accounts, driven.generations, broker.clock.state().now_ms)
    view = open_view(broker.control.address, "groups", GROUP, query={"span": YEAR_MS})
    shown = shown_spans(view)
    assert shown == expected
    assert len(shown) > REBALANCES
    assert view.page.locator("svg.timeline g.span").count() == len(shown)
    assert view.page.locator("svg.timeline g.rebalance").count() == REBALANCES


def test_each_rebalance_is_explained(
    broker: Broker, driven: RandomGroup, open_view: Callable[..., View]
) -> None:
    """The list has every rebalance with its cause; its link and the timeline show its words."""
    accounts = journal(broker, GROUP)
    view = open_view(broker.control.address, "groups", GROUP, query={"span": YEAR_MS})
    rows = wait_for(lambda: view.rows("Rebalances, the latest first"), "the rebalances")
    shown = [(row[2].partition(" (")[0].partition(":")[0], row[3]) for row in rows]
    assert shown == [
        (account["trigger"], f"{account['generation']}") for account in reversed(accounts)
    ]
    told = {
        row["ended_ms"]: row["story"] for row in broker.api.groups_rebalances(GROUP)["rebalances"]
    }

    def tells(story: str) -> bool:
        return view.page.locator("pre.story").last.inner_text() == story

    for index in (0, 7, REBALANCES - 1):
        account = accounts[-1 - index]
        view.table("Rebalances, the latest first").get_by_role("link").nth(index).click()
        wait_for(partial(tells, "\n".join(told[account["ended_ms"]])), f"rebalance {index}")
        assert f"at={account['ended_ms']}" in view.hash
        wait_for(lambda: view.page.locator("g.rebalance.selected").count() == 1, "it is marked")


def test_a_time_is_gone_to(
    broker: Broker, driven: RandomGroup, open_view: Callable[..., View]
) -> None:
    """ "Go to time" shows the time and the account of the nearest rebalance; rows have dates."""
    accounts = journal(broker, GROUP)
    account = accounts[len(accounts) // 2]
    view = open_view(broker.control.address, "groups", GROUP, query={"span": 60_000})
    shown_spans(view)
    at = view.page.evaluate(
        "ms => { const at = new Date(ms); at.setMinutes(at.getMinutes() - "
        "at.getTimezoneOffset()); return at.toISOString().slice(0, 19) }",
        account["ended_ms"],
    )
    view.page.get_by_label("Go to time").fill(at)
    second_ms = account["ended_ms"] // 1000 * 1000
    wait_for(lambda: f"near={second_ms}" in view.hash, "the time is in the address")
    told = {
        row["ended_ms"]: "\n".join(row["story"])
        for row in broker.api.groups_rebalances(GROUP, limit=500)["rebalances"]
    }
    near = [
        story
        for ended_ms, story in told.items()
        if abs(ended_ms - second_ms) <= 1000 + abs(account["started_ms"] - account["ended_ms"])
    ]
    wait_for(lambda: view.page.locator("pre.story").last.inner_text() in near, "the account")
    rows = view.rows("Rebalances, the latest first")
    assert rows
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", row[0]) for row in rows)
    assert max(milliseconds_of(view)) <= second_ms + 30_000


def milliseconds_of(view: View) -> list[int]:
    """Return the ends of the rebalances in the list, from their links."""
    links = view.table("Rebalances, the latest first").get_by_role("link")
    hrefs: list[str] = links.evaluate_all("all => all.map(one => one.hash)")
    return [int(re.findall(r"[?&]at=(\d+)", href)[0]) for href in hrefs]


def test_no_label_is_cut_off(
    broker: Broker, driven: RandomGroup, open_view: Callable[..., View]
) -> None:
    """Each text of the picture is within its edges, wherever the last tick is."""
    now_ms = broker.clock.state().now_ms // 60_000 * 60_000
    for after_ms in (0, 1_000, 4_000, 8_000):
        query = {"span": 60_000, "to": now_ms + after_ms}
        view = open_view(broker.control.address, "groups", GROUP, query=query)
        view.page.locator("svg.timeline").wait_for()
        beyond = view.page.evaluate(
            """() => {
              const edge = document.querySelector("svg.timeline").getBoundingClientRect();
              const texts = [...document.querySelectorAll("svg.timeline text")];
              const isBeyond = (box) => box.left < edge.left || box.right > edge.right;
              return texts.filter((text) => isBeyond(text.getBoundingClientRect()))
                .map((text) => text.textContent);
            }"""
        )
        assert beyond == [], after_ms


def test_the_timeline_is_moved_and_zoomed(
    broker: Broker, driven: RandomGroup, open_view: Callable[..., View]
) -> None:
    """Buttons and keys move and zoom; each state has a link that shows the same spans."""
    now_ms = broker.clock.state().now_ms
    accounts = journal(broker, GROUP)
    expected = expected_spans(accounts, driven.generations, now_ms)
    view = open_view(broker.control.address, "groups", GROUP, query={"span": 600_000})

    def check(from_ms: int, to_ms: int) -> None:
        inside = [span for span in expected if span.to_ms >= from_ms and span.from_ms <= to_ms]
        wait_for(lambda: shown_spans(view) == inside, f"the spans from {from_ms} to {to_ms}")

    check(now_ms - 600_000, now_ms)
    view.button("Zoom in").click()
    check(now_ms - 300_000, now_ms)
    view.button("Zoom out").click()
    check(now_ms - 600_000, now_ms)
    view.button("Show 1 min").click()
    check(now_ms - 60_000, now_ms)
    view.button("Earlier").click()
    check(now_ms - 90_000, now_ms - 30_000)
    address = view.hash
    view.button("Later").click()
    check(now_ms - 60_000, now_ms)
    view.page.get_by_role("region", name="Timeline").focus()
    for key, from_ms, to_ms in (
        ("-", now_ms - 120_000, now_ms),
        ("ArrowLeft", now_ms - 150_000, now_ms - 30_000),
        ("ArrowLeft", now_ms - 180_000, now_ms - 60_000),
        ("ArrowRight", now_ms - 150_000, now_ms - 30_000),
        ("+", now_ms - 90_000, now_ms - 30_000),
        ("End", now_ms - 60_000, now_ms),
    ):
        view.page.keyboard.press(key)
        check(from_ms, to_ms)
    focused = view.page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith("Timeline")
    view.follow(address)
    check(now_ms - 90_000, now_ms - 30_000)


def test_an_open_timeline_follows_rebalances(
    broker: Broker, driven: RandomGroup, open_view: Callable[..., View]
) -> None:
    """New rebalances appear in an open page; its open table and its focus stay."""
    view = open_view(broker.control.address, "groups", GROUP, query={"span": YEAR_MS})
    shown_spans(view)
    view.button("Zoom in").focus()
    for _ in range(5):
        driven.rebalance()
    count = len(driven.generations)
    wait_for(lambda: len(journal(broker, GROUP)) == count, "the journal has all rebalances")
    accounts = journal(broker, GROUP)
    expected = expected_spans(accounts, driven.generations, broker.clock.state().now_ms)
    wait_for(lambda: shown_spans(view) == expected, "the spans of all rebalances")
    assert view.page.evaluate("document.activeElement.title") == "Zoom in"
