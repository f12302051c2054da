"""The record browser: positions, filters, formats, following, producing, large values, deleting."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.page.browser import View, fill, wait_for
from tests.support import Broker

pytestmark = pytest.mark.nightly

TABLE = "Records, the newest first; the offset is PARTITION-OFFSET"
START_MS = time.time_ns() // 1_000_000_000 * 1000 - 3_600_000
LARGE = 10_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a topic of two partitions, three records a minute apart in each."""
    with Broker() as broker:
        broker.create_topic("orders", 2)
        for partition in (0, 1):
            for number in range(3):
                broker.produce(
                    "orders",
                    json.dumps({"order": number, "partition": partition}),
                    key=f"k{number}",
                    partition=partition,
                    headers={f"h{number}": "é"},
                    timestamp_ms=START_MS + 60_000 * number,
                )
        broker.create_topic("many", 1)
        broker.produce("many", *[f"value {number}" for number in range(250)])
        broker.create_topic("large", 1, {"max.message.bytes": 20_000_000})
        broker.api.records_produce("large", {"records": [{"value": "x" * LARGE}], "format": "text"})
        yield broker


def places(view: View) -> list[str]:
    """Return the shown records as PARTITION-OFFSET."""
    return [row[0] for row in view.rows(TABLE)]


LABELS = {
    "position": "Start at",
    "offset": "or at offset",
    "at": "or at time",
    "partition": "Partition",
    "key": "Key contains",
    "value": "Value contains",
    "header": "Has the header",
    "format": "Shown as",
}


def shows(view: View, expected: set[str]) -> bool:
    """Return whether the view shows exactly these records."""
    return set(places(view)) == expected


def search(view: View, **fields: str) -> None:
    """Fill in fields of the filter, and press Show."""
    form = view.page.locator("form.filters")
    fill(form, {LABELS[name]: value for name, value in fields.items()})
    before = view.hash
    form.get_by_role("button", name="Show").click()
    wait_for(lambda: view.hash != before, "the address changes")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"position": "earliest"}, {"0-0", "0-1", "0-2", "1-0", "1-1", "1-2"}),
        ({"position": "latest"}, set()),
        ({"offset": "2"}, {"0-2", "1-2"}),
        ({"offset": "1", "partition": "1"}, {"1-1", "1-2"}),
        ({"key": "k1"}, {"0-1", "1-1"}),
        ({"value": '"order": 2', "partition": "0"}, {"0-2"}),
        ({"header": "h0"}, {"0-0", "1-0"}),
        ({"value": "nothing has this"}, set()),
    ],
    ids=range(8),
)
def test_a_search_shows_what_it_asks_for(
    broker: Broker, open_view: Callable[..., View], fields: dict[str, str], expected: set[str]
) -> None:
    """A search shows the records at its position and with its contents; its link shows them too."""
    view = open_view(broker.control.address, "records", "orders")
    wait_for(lambda: len(places(view)) == 6, "the last records")
    search(view, **fields)
    wait_for(partial(shows, view, expected), f"{places(view)} is {expected}")
    for name, value in fields.items():
        assert view.page.locator(f"form.filters [name={name}]").input_value() == value
    address = view.hash
    view.follow(address)
    wait_for(partial(shows, view, expected), f"{address} shows {expected}")


def test_a_search_by_time(broker: Broker, open_view: Callable[..., View]) -> None:
    """A local time selects the records from that time on, the newest first."""
    view = open_view(broker.control.address, "records", "orders")
    local = view.page.evaluate(
        "ms => { const at = new Date(ms); at.setMinutes(at.getMinutes() - at.getTimezoneOffset());"
        " return at.toISOString().slice(0, 19) }",
        START_MS + 60_000,
    )
    search(view, at=local)
    wait_for(partial(shows, view, {"0-1", "0-2", "1-1", "1-2"}), "that time and later")
    times = [row[1] for row in view.rows(TABLE)]
    assert times == sorted(times, reverse=True)


def test_formats_of_contents(broker: Broker, open_view: Callable[..., View]) -> None:
    """Contents are shown as text, JSON, hex and base64, in the list and for one record."""
    view = open_view(broker.control.address, "records", "orders")
    search(view, format="hex", partition="0")
    wait_for(lambda: "6b30 hex" in str(view.rows(TABLE)), "hex")
    assert "c3a9 hex" in str(view.rows(TABLE))
    view.page.get_by_role("link", name="0-0").click()
    view.shown("Record 0-0")
    assert b'{"order": 0'.hex() in view.text
    view.field("Shown as").select_option("base64")
    view.page.locator("pre", has_text="eyJvcmRlciI6").wait_for()
    view.field("Shown as").select_option("json")
    view.page.locator("pre", has_text='"order": 0,\n  "partition": 0').wait_for()
    assert "h0" in str(view.rows("Headers"))


def test_a_long_topic_is_read_page_by_page(broker: Broker, open_view: Callable[..., View]) -> None:
    """`Go on` shows the next records until the end; the browser's Back button goes back."""
    view = open_view(broker.control.address, "records", "many", query={"position": "earliest"})
    more = view.page.get_by_role("link", name="Go on")
    for page in (range(100), range(100, 200), range(200, 250)):
        expected = {f"0-{offset}" for offset in page}
        wait_for(partial(shows, view, expected), f"the records {page}")
        if page.stop < 250:
            more.click()
    assert more.count() == 0
    view.page.go_back()
    wait_for(partial(shows, view, {f"0-{offset}" for offset in range(100, 200)}), "the second page")


def test_new_records_are_followed(broker: Broker, open_view: Callable[..., View]) -> None:
    """With `follow new records` each new record appears once, and the scroll position stays."""
    view = open_view(broker.control.address, "records", "many")
    form = view.page.locator("form.filters")
    form.get_by_label("follow new records").check()
    form.locator("[name=position]").select_option("latest")
    form.get_by_role("button", name="Show").click()
    wait_for(lambda: "follow=true" in view.hash, "the address")
    view.page.locator(".empty").wait_for()
    for number in range(3):
        broker.produce("many", f"new {number}")
        expected = {f"0-{250 + offset}" for offset in range(number + 1)}
        wait_for(partial(shows, view, expected), "the new record")
    assert [row[3] for row in view.rows(TABLE)] == ["new 2", "new 1", "new 0"]


@pytest.mark.parametrize(
    ("format_name", "value", "shown"),
    [
        ("text", "<b>bold</b>\nline 2", b"<b>bold</b>\nline 2"),
        ("json", '{"a": [1, null]}', b'{"a":[1,null]}'),
        ("hex", "00ff41", b"\x00\xffA"),
        ("base64", "AP9B", b"\x00\xffA"),
    ],
)
def test_a_record_is_produced(
    broker: Broker, open_view: Callable[..., View], format_name: str, value: str, shown: bytes
) -> None:
    """The form writes key, value and headers as they are, in the chosen format and partition."""
    topic = f"produced-{format_name}"
    broker.create_topic(topic, 2)
    view = open_view(broker.control.address, "records", topic)
    form = view.disclose("Produce a record")
    key = {"text": "k=1", "json": '"k"', "hex": "6b", "base64": "aw=="}[format_name]
    header = {"text": "v=1", "json": "v", "hex": "76", "base64": "dg=="}[format_name]
    fields = {"Key": key, "Value": value, "Headers": f"name={header}\nother={header}"}
    fill(form, {**fields, "Written as": format_name, "Partition": "1"})
    form.get_by_role("button", name="Produce").click()
    view.message("Written at 1-0.")
    wait_for(lambda: places(view) == ["1-0"], "the record in the table")
    (record,) = broker.consume(topic, partition=1)
    assert record.value == shown
    assert record.key == {"text": b"k=1", "json": b'"k"'}.get(format_name, b"k")
    assert [name for name, _ in record.headers] == ["name", "other"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"Written as": "json", "Value": "{"}, "the text is not JSON"),
        ({"Written as": "hex", "Value": "xyz"}, "hex or null"),
        ({"Value": "v", "Partition": "7"}, "partition"),
    ],
)
def test_a_record_that_cannot_be_written_is_refused(
    broker: Broker, open_view: Callable[..., View], fields: dict[str, str], words: str
) -> None:
    """A refused record leaves the form as it is, with the reason in the message."""
    view = open_view(broker.control.address, "records", "orders", refusals=(400, 404))
    form = view.disclose("Produce a record")
    fill(form, fields)
    form.get_by_role("button", name="Produce").click()
    assert words in view.message("Produce a record:").inner_text()
    assert form.locator("textarea[name=value]").input_value() == fields["Value"]
    assert form.get_attribute("open") is not None


def test_a_large_value_is_cut_and_opened_whole(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """A list shows the first bytes of a value of 10 MB and its size; its link shows all of it."""
    view = open_view(broker.control.address, "records", "large")
    wait_for(lambda: places(view) == ["0-0"], "the record")
    (row,) = view.rows(TABLE)
    assert "of 9.5 MiB" in row[3]
    assert len(row[3]) < 5_000
    view.page.get_by_role("link", name="0-0").click()
    view.page.locator("h1", has_text="Record 0-0").wait_for(timeout=60_000)
    length = view.page.evaluate("document.querySelector('pre.content').textContent.length")
    assert length == LARGE
    assert view.overflow() <= 0


def test_the_records_of_a_partition_are_deleted(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """Deleting asks first; Cancel changes nothing."""
    broker.create_topic("old", 1)
    broker.produce("old", "a", "b")
    view = open_view(broker.control.address, "records", "old", query={"partition": 0})
    wait_for(lambda: len(places(view)) == 2, "the records")
    name = "Delete all records of partition 0"
    view.button(name).click()
    view.confirm("Cancel")
    assert view.page.locator("dialog").count() == 0
    assert broker.api.topics_show("old")["partitions"][0]["start_offset"] == 0
    view.button(name).click()
    view.confirm(name)
    view.message(f"{name}: done")
    wait_for(lambda: places(view) == [], "no record is left")
    assert broker.api.topics_show("old")["partitions"][0]["start_offset"] == 2
