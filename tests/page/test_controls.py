"""Each control of the page changes the broker, and refusals are shown in Kafka's words."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.page.browser import View, fill, wait_for
from tests.page.workload import consumer, open_transaction
from tests.support import Broker

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Three brokers in one process."""
    with Broker(broker_count=3) as broker:
        broker.create_topic("orders", 2)
        broker.produce("orders", *"abcdef")
        yield broker


def submit(view: View, title: str, fields: dict[str, str], button: str) -> None:
    """Open a form, fill in its fields, and press its button."""
    form = view.disclose(title)
    fill(form, fields)
    view.forget_message()
    form.get_by_role("button", name=button, exact=True).click()


def configs_of(broker: Broker, topic: str) -> dict[str, Any]:
    """Return the configs of a topic by name."""
    return {row["name"]: row["value"] for row in broker.api.topics_configs(topic)["configs"]}


# --- topics ---------------------------------------------------------------------------------------


def test_a_topic_is_created_grown_altered_and_deleted(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """The forms of topics do what they say; the deletion asks first and leads to the list."""
    view = open_view(broker.control.address, "topics")
    fields = {
        "Name": "new",
        "Partitions": "2",
        "Configs": "retention.ms=60000\ncleanup.policy=compact",
    }
    submit(view, "Create a topic", fields, "Create")
    view.message("Create a topic: done")
    view.page.get_by_role("link", name="new", exact=True).click()
    view.shown("Topic new")
    assert configs_of(broker, "new")["retention.ms"] == "60000"
    assert len(broker.api.topics_show("new")["partitions"]) == 2
    submit(view, "Add partitions", {"New number of partitions": "4"}, "Add partitions")
    view.message("Add partitions: done")
    wait_for(lambda: len(view.rows("Partitions")) == 4, "four partitions")
    fields = {"Set": "max.message.bytes=2000", "Remove": "retention.ms"}
    submit(view, "Change configs", fields, "Change configs")
    view.message("Change configs: done")
    assert configs_of(broker, "new")["max.message.bytes"] == "2000"
    assert configs_of(broker, "new")["retention.ms"] == "604800000"
    view.button("Delete the topic").click()
    view.confirm("Delete the topic")
    view.shown("Topics")
    assert view.hash == "#/topics"
    wait_for(lambda: "new" not in [row[0] for row in view.rows("Topics")], "the topic is gone")
    assert "new" not in broker.topics()


@pytest.mark.parametrize(
    ("parts", "title", "fields", "button", "words"),
    [
        (
            ("topics",),
            "Create a topic",
            {"Name": "orders"},
            "Create",
            "Topic 'orders' already exists.",
        ),
        (("topics",), "Create a topic", {"Name": "a/b"}, "Create", "Topic name is invalid"),
        (
            ("topics",),
            "Create a topic",
            {"Name": "x", "Configs": "no.such=1"},
            "Create",
            "Unknown topic config name: no.such",
        ),
        (
            ("topics", "orders"),
            "Add partitions",
            {"New number of partitions": "1"},
            "Add partitions",
            "INVALID_PARTITIONS",
        ),
        (
            ("topics", "orders"),
            "Change configs",
            {"Set": "retention.ms=soon"},
            "Change configs",
            "INVALID_CONFIG",
        ),
        (
            ("settings",),
            "Change settings of all brokers",
            {"Set": "node.id=7"},
            "Change settings of all brokers",
            "INVALID_REQUEST",
        ),
    ],
    ids=range(6),
)
def test_a_refusal_has_the_words_of_kafka(
    broker: Broker,
    open_view: Callable[..., View],
    parts: tuple[str, ...],
    title: str,
    fields: dict[str, str],
    button: str,
    words: str,
) -> None:
    """A refused change shows the error; what was typed stays in the open form."""
    view = open_view(broker.control.address, *parts, refusals=(400, 409))
    submit(view, title, fields, button)
    message = view.message(f"{title}: ")
    assert message.get_attribute("class") == "error"
    assert words in message.inner_text()
    form = view.disclose(title)
    for value in fields.values():
        texts = form.locator("input, textarea").evaluate_all("all => all.map(one => one.value)")
        assert value in texts


# --- groups ---------------------------------------------------------------------------------------


def test_the_offsets_of_a_group_are_reset(broker: Broker, open_view: Callable[..., View]) -> None:
    """Without members, new offsets are shown, then set, and the group is deleted."""
    places: list[Any] = [{"topic": "orders", "partition": index, "offset": 1} for index in (0, 1)]
    broker.api.offsets_set("old", {"offsets": places})
    ends = [row["end_offset"] for row in broker.api.topics_show("orders")["partitions"]]
    view = open_view(broker.control.address, "groups", "old")
    title = "Reset offsets"

    def offsets() -> list[int]:
        return [row["offset"] for row in broker.api.groups_show("old")["offsets"]]

    def has(expected: list[int]) -> bool:
        return offsets() == expected

    submit(view, title, {"To": "latest", "Only show the result": "yes"}, "Reset")
    view.message(f"Would set orders-0 1 → {ends[0]}, orders-1 1 → {ends[1]}")
    assert offsets() == [1, 1]
    for fields, expected in (
        ({"To": "latest"}, ends),
        ({"To": "shift", "Records, for shift": "-1"}, [end - 1 for end in ends]),
        ({"To": "offset", "Offset, for offset": "2", "Topic": "orders"}, [2, 2]),
        ({"To": "timestamp", "Time, for timestamp": "2020-01-01T10:00:30"}, [0, 0]),
        ({"To": "latest"}, ends),
        ({"To": "earliest"}, [0, 0]),
    ):
        submit(view, title, {**fields, "Only show the result": "no"}, "Reset")
        wait_for(partial(has, expected), f"{fields}: {expected}")
        view.message("Set orders-0 ")
    view.button("Delete the group").click()
    view.confirm("Delete the group")
    view.shown("Groups")
    assert "old" not in [row["group"] for row in broker.api.groups_list()["groups"]]


def test_a_group_with_members_offers_no_changes(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """The controls appear when the last member has left, without a reload."""
    member = consumer(broker.bootstrap_servers, "busy", "reader")
    try:
        broker.wait_for_group("busy", members=1)
        view = open_view(broker.control.address, "groups", "busy")
        wait_for(lambda: "reader" in str(view.rows("Members")), "the member")
        assert view.button("Delete the group").count() == 0
        assert "once its members have left" in view.text
    finally:
        member.close()
    view.button("Delete the group").wait_for()
    assert view.page.locator("summary", has_text="Reset offsets").count() == 1


# --- transactions, connections --------------------------------------------------------------------


def test_a_transaction_is_aborted(broker: Broker, open_view: Callable[..., View]) -> None:
    """The view names what is stuck; after the abort nothing is held back."""
    broker.create_topic("paid", 1)
    producer = open_transaction(broker.bootstrap_servers, "till", "paid")
    broker.api.offsets_set("behind", {"offsets": [{"topic": "paid", "partition": 0, "offset": 0}]})
    view = open_view(broker.control.address, "transactions")
    held = "Partitions in which read_committed consumers wait"
    wait_for(lambda: "till" in str(view.rows(held)), "the partition")
    view.table("Transactional ids").get_by_role("link", name="till").click()
    view.shown("Transaction till")
    stuck = view.rows("Groups that wait for the end of the transaction")
    assert [row[:3] for row in stuck] == [["behind", "paid-0", "0"]]
    view.button("Abort the transaction").click()
    view.confirm("Abort the transaction")
    view.message("Abort the transaction: done")
    wait_for(lambda: view.rows(held) == [], "nothing is held back")
    assert view.button("Abort the transaction").count() == 0
    assert broker.api.transactions_show("till")["held_back"] == []
    del producer


def test_a_connection_is_closed(broker: Broker, open_view: Callable[..., View]) -> None:
    """A connection is found by its client id and topic, and closed after a question."""
    member = consumer(broker.bootstrap_servers, "closing", "closed-client")
    try:
        broker.wait_for_group("closing", members=1)
        view = open_view(broker.control.address, "connections")
        wait_for(lambda: "closed-client" in str(view.rows("Connections")), "the connections")
        view.page.get_by_label("Client id, address or principal contains").fill("closed-")
        view.page.get_by_label("Uses the topic").fill("orders")
        wait_for(
            lambda: {row[0] for row in view.rows("Connections")} == {"closed-client"}, "the filter"
        )
        assert "filter=closed-" in view.hash
        first = view.rows("Connections")[0]
        assert first[1].startswith("confluent-kafka-python")
        view.button("Close").first.click()
        view.confirm("Close")
        view.message("Close: done")
        wait_for(
            lambda: first[3] not in [row[3] for row in view.rows("Connections")], "it is closed"
        )
    finally:
        member.close()


# --- brokers, clock, settings, quotas -------------------------------------------------------------


def test_a_broker_is_stopped_and_started(broker: Broker, open_view: Callable[..., View]) -> None:
    """A stopped broker is shown as stopped, in the header too, until it is started."""
    view = open_view(broker.control.address)
    table = "Brokers of this process"
    wait_for(lambda: [row[1] for row in view.rows(table)] == ["running"] * 3, "three brokers")
    row = view.table(table).locator("tbody tr").nth(1)
    row.get_by_role("button", name="Stop").click()
    view.confirm("Stop")
    wait_for(lambda: view.rows(table)[1][1] == "stopped", "the broker is stopped")
    wait_for(lambda: "2 of 3 brokers run" in view.page.locator("header").inner_text(), "header")
    wait_for(lambda: "Broker 2 is stopped" in view.text, "the list of changes")
    row.get_by_role("button", name="Start").click()
    wait_for(lambda: view.rows(table)[1][1] == "running", "the broker runs")
    wait_for(lambda: "Broker 2 is running" in view.text, "the list of changes")


def test_a_cluster_without_running_brokers_does_not_look_calm(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """While no broker runs, each view says so, and the overview can start one."""
    view = open_view(broker.control.address, refusals=(503,))
    for node_id in (1, 2, 3):
        broker.api.brokers_stop(node_id)
    for parts in ((), ("groups",), ("transactions",), ("topics",)):
        view.go(*parts)
        wait_for(lambda: "No broker runs: clients cannot connect" in view.text, f"{parts}")
        assert "read everything" not in view.text
    view.go()
    wait_for(lambda: "stopped" in view.text, "the brokers")
    view.button("Start").first.click()
    wait_for(lambda: "No broker runs" not in view.text, "a broker runs")
    for node_id in (1, 2, 3):
        broker.api.brokers_start(node_id)


def test_an_offset_beyond_the_log_end_is_marked(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """The overview, the list and the group say that an offset is beyond the log end."""
    end = broker.api.topics_show("orders")["partitions"][0]["end_offset"]
    place: Any = {"topic": "orders", "partition": 0, "offset": end + 7}
    broker.api.offsets_set("ahead", {"offsets": [place]})
    view = open_view(broker.control.address)
    for parts in ((), ("groups",), ("groups", "ahead")):
        view.go(*parts)
        wait_for(lambda: "7 beyond the log end" in view.text, f"{parts}")


def test_a_closed_client_leaves_a_trace(broker: Broker, open_view: Callable[..., View]) -> None:
    """A topic shows producers that have disconnected, and how long ago."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "once"})
    producer.produce("orders", b"x", partition=0)
    producer.flush()
    view = open_view(broker.control.address, "topics", "orders")
    caption = "Connections that produce to this topic or fetch from it"

    def of_client() -> list[list[str]]:
        return [row for row in view.rows(caption) if row[0] == "once"]

    wait_for(lambda: [row[-1] for row in of_client()] == ["open"], "the open connection")
    del producer
    gc.collect()
    wait_for(lambda: of_client()[0][-1].startswith("closed "), "the closed connection")
    assert of_client()[0][1] == "produces"


def test_the_clock_is_frozen_advanced_and_resumed(
    broker: Broker, open_view: Callable[..., View]
) -> None:
    """The buttons move the broker's clock, and every view says that the clock is frozen."""
    view = open_view(broker.control.address, "clock")
    before = broker.clock.state().offset_ms
    view.button("Advance 1 h").click()
    wait_for(lambda: broker.clock.state().offset_ms == before + 3_600_000, "an hour")
    submit(view, "Advance by another time", {"Number": "1.5", "Unit": "min"}, "Advance")
    wait_for(lambda: broker.clock.state().offset_ms == before + 3_690_000, "90 s")
    view.button("Freeze").click()
    view.button("Resume").wait_for()
    assert broker.clock.is_frozen
    view.go("topics")
    header = view.page.locator("header")
    wait_for(lambda: "clock is frozen" in header.inner_text(), "the header")
    view.go("clock")
    view.button("Resume").click()
    view.button("Freeze").wait_for()
    wait_for(lambda: "clock is frozen" not in header.inner_text(), "the header")
    assert not broker.clock.is_frozen


def test_settings_are_found_and_changed(broker: Broker, open_view: Callable[..., View]) -> None:
    """Settings are filtered by name and by source, and a change shows its new source."""
    view = open_view(broker.control.address, "settings")
    table = "Settings of the broker"
    whole = wait_for(lambda: view.rows(table), "the settings")
    view.page.get_by_label("Name contains").fill("log.retention.ms")
    wait_for(lambda: len(view.rows(table)) == 1, "the filter")
    title = "Change settings of all brokers"
    submit(view, title, {"Set": "log.retention.ms=900000"}, title)
    wait_for(lambda: view.rows(table)[0][1] == "900000", "the new value")
    assert "dynamic" in view.rows(table)[0][2]
    view.page.get_by_label("Name contains").fill("")
    view.page.get_by_label("only settings that are not default").check()
    wait_for(lambda: 1 <= len(view.rows(table)) < len(whole), "only changed settings")
    assert "log.retention.ms" in [row[0] for row in view.rows(table)]
    submit(view, title, {"Set": "", "Remove": "log.retention.ms"}, title)
    wait_for(lambda: "log.retention.ms" not in [row[0] for row in view.rows(table)], "removed")


def test_quotas_are_changed(broker: Broker, open_view: Callable[..., View]) -> None:
    """A quota of a user, of the default client id, and its removal."""
    view = open_view(broker.control.address, "security")
    title = "Change quotas"
    fields = {"Entity": "user=bob", "Set": "producer_byte_rate=1000"}
    submit(view, title, fields, title)
    wait_for(lambda: view.rows("Quotas") == [["user bob", "producer_byte_rate=1000"]], "bob")
    fields = {"Entity": "user=bob\nclient-id", "Set": "request_percentage=50"}
    submit(view, title, fields, title)
    both = "client-id (default), user bob"
    wait_for(
        lambda: [both, "request_percentage=50"] in view.rows("Quotas"), str(view.rows("Quotas"))
    )
    fields = {"Entity": "user=bob", "Set": "", "Remove": "producer_byte_rate"}
    submit(view, title, fields, title)
    wait_for(lambda: [row[0] for row in view.rows("Quotas")] == [both], "only the other is left")
