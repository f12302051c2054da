"""Live updates: nothing that the user has done is lost, and the page reconnects by itself."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.page.browser import NARROW, View, wait_for
from tests.support import API_VERSIONS_REQUEST, Broker, Serve, connect, free_port

pytestmark = pytest.mark.nightly

_LIMIT = r"/connections\?limit=(\d+)"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with 120 topics and groups."""
    with Broker() as broker:
        for number in range(120):
            broker.create_topic(f"topic-{number:03}", 1)
            place: Any = {"topic": f"topic-{number:03}", "partition": 0, "offset": 0}
            broker.api.offsets_set(f"group-{number:03}", {"offsets": [place]})
        yield broker


def change(broker: Broker, number: int) -> None:
    """Create a topic and a group, which changes the lists."""
    broker.produce(f"a-new-{number}", "a")
    place: Any = {"topic": f"a-new-{number}", "partition": 0, "offset": 0}
    broker.api.offsets_set(f"a-new-{number}", {"offsets": [place]})


def test_a_list_keeps_focus_and_position(broker: Broker, open_view: Callable[..., View]) -> None:
    """New rows above leave the focused link focused and at its place in the window."""
    view = open_view(broker.control.address, "groups")
    wait_for(lambda: len(view.rows("Groups")) >= 120, "the groups")
    view.page.evaluate("window.scrollTo(0, 2000)")
    link = view.page.get_by_role("link", name="group-060", exact=True)
    link.focus()
    top = link.bounding_box()
    change(broker, 1)
    wait_for(lambda: "a-new-1" in [row[0] for row in view.rows("Groups")], "the new group")
    assert view.page.evaluate("document.activeElement.textContent") == "group-060"
    box = link.bounding_box()
    assert top is not None
    assert box is not None
    assert abs(box["y"] - top["y"]) < 2
    view.page.keyboard.press("Enter")
    view.shown("Group group-060")


def test_a_form_keeps_what_was_typed(broker: Broker, open_view: Callable[..., View]) -> None:
    """Open parts stay open, and typed text and the caret stay, while the list changes."""
    view = open_view(broker.control.address, "topics")
    form = view.disclose("Create a topic")
    name = form.locator("input[name=name]")
    name.press_sequentially("half-typed")
    view.page.keyboard.press("ArrowLeft")
    form.locator("textarea").fill("a=1")
    name.focus()
    caret = "document.activeElement.selectionStart"
    before = view.page.evaluate(caret)
    change(broker, 2)
    wait_for(lambda: "a-new-2" in [row[0] for row in view.rows("Topics")], "the new topic")
    assert name.input_value() == "half-typed"
    assert form.locator("textarea").input_value() == "a=1"
    assert view.page.evaluate(caret) == before
    assert form.get_attribute("open") is not None
    view.page.keyboard.type("X")
    assert "X" in name.input_value()


def test_typing_a_filter_keeps_the_focus(broker: Broker, open_view: Callable[..., View]) -> None:
    """Each letter filters the list, changes the link, and leaves the focus in the field."""
    view = open_view(broker.control.address, "groups")
    field = view.page.get_by_label("Name contains")
    field.press_sequentially("group-11", delay=40)
    wait_for(lambda: len(view.rows("Groups")) == 10, "ten groups")
    assert field.input_value() == "group-11"
    assert view.page.evaluate("document.activeElement.name") == "filter"
    assert view.hash == "#/groups?filter=group-11"
    change(broker, 3)
    view.page.wait_for_timeout(1_500)
    assert field.input_value() == "group-11"


def test_a_table_keeps_its_sideways_position(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """In a narrow window, a table that was scrolled sideways stays there."""
    view = open_view(broker.control.address, "groups", size=NARROW)
    wait_for(lambda: len(view.rows("Groups")) >= 120, "the groups")
    scroll = "document.querySelector('main .scroll').scrollLeft"
    view.page.evaluate(f"{scroll} = 120")
    assert view.page.evaluate(scroll) == 120
    change(broker, 4)
    wait_for(lambda: "a-new-4" in [row[0] for row in view.rows("Groups")], "the new group")
    assert view.page.evaluate(scroll) == 120


def test_a_long_list_is_shown_from_its_first_part_on(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """40 connections are shown before the others are loaded; APIs are listed on demand."""
    with ExitStack() as stack:
        for _ in range(60):
            wire = stack.enter_context(connect(broker.bootstrap_servers))
            wire.ask(API_VERSIONS_REQUEST)
        view = open_view(broker.control.address)
        limits: list[str] = []
        view.page.on("request", lambda request: limits.extend(re.findall(_LIMIT, request.url)))
        view.go("connections")
        wait_for(lambda: len(view.rows("Connections")) >= 60, "all connections")
        assert limits[:2] == ["40", "1000"]
        lists = view.table("Connections").locator("ul")
        assert lists.count() == 0
        view.table("Connections").locator("summary").first.click()
        wait_for(lambda: "ApiVersions v0: 1 requests" in lists.all_inner_texts(), "its APIs")
        view.page.evaluate("window.dispatchEvent(new Event('changed'))")
        view.page.wait_for_timeout(1000)
        assert lists.count() == 1


def test_the_page_reconnects_after_kill_9(tmp_path: Path, open_view: Callable[..., View]) -> None:
    """After kill -9 the page says that it is not connected, and goes on when the broker is back."""
    port, listener = free_port(), f"127.0.0.1:{free_port()}"
    arguments = ("--data-dir", str(tmp_path / "data"), "--http", f"127.0.0.1:{port}")
    with Serve(*arguments, listener=listener) as first:
        view = open_view(("127.0.0.1", port), "topics")
        view.may_lose_server = True
        header = view.page.locator("header")
        wait_for(lambda: "live" in header.inner_text(), "connected")
        form = view.disclose("Create a topic")
        form.locator("input[name=name]").fill("kept")
        os.kill(first.pid, signal.SIGKILL)
        wait_for(lambda: "not connected" in header.inner_text(), "the header")
        view.message("The connection to the broker is lost.")
        form.get_by_role("button", name="Create").click()
        view.message("Create a topic: The broker cannot be reached.")
    with Serve(*arguments, listener=listener) as second:
        wait_for(
            lambda: "live" in header.inner_text() and "not connected" not in header.inner_text(),
            "connected again",
        )
        wait_for(lambda: "cannot be reached" not in view.text, "the view")
        form = view.disclose("Create a topic")
        form.locator("input[name=name]").fill("after")
        form.get_by_role("button", name="Create").click()
        wait_for(lambda: [row[0] for row in view.rows("Topics")] == ["after"], "the new topic")
        assert second.stop() == 0
