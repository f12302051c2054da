"""Names and contents from hostile clients are shown, not run, and do not break the layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import pytest

from coordinator_server.control.shapes.records import NewRecord
from tests.page.browser import NARROW, WIDE, View, wait_for
from tests.page.workload import consumer, open_transaction
from tests.support import Broker

pytestmark = pytest.mark.nightly

TOPIC = "t" * 249
RUN = "window.wasRun = true"
NAMES = {
    "script": f"<script>{RUN}</script>",
    "image": f'"><img src=x onerror="{RUN}">',
    "svg": f"<svg/onload='{RUN}'>",
    "link": f"javascript:{RUN}",
    "template": "{{constructor.constructor('window.wasRun = true')()}} ${window.wasRun = true}",
    "right to left": "\u202egnp.exe\u202c \u2066a\u2069 \u200f\u061c\u202b",
    "controls": "a\x00b\x1b[31mred\x07\x7f\x85\u2028\u2029\ufeff",
    "path": "../..//%2F%00?x=1&y#z/\\",
    "long": "W" * 249,
    "long words": "\u00fc" * 200 + " " + "\U0001f600" * 24,
    "prototype": "__proto__",
    "dots": "..",
    "replaced": "\ufffdx\ufffd",
}
HIDDEN = ("\u202e", "\u2066", "\u200f", "\u061c", "\x00", "\x1b", "\x85", "\u2028", "\ufeff")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with hostile groups, client ids, transactional ids, keys, values and headers."""
    with Broker() as broker, ExitStack() as stack:
        broker.create_topic(TOPIC, 1, {"max.message.bytes": 20_000_000})
        for name in NAMES.values():
            record: NewRecord = {"key": name, "value": name, "headers": [[name, name]]}
            broker.api.records_produce(TOPIC, {"records": [record], "format": "text"})
        large: NewRecord = {"value": f"<img src=x onerror='{RUN}'>" * 300_000}
        broker.api.records_produce(TOPIC, {"records": [large], "format": "text"})
        surrogate: NewRecord = {"value": '{"a": "\\ud800 </script>"}', "key": '"\\udfff"'}
        broker.api.records_produce(TOPIC, {"records": [surrogate], "format": "text"})
        bytes_of: NewRecord = {"value": "ff00eda080c0af", "key": "eda080"}
        broker.api.records_produce(TOPIC, {"records": [bytes_of], "format": "hex"})
        places: Any = [{"topic": TOPIC, "partition": 0, "offset": 0}]
        for name in NAMES.values():
            broker.api.offsets_set(name, {"offsets": places})
        kept = []
        for name in NAMES.values():
            if "\x00" in name:
                continue  # librdkafka cannot send the name: its C strings end at the null character
            kept.append(open_transaction(broker.bootstrap_servers, name, TOPIC))
        for key in ("image", "right to left", "long"):
            member = consumer(broker.bootstrap_servers, f"member {key}", NAMES[key], TOPIC)
            stack.callback(member.close)
            broker.wait_for_group(f"member {key}", members=1)
        yield broker
        for producer in kept:
            producer.abort_transaction()


def check(view: View) -> None:
    """Fail if something was run, is hidden, or is wider than the window."""
    assert view.page.evaluate("window.wasRun") is None
    assert (
        view.page.evaluate("document.querySelectorAll('img, script[src=\"\"], iframe').length") == 0
    )
    assert view.page.locator("main script, main svg:not(.timeline)").count() == 0
    assert view.overflow() <= 0, f"{view.hash} is {view.overflow()} px too wide"
    text = view.page.evaluate("document.querySelector('main').textContent + document.title")
    assert not [character for character in HIDDEN if character in text], view.hash
    view.check()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_lists_show_hostile_names(
    broker: Broker, open_view: Callable[..., View], size: tuple[int, int]
) -> None:
    """Each list shows all names as text."""
    view = open_view(broker.control.address, "groups", size=size)
    wait_for(lambda: len(view.rows("Groups")) >= len(NAMES), "the groups")
    names = [row[0] for row in view.rows("Groups")]
    for key in ("script", "image", "svg", "link", "template", "long", "prototype", "replaced"):
        assert NAMES[key] in names
    assert any("⟨U+202E⟩gnp.exe⟨U+202C⟩" in name for name in names)
    assert any("a⟨U+0000⟩b⟨U+001B⟩[31mred⟨U+0007⟩⟨U+007F⟩⟨U+0085⟩" in name for name in names)
    check(view)
    for parts in ((), ("topics",), ("transactions",), ("connections",), ("records", TOPIC)):
        view.go(*parts)
        check(view)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_each_hostile_group_has_a_view(
    broker: Broker, open_view: Callable[..., View], size: tuple[int, int]
) -> None:
    """The link of each group leads to its view, with its lag; its title has the name."""
    view = open_view(broker.control.address, "groups", size=size)
    for name in [*NAMES.values(), "member image", "member right to left", "member long"]:
        view.open("groups", name)
        if name == "..":
            wait_for(lambda: "A browser cannot ask for the name ..; use ctl." in view.text, name)
            continue
        wait_for(lambda: view.rows("Lag by partition"), name)
        check(view)


def test_each_hostile_transaction_has_a_view(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """The link of each transactional id leads to its view, with what it holds back."""
    view = open_view(broker.control.address, "transactions", size=NARROW)
    for name in NAMES.values():
        if "\x00" in name or name == "..":
            continue
        view.open("transactions", name)
        view.button("Abort the transaction").wait_for()
        view.button("Abort the transaction").click()
        check(view)
        view.confirm("Cancel")


@pytest.mark.parametrize("how", ["auto", "text", "json", "hex", "base64"])
def test_each_hostile_record_is_shown(
    broker: Broker, open_view: Callable[..., View], how: str
) -> None:
    """Keys, values and headers are text in each format, in the list and for one record."""
    view = open_view(broker.control.address, "records", TOPIC, query={"format": how}, size=NARROW)
    count = len(NAMES) + 3
    wait_for(lambda: view.page.locator("tbody tr").count() >= count, "the records")
    check(view)
    for offset in range(count):
        # In hexadecimal, a value of 10 MB keeps the browser busy for seconds.
        view.context.set_default_timeout(90_000)
        view.go("records", TOPIC, query={"record": f"0-{offset}", "format": how})
        view.page.locator("h1", has_text=f"Record 0-{offset}").wait_for()
        check(view)


def test_hostile_searches_and_links_do_nothing(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """Texts in the address, even invalid ones, are shown as names that do not exist."""
    view = open_view(broker.control.address, refusals=(404,))
    for path in ("groups/%", "groups/%ED%A0%80", "nothing/here", "groups/" + quote(RUN)):
        view.page.evaluate("address => { location.hash = address }", f"#/{path}")
        wait_for(
            lambda: "there is no group" in view.text or "There is no such view" in view.text, path
        )
    for name in NAMES.values():
        view.go("groups", query={"filter": name})
        wait_for(lambda: len(view.rows("Groups")) >= 1, name)
        assert view.page.evaluate("window.wasRun") is None
