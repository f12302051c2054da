"""Links, history, order, filters and notes; the keyboard and the names for screen readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.page.browser import View, link, wait_for
from tests.page.workload import (
    CLASSIC,
    IDLE,
    MODERN,
    SETTINGS,
    SHARE,
    TOPIC,
    TRANSACTION,
    VIEWS,
    workload,
)
from tests.support import Broker

pytestmark = pytest.mark.nightly

NAMES = [
    "Overview",
    "Groups",
    "Topics",
    "Transactions",
    "Connections",
    "Clock",
    "Settings",
    "Security",
    "Connect",
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with clients of every kind."""
    with Broker(SETTINGS) as broker, workload(broker):
        yield broker


def test_the_navigation_and_the_history(broker: Broker, open_view: Callable[..., View]) -> None:
    """Each name leads to its view; Back and Forward go through them; the title follows."""
    view = open_view(broker.control.address)
    nav = view.page.get_by_role("navigation", name="Views")
    assert nav.get_by_role("link").all_inner_texts() == NAMES
    for name in NAMES:
        nav.get_by_role("link", name=name, exact=True).click()
        view.shown(name)
        nav.locator("[aria-current=page]").filter(has_text=re.compile(f"^{name}$")).wait_for()
        assert view.page.title().startswith(name)
    for name in reversed(NAMES[:-1]):
        view.page.go_back()
        view.shown(name)
    for name in NAMES[1:]:
        view.page.go_forward()
        view.shown(name)


@pytest.mark.parametrize("parts", VIEWS, ids="-".join)
def test_a_link_opens_the_same_view(
    broker: Broker, open_view: Callable[..., View], parts: tuple[str, ...]
) -> None:
    """A view that is reached by its link shows the heading that navigation shows."""
    view = open_view(broker.control.address, *parts)
    heading = view.page.locator("main h1").inner_text()
    view.go()
    view.shown("Overview")
    view.go(*parts)
    view.shown(heading)
    view.check()


def test_groups_are_filtered_and_sorted(broker: Broker, open_view: Callable[..., View]) -> None:
    """Name, type and order are in the link; Back leaves the list, not its last filter."""
    view = open_view(broker.control.address)
    view.go("groups")

    def names() -> list[str]:
        return [row[0] for row in view.rows("Groups")]

    def shows(expected: set[str]) -> bool:
        return set(names()) == expected

    wait_for(lambda: names() == sorted([CLASSIC, MODERN, IDLE, SHARE]), "by name")
    for kind, expected in (
        ("classic", {CLASSIC, IDLE}),
        ("consumer", {MODERN}),
        ("share", {SHARE}),
    ):
        view.page.get_by_label("Type").select_option(kind)
        wait_for(partial(shows, expected), kind)
        assert view.hash == link("groups", query={"type": kind})
    view.page.get_by_label("Type").select_option("")
    for order in ("lag", "time"):
        view.page.get_by_label("Order").select_option(order)
        wait_for(lambda: names()[:1] == [IDLE], f"the group behind is first: {order}")
    address = view.hash
    view.page.go_back()
    view.shown("Overview")
    view.follow(address)
    wait_for(lambda: names()[:1] == [IDLE], "the link keeps the order")


def test_topics_are_filtered(broker: Broker, open_view: Callable[..., View]) -> None:
    """The list has internal topics if they are asked for."""
    view = open_view(broker.control.address, "topics")

    def names() -> list[str]:
        return [row[0] for row in view.rows("Topics")]

    wait_for(lambda: TOPIC in names(), "the topics")
    assert not [name for name in names() if name.startswith("__")]
    view.page.get_by_label("with internal topics").check()
    wait_for(lambda: "__consumer_offsets" in names(), "internal topics")
    view.page.get_by_label("Name contains").fill("order")
    wait_for(lambda: names() == [TOPIC], "the filter")


def test_records_in_flight_are_shown(broker: Broker, open_view: Callable[..., View]) -> None:
    """A share group shows each acquired record with its member and lock."""
    view = open_view(broker.control.address, "groups", SHARE)
    rows = wait_for(lambda: view.rows("Records in flight"), "the records in flight")
    assert rows[0][0] == "jobs-0: 0-1"
    assert rows[0][2] == "1"
    assert "(in " in rows[0][4]


def test_a_list_that_is_cut_says_so(open_view: Callable[..., View]) -> None:
    """More groups than are read at once lead to a note with the number that is shown."""
    with Broker() as broker:
        broker.create_topic("t", 1)
        places: Any = [{"topic": "t", "partition": 0, "offset": 0}]
        for number in range(2_001):
            broker.api.offsets_set(f"g-{number:05}", {"offsets": places})
        view = open_view(broker.control.address, "groups")
        view.page.locator(".note", has_text="The first 2,000 groups are shown.").wait_for()
        view.page.get_by_label("Name contains").fill("g-02000")
        wait_for(lambda: [row[0] for row in view.rows("Groups")] == ["g-02000"], "the last group")
        assert view.page.locator(".note", has_text="are shown").count() == 0


# --- keyboard and screen readers ------------------------------------------------------------------


def test_the_page_is_used_by_keyboard(broker: Broker, open_view: Callable[..., View]) -> None:
    """Tab reaches the skip link, then the views; Enter opens a view and focuses its content."""
    view = open_view(broker.control.address)
    active = "document.activeElement"
    view.page.keyboard.press("Tab")
    assert view.page.evaluate(f"{active}.textContent") == "Skip to the content"
    box = view.page.locator(".skip").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    reached = []
    for _ in range(len(NAMES) + 1):
        view.page.keyboard.press("Tab")
        reached.append(view.page.evaluate(f"{active}.textContent"))
    assert reached == ["coordinator-server", *NAMES]
    for _ in range(len(NAMES) - 2):
        view.page.keyboard.press("Shift+Tab")
    view.page.keyboard.press("Enter")
    view.shown("Groups")
    wait_for(lambda: view.page.evaluate(f"{active}.id") == "main", "the content has the focus")
    view.page.keyboard.press("Tab")
    assert view.page.evaluate(f"{active}.name") == "filter"


def test_a_dialog_keeps_and_returns_the_focus(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """Tab stays in an open dialog, Escape cancels it, and the focus returns to its button."""
    view = open_view(broker.control.address, "transactions", TRANSACTION)
    button = view.button("Abort the transaction")
    button.focus()
    for key in ("Enter", "Space"):
        view.page.keyboard.press(key)
        dialog = view.page.get_by_role("dialog", name="Abort the transaction")
        dialog.wait_for()
        is_inside = "!document.activeElement.closest('main, header')"
        for _ in range(5):
            view.page.keyboard.press("Tab")
            assert view.page.evaluate(is_inside)
        view.page.keyboard.press("Escape")
        wait_for(lambda: view.page.locator("dialog").count() == 0, "the dialog is closed")
        assert view.page.evaluate("document.activeElement.textContent") == "Abort the transaction"
    assert broker.api.transactions_show(TRANSACTION)["transaction"]["state"] == "Ongoing"


def test_everything_has_a_name(broker: Broker, open_view: Callable[..., View]) -> None:
    """Each control, table and scrolled part has a name; a view has one main heading."""
    view = open_view(broker.control.address)
    for parts in VIEWS:
        view.go(*parts)
        main = view.page.get_by_role("main")
        assert main.get_by_role("heading", level=1).count() == 1, parts
        for role in ("button", "link", "textbox", "combobox", "checkbox", "spinbutton", "region"):
            nameless = main.get_by_role(role, name="", exact=True)
            named = [text for text in nameless.all() if not text.evaluate(NAME_OF)]
            assert not named, (parts, role)
        captions = view.page.locator("table > caption").count()
        assert captions == view.page.locator("table").count(), parts
        live = view.page.locator("#status")
        assert live.get_attribute("aria-live") == "polite"


NAME_OF = """element => (element.getAttribute('aria-label') ?? element.textContent
    ?? element.title).trim() || element.labels?.[0]?.textContent.trim()"""
