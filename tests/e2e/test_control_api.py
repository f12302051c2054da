"""The control API of the real process; every answer is checked against the OpenAPI document."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from openapi_spec_validator import validate

from coordinator_server.control.openapi import openapi
from coordinator_server.control.routes import ROUTES
from coordinator_server.control.shapes import connections, groups, records, security
from coordinator_server.testing import BrokerError
from coordinator_server.testing.api import ControlApi
from tests import forked
from tests.control_api import ASYNC_CLIENT, CLIENT, PAGE, client, page
from tests.e2e.control_api import SEEN, CheckedControl, http_address, refused
from tests.support import Broker, Serve, wait_for

START_MS = time.time_ns() // 1_000_000 - 100_000
"""The timestamp of the first records."""

HOSTILE = (
    "<script>alert(1)</script>",
    "\u202eltr\u202c",
    "a/b c%2F?x=1&y#z",
    "\x00\x1b[31m\x7f",
    "ü" * 249,
)


@pytest.fixture(scope="module", autouse=True)
def every_route_is_checked(request: pytest.FixtureRequest) -> Iterator[None]:
    """After all tests of this module, an answer of every route with JSON has been checked.

    Only the pushed metrics of a client need a client with telemetry: tests/clients has that test.
    """
    SEEN.clear()
    yield
    tests = {name for name in vars(request.module) if name.startswith("test_")}
    selected = {item.name.partition("[")[0] for item in request.session.items}
    if tests <= selected and not request.session.testsfailed:
        wanted = {one.verb for one in ROUTES if one.content_type == "application/json" and one.verb}
        assert wanted - {"telemetry show"} <= SEEN, wanted - SEEN


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a topic of two partitions and three records."""
    with Broker(broker_count=2) as broker:
        broker.create_topic("orders", 2)
        broker.produce("orders", "a", "b", partition=0, timestamp_ms=START_MS)
        broker.produce("orders", "c", partition=1, key="k", timestamp_ms=START_MS + 1000)
        yield broker


@pytest.fixture(scope="module")
def api(broker: Broker) -> ControlApi:
    """The client, whose answers are checked."""
    return ControlApi(CheckedControl(broker.control.address))


# --- table of routes ------------------------------------------------------------------------------


def test_the_document_is_valid_openapi() -> None:
    """The document is valid OpenAPI 3.1, and operation ids are unique."""
    document = openapi()
    validate(document)
    operations = [one for path in document["paths"].values() for one in path.values()]
    ids = [one["operationId"] for one in operations]
    assert len(set(ids)) == len(ids) == len(ROUTES)


def test_the_clients_and_the_page_are_those_of_the_table() -> None:
    """After a change of the table run `python -m tests.control_api`."""
    assert CLIENT.read_text() == client(is_async=False)
    assert ASYNC_CLIENT.read_text() == client(is_async=True)
    assert PAGE.read_text() == page(PAGE.read_text())


# --- resources ------------------------------------------------------------------------------------


def test_cluster_brokers_and_settings(api: ControlApi, broker: Broker) -> None:
    """The cluster, its brokers, settings and the clock have their shapes and values."""
    cluster = api.cluster_show()
    assert cluster["brokers"] == cluster["running"] == 2
    assert cluster["counts"]["topics"] >= 1
    endpoints = [one["endpoints"][0] for one in api.brokers_list()["brokers"]]
    assert ",".join(one["address"] for one in endpoints) == broker.bootstrap_servers
    api.brokers_stop(2)
    assert api.brokers_start(2)["brokers"][1]["state"] == "running"
    settings = api.settings_alter({"set": {"log.retention.ms": "900000"}}, broker=1)["configs"]
    retention = {one["name"]: one for one in settings}["log.retention.ms"]
    assert (retention["value"], retention["source"]) == ("900000", "DYNAMIC_BROKER_CONFIG")
    assert api.settings_list(filter="num.partitions")["configs"][0]["value"] == "1"
    for of_broker in (api.settings_list, api.connections_list):
        assert refused(of_broker, broker=9) == (404, "there is no broker 9, but 1, 2")
    assert api.connections_list(broker=2)["connections"] == []
    before = api.clock_show()["now_ms"]
    assert api.clock_advance(seconds=60)["now_ms"] >= before + 60_000
    assert api.clock_freeze()["frozen"]
    assert not api.clock_resume()["frozen"]
    assert api.openapi()["openapi"] == "3.1.0"
    assert api.telemetry_list()["clients"] == []
    assert refused(api.telemetry_show, "nobody")[0] == 404


def test_fault_rules(api: ControlApi) -> None:
    """Rules are added, listed and removed; an impossible rule and an unknown id are refused."""
    rule = api.faults_add({"api": "Heartbeat", "error": "NOT_COORDINATOR", "times": 2})
    assert rule["injected"] == 0
    assert [one["rule"] for one in api.faults_list()["faults"]] == [rule["rule"]]
    assert api.faults_remove(rule["id"])["is_over"]
    assert refused(api.faults_remove, rule["id"])[0] == 404
    status, message = refused(api.faults_add, {"api": "Heartbeat", "error": "INVALID_TIMESTAMP"})
    assert (status, "Kafka never returns INVALID_TIMESTAMP" in message) == (400, True)
    for text in ("abc", "9" * 5000):
        with pytest.raises(BrokerError) as error:
            api.control.call("DELETE", f"/faults/{text}")
        assert error.value.status == 400
    api.faults_add({"api": "ListGroups", "delay_ms": 1})
    assert len(api.faults_clear()["faults"]) == 1
    assert api.faults_list()["faults"] == []


def test_topics_and_partitions(api: ControlApi) -> None:
    """Topics are created, changed, extended and deleted, and refused as Kafka refuses."""
    for name in ("t-1", "t-2", "t-3"):
        api.topics_create(name, {"partitions": 1, "configs": {"retention.ms": "1000"}})
    first = api.topics_list(filter="t-", limit=2)
    assert [one["topic"] for one in first["topics"]] == ["t-1", "t-2"]
    rest = api.topics_list(filter="t-", limit=2, after=first["next"])
    assert ([one["topic"] for one in rest["topics"]], rest["next"]) == (["t-3"], None)
    assert len(api.topics_grow("t-1", {"count": 3})["partitions"]) == 3
    status, message = refused(api.topics_grow, "t-1", {"count": 2})
    assert (status, "INVALID_PARTITIONS" in message) == (400, True)
    configs = api.topics_alter("t-1", {"set": {"cleanup.policy": "compact"}})["configs"]
    assert {one["name"]: one["value"] for one in configs}["cleanup.policy"] == "compact"
    assert "INVALID_CONFIG" in refused(api.topics_alter, "t-1", {"set": {"no": "1"}})[1]
    assert api.topics_configs("t-1")["configs"] == configs
    assert len(api.topics_partitions("t-1", limit=2)["partitions"]) == 2
    places: list[tuple[str, int]] = []
    after = None
    while True:
        page = api.partitions_list(limit=2, after=after)
        places += [(one["topic"], one["partition"]) for one in page["partitions"]]
        after = page["next"]
        if after is None:
            break
    assert places == sorted(set(places))
    assert ("t-1", 2) in places
    assert api.partitions_move("t-1", 0, to=2)["leader"] == 2
    for name in ("t-1", "t-2", "t-3"):
        assert api.topics_delete(name)["deleted"] == [name]
    assert refused(api.topics_show, "t-1")[0] == 404
    assert len(api.topics_show("orders")["partitions"]) == 2


def test_records_are_browsed(api: ControlApi) -> None:
    """Records of all partitions are merged by time, from any position, with filters and pages."""
    seen = []
    after = None
    while True:
        page = api.records_list("orders", limit=1, after=after)
        seen += [(one["partition"], one["value"]["text"]) for one in page["records"]]
        after = page["next"]
        if after is None:
            break
    assert seen == [(0, "a"), (0, "b"), (1, "c")]
    assert len(api.records_list("orders", timestamp_ms=START_MS + 500)["records"]) == 1
    assert [one["offset"] for one in api.records_list("orders", offset=1)["records"]] == [1]
    assert api.records_list("orders", key="k")["records"][0]["value"]["text"] == "c"
    assert api.records_list("orders", value="b", partition=0)["records"][0]["offset"] == 1
    assert api.records_list("orders", header="h")["records"] == []
    latest = api.records_list("orders", position="latest")
    assert latest["records"] == []
    api.records_produce("orders", {"records": [{"value": {"n": 1}}], "format": "json"})
    (record,) = api.records_list("orders", after=latest["tail"])["records"]
    assert (record["value"]["format"], record["value"]["text"]) == ("json", '{"n":1}')
    assert api.records_fetch("orders", 0)["next_offset"] >= 2
    assert refused(api.records_list, "orders", after="nonsense")[0] == 400
    assert (
        "limit=0 is not a number from 1 to 1000" in refused(api.records_list, "orders", limit=0)[1]
    )


@pytest.mark.parametrize("how", ["auto", "text", "json", "hex", "base64"])
@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_contents_come_back_unchanged(api: ControlApi, value: str, how: str) -> None:
    """Keys, values and headers with HTML, control characters and direction marks are only data."""
    record: records.NewRecord = {
        "key": value,
        "value": value,
        "headers": [[value, value]],
        "partition": 0,
    }
    (written,) = api.records_produce("hostile", {"records": [record], "format": "text"})["records"]
    shown = api.records_show("hostile", 0, written["offset"], format=how)
    text = shown["value"]["text"]
    assert text is not None
    decoders = {"hex": bytes.fromhex, "base64": b64decode}
    decode = decoders.get(shown["value"]["format"], str.encode)
    assert decode(text) == value.encode()
    assert shown["headers"][0]["name"] == value
    assert shown["key"] == shown["value"] == shown["headers"][0]["value"]


def test_large_and_framed_contents(api: ControlApi) -> None:
    """A value of 10 MB is cut in lists, and complete in its own request. Schema ids are shown."""
    api.topics_create("large", {"partitions": 1, "configs": {"max.message.bytes": "20000000"}})
    data = "x" * 10_000_000
    api.records_produce("large", {"records": [{"value": data}], "format": "text"})
    (record,) = api.records_list("large")["records"]
    assert (record["value"]["is_cut"], record["value"]["size_bytes"]) == (True, len(data))
    assert len(record["value"]["text"] or "") == 4096
    assert api.records_show("large", 0, 0)["value"]["text"] == data
    framed = (b"\0" + (77).to_bytes(4, "big") + b'{"a": 1}').hex()
    api.records_produce("large", {"records": [{"value": framed}], "format": "hex"})
    shown = api.records_show("large", 0, 1)["value"]
    assert (shown["schema_id"], shown["format"], shown["text"]) == (77, "json", '{"a": 1}')
    assert api.records_delete("large", 0, before=1)["start_offset"] == 1
    assert refused(api.records_show, "large", 0, 0)[0] == 404


@pytest.mark.parametrize("group", HOSTILE)
def test_offsets_of_any_group_id(api: ControlApi, group: str) -> None:
    """Offsets are set, reset and deleted, and lag is the distance in records and in time."""
    places: list[groups.OffsetToSet] = [
        {"topic": "orders", "partition": index, "offset": 0} for index in (0, 1)
    ]
    changed = api.offsets_set(group, {"offsets": places})["offsets"]
    assert [one["error"] for one in changed] == [None, None]
    lag = api.groups_lag(group)
    ends = [one["end_offset"] for one in lag["partitions"]]
    assert [one["lag"] for one in lag["partitions"]] == ends
    first = lag["partitions"][0]
    assert first["lagging_since_ms"] == START_MS
    assert first["time_lag_ms"] == lag["now_ms"] - START_MS
    (entry,) = [one for one in api.groups_list(times=True)["groups"] if one["group"] == group]
    assert (entry["lag"], entry["type"], entry["state"]) == (lag["lag"], "classic", "Empty")
    assert api.groups_lag_history(group)["group"] == group
    tried = api.offsets_reset(group, {"to": "latest", "dry_run": True})
    assert tried["dry_run"]
    assert api.groups_lag(group)["lag"] == lag["lag"]
    api.offsets_reset(group, {"to": "latest"})
    assert api.groups_lag(group)["time_lag_ms"] == 0
    shifted = api.offsets_reset(group, {"to": "shift", "shift_by": -1, "partitions": [0]})
    assert [one["after"] for one in shifted["offsets"]] == [(ends[0] or 0) - 1]
    timed = api.offsets_reset(group, {"to": "timestamp", "timestamp_ms": START_MS + 500})["offsets"]
    assert timed[1]["after"] == 0
    assert api.offsets_delete(group, topic="orders", partition=1)["offsets"][0]["after"] is None
    assert api.groups_show(group)["offsets"][0]["partition"] == 0
    assert api.groups_move(group, to=1)["leader"] == 1
    assert api.groups_in_flight(group)["in_flight"] == []
    assert api.groups_delete(group)["deleted"] == [group]
    assert refused(api.groups_show, group)[0] == 404


def test_a_group_with_members_keeps_its_offsets(api: ControlApi, broker: Broker) -> None:
    """Changes are refused with Kafka's errors; rebalances and connections show the client."""
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, group_id="app", client_id="reader"
    )
    try:
        consumer.poll(500)
        broker.wait_for_group("app", members=1)
        reset: groups.OffsetReset = {"to": "earliest", "topics": ["orders"]}
        status, message = refused(api.offsets_reset, "app", reset)
        assert (status, "UNKNOWN_MEMBER_ID: the group has members" in message) == (409, True)
        assert "NON_EMPTY_GROUP" in refused(api.groups_delete, "app")[1]
        lag = api.groups_lag("app")["partitions"]
        assert {one["client_id"] for one in lag} == {"reader"}
        wait_for(lambda: bool(api.groups_rebalances("app")["rebalances"]), "a rebalance")
        rebalance = api.groups_rebalances("app")["rebalances"][0]
        assert rebalance["account"]["group"] == "app"
        assert rebalance["story"]

        def of_reader() -> list[connections.Connection]:
            return api.connections_list(filter="reader", topic="orders")["connections"]

        def has_fetched() -> bool:
            consumer.poll(50)
            return any(use["api"] == "Fetch" for one in of_reader() for use in one["apis"])

        wait_for(has_fetched, "an answered fetch")
        open_connections = of_reader()
        assert all(one["software_name"] == "kafka-python" for one in open_connections)
        assert all(one["bytes_in"] and one["bytes_out"] for one in open_connections)
        number = open_connections[0]["id"]
        assert api.connections_close(number)["id"] == number
    finally:
        consumer.close()
    assert refused(api.connections_close, 1 << 40)[0] == 404
    # A closed connection is still listed with `closed=True`.
    assert not [one for one in of_reader() if one["id"] == number]
    closed = api.connections_list(filter="reader", topic="orders", closed=True)["connections"]
    (entry,) = [one for one in closed if one["id"] == number]
    assert entry["closed_at_ms"] is not None
    assert entry["closed_at_ms"] - entry["connected_at_ms"] == entry["age_ms"]
    assert (entry["topics_read"], entry["client_id"]) == (["orders"], "reader")


def test_a_transaction_and_what_it_holds_back(api: ControlApi, broker: Broker) -> None:
    """An open transaction, its partitions and the groups behind it are shown; abort ends it."""
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id="payments", client_id="writer"
    )
    producer.init_transactions()
    producer.begin_transaction()
    end = producer.send("orders", b"open", partition=0).get(10).offset
    api.offsets_set("behind", {"offsets": [{"topic": "orders", "partition": 0, "offset": end}]})
    details = api.transactions_show("payments")
    assert details["transaction"]["state"] == "Ongoing"
    assert details["held_back"][0]["transactional_id"] == "payments"
    assert "behind" in [one["group"] for one in details["stuck_groups"]]
    assert api.transactions_list(filter="pay")["held_back"]
    writers = api.connections_list(topic="orders", filter="writer")["connections"]
    assert writers[0]["topics_written"] == ["orders"]
    assert api.transactions_abort("payments")["state"] == "Empty"
    assert api.transactions_show("payments")["held_back"] == []
    assert refused(api.transactions_abort, "payments")[0] == 409
    assert refused(api.transactions_show, "unknown")[0] == 404
    producer.close(timeout=1)


def test_quotas_acls_snapshot_and_reset(tmp_path: Path) -> None:
    """Quotas change, ACLs need an authorizer, a snapshot is verified, and a reset empties all."""
    with Broker() as broker:
        api = ControlApi(CheckedControl(broker.control.address))
        changed = api.quotas_alter({"entity": {"user": "bob"}, "set": {"producer_byte_rate": 1e6}})
        assert changed == api.quotas_list()
        assert "SECURITY_DISABLED" in refused(api.acls_list)[1]
        broker.produce("orders", "a")
        copy = api.snapshot({"directory": str(tmp_path / "copy")})
        assert "0 errors" in copy["summary"][0]
        assert refused(api.snapshot, {"directory": str(tmp_path / "copy")})[0] == 400
        assert refused(api.snapshot, {"directory": "relative"})[0] == 400
        assert "NUL" in refused(api.snapshot, {"directory": str(tmp_path / "a\0b")})[1]
        assert api.restore({"directory": copy["directory"]})["summary"] == copy["summary"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["copy"]
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("orders", b"b").get(10)
        producer.close()

        def closed() -> list[connections.Connection]:
            return api.connections_list(topic="orders", closed=True)["connections"]

        wait_for(lambda: [one["closed_at_ms"] is None for one in closed()] == [False], "the trace")
        assert api.reset()["topics"] >= 1
        broker.produce("orders", "a")
        assert closed() == []


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "words"),
    [
        ("GET", "/partitions/orders/0/records", {"count": 10_001}, None, "count=10001 is not"),
        ("GET", "/topics", {"limit": "x"}, None, "limit=x is not a number from 1 to 10000"),
        ("GET", "/groups", {"type": "odd"}, None, "type=odd is not one of classic, consumer"),
        ("GET", "/groups", {"times": "1"}, None, "times=1 is neither true nor false"),
        ("POST", "/topics/t/partitions", None, {}, "count is missing in the body"),
        ("POST", "/topics/t/partitions", None, {"count": "3"}, "count is '3', not an integer"),
        ("POST", "/topics/t/partitions", None, {"count": 1 << 70}, "does not fit into 64 bits"),
        ("PUT", "/groups/g/offsets", None, {"offsets": [{"topic": 1}]}, "offsets[0].topic is 1"),
        ("POST", "/groups/g/offsets/reset", None, {"to": "past"}, "to is 'past', not one of"),
        ("POST", "/groups/g/offsets/reset", None, {"at": 1}, "'at' is no field of the body"),
        ("DELETE", "/partitions/orders/0/records", None, None, "before=OFFSET is missing"),
        ("GET", "/events", {"types": "odd"}, None, "types=odd is not one of reset, group"),
        ("GET", "/topics/orders/records", {"format": "xml"}, None, "format=xml is not one of auto"),
        ("PATCH", "/topics/orders/configs", None, {}, "set and unset are empty"),
    ],
)
def test_a_mistake_is_named(
    broker: Broker, method: str, path: str, query: Any, body: Any, words: str
) -> None:
    """Wrong parameters and bodies get 400 with the name and the value."""
    control = CheckedControl(broker.control.address)
    status, message = refused(control.call, method, path, query, body)
    assert status == 400
    assert words in message


# --- events and options ---------------------------------------------------------------------------


def test_events_and_their_resume(broker: Broker) -> None:
    """Events come in order; a resume repeats nothing; a late one begins with `reset`."""
    api = broker.api
    seen: list[Any] = []

    def follow() -> None:
        for event in api.events(types="topic"):
            seen.append(event)
            if event["data"] == {"topic": "second", "partitions": 1}:
                return

    thread = threading.Thread(target=follow)
    thread.start()
    time.sleep(0.5)
    broker.create_topic("first", 1)
    wait_for(lambda: bool(seen), "the first event")
    broker.create_topic("second", 1)
    thread.join(10)
    assert [one["data"]["topic"] for one in seen] == ["first", "second"]
    again = next(iter(api.events(types="topic", last_event_id=seen[0]["id"])))
    assert again == seen[1]
    assert next(iter(api.events(last_event_id=1)))["type"] == "reset"


async def test_the_client_for_asyncio(broker: Broker) -> None:
    """The asyncio client has the same answers, errors and events."""
    api = broker.aio.api
    assert (await api.topics_show("orders"))["topic"] == "orders"
    with pytest.raises(BrokerError, match="there is no topic nix"):
        await api.topics_show("nix")
    events = api.events(types="topic")
    task = asyncio.ensure_future(anext(aiter(events)))
    await asyncio.sleep(0.5)
    await broker.aio.create_topic("third", 1)
    assert (await asyncio.wait_for(task, 10))["data"]["topic"] == "third"


def ctl(broker: Broker, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `coordinator-server ctl`."""
    host, port = broker.control.address
    command = [sys.executable, "-m", "coordinator_server", "ctl", *arguments]
    command += ["--http", f"{host}:{port}"]
    return forked.run(command, timeout=60)


def test_ctl(broker: Broker) -> None:
    """`ctl` prints tables or JSON, escapes what a terminal acts on, and has exit codes 0, 1, 2."""
    lines = ctl(broker, "topics", "list", "--filter", "orders").stdout.splitlines()
    assert lines[0].split()[:2] == ["TOPIC", "TOPIC_ID"]
    assert lines[1].split()[0] == "orders"
    answer = json.loads(ctl(broker, "topics", "show", "orders", "--json").stdout)
    assert answer["topic"] == "orders"
    broker.produce("escapes", "\x1b[31mred")
    assert r"\x1b[31mred" in ctl(broker, "records", "list", "escapes", "--format", "text").stdout
    missing = ctl(broker, "groups", "show", "nix")
    assert missing.returncode == 1
    assert missing.stderr.startswith("coordinator-server ctl: there is no group nix")
    assert missing.stderr.count("\n") == 1
    assert ctl(broker, "groups", "show").returncode == 2
    wrong = ctl(broker, "topics", "create", "no/name")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    similar = ctl(broker, "topics", "show", "ordres")
    assert (similar.returncode, "did you mean orders?" in similar.stderr) == (1, True)
    assert ctl(broker, "records", "produce", "words", "--records", '[{"value": "as text"}]')
    assert "as text" in ctl(broker, "records", "list", "words").stdout


def check_rights(alice: ControlApi, admin: ControlApi) -> None:
    """Check the operations of a user with DESCRIBE on the topic `seen`, and of an administrator."""
    security_of = alice.cluster_show()["security"]
    assert (security_of["has_acls"], security_of["allows_without_acl"]) == (True, False)
    rights = alice.permissions(topic="seen", group="g")
    assert (rights["user"], rights["creates_topics"], rights["cluster"]) == ("alice", False, [])
    assert (rights["topic"], rights["group"]) == (["DESCRIBE"], [])
    assert rights["transactional_id"] is None
    assert "ALTER" in admin.permissions()["cluster"]
    assert admin.permissions()["creates_topics"]


def test_logins_get_what_their_acls_allow(tmp_path: Path) -> None:
    """With --http-login a user sees and changes what the ACLs allow, in lists too."""
    strict = "allow.everyone.if.no.acl.found=false"
    arguments = ("--http", "127.0.0.1:0", "--http-login", "--dev-security", str(tmp_path / "users"))
    with Serve("--ephemeral", *arguments, "--set", strict) as serve:
        address = http_address(serve)
        passwords = json.loads((tmp_path / "users" / "users.json").read_text())
        nobody = ControlApi(CheckedControl(address))
        assert refused(nobody.topics_list)[0] == 401
        assert refused(nobody.login, {"user": "alice", "password": "wrong"})[0] == 401

        def of(user: str) -> ControlApi:
            token = nobody.login({"user": user, "password": passwords[user]})["token"]
            return ControlApi(CheckedControl(address, token))

        admin, alice = of("admin"), of("alice")
        for name in ("seen", "hidden"):
            admin.topics_create(name, {"partitions": 1})
        acl: security.Acl = {
            "principal": "User:alice",
            "operation": "DESCRIBE",
            "resource_type": "TOPIC",
            "resource_name": "seen",
        }
        wrong: security.Acl = {**acl, "principal": "alice"}
        status, message = refused(admin.acls_create, {"acls": [acl, wrong]})
        assert (status, message.startswith("acls[1]: ")) == (400, True)
        assert admin.acls_list()["acls"] == []
        admin.acls_create({"acls": [acl]})
        assert [one["principal"] for one in admin.acls_list()["acls"]] == ["User:alice"]
        assert [one["topic"] for one in alice.topics_list()["topics"]] == ["seen"]
        for refusal in (
            refused(alice.topics_show, "hidden"),
            refused(alice.records_list, "seen"),
            refused(alice.topics_delete, "seen"),
            refused(alice.settings_list),
            refused(alice.acls_list),
            refused(alice.reset),
        ):
            assert refusal[0] == 403
        # Every user may see the cluster and its brokers, as with Metadata and DescribeCluster.
        shown, whole = alice.cluster_show(), admin.cluster_show()
        assert shown["security"]["user"] == "alice"
        everybody = ("cluster_id", "controller", "brokers", "running")
        assert not {name for name in everybody if dict(shown)[name] != dict(whole)[name]}
        assert (shown["counts"]["topics"], shown["counts"]["partitions"]) == (1, 1)
        assert (shown["counts"]["connections"], shown["data_directory"]) == (0, None)
        assert whole["counts"]["topics"] >= 2
        assert whole["data_directory"]
        assert refused(alice.brokers_list)[0] == 403
        check_rights(alice, admin)
        admin.acls_create({"acls": [{**acl, "operation": "READ", "host": "127.0.0.2"}]})
        assert refused(alice.records_list, "seen")[0] == 403
        assert "operation=READ" in serve.log_lines("access.denied")[-1]
        assert "host=127.0.0.1" in serve.log_lines("access.denied")[-1]
        connection = http.client.HTTPConnection(*address, source_address=("127.0.0.2", 0))
        headers = {"Authorization": f"Bearer {alice.control.token}"}
        connection.request("GET", "/topics/seen/records", headers=headers)
        assert connection.getresponse().status == 200
        connection.close()
        login = CheckedControl(address, login=("alice", passwords["alice"]))
        assert ControlApi(login).cluster_show()["security"]["user"] == "alice"
        assert admin.acls_delete({"principal": "User:alice"})["acls"]
        assert alice.topics_list()["topics"] == []
        assert alice.cluster_show()["counts"]["topics"] == 0
        assert serve.stop() == 0


def test_the_api_shows_the_same_after_kill_9() -> None:
    """After kill -9 and a restart on the same data, the API shows the same records and offsets."""
    with TemporaryDirectory() as directory, Broker(data_dir=directory) as broker:
        api = broker.api
        broker.produce("orders", "a", "b")
        api.offsets_set("g", {"offsets": [{"topic": "orders", "partition": 0, "offset": 1}]})
        before = [one["offset"] for one in api.records_list("orders")["records"]]
        broker.kill()
        broker.start()
        api = broker.api
        assert [one["offset"] for one in api.records_list("orders")["records"]] == before
        wait_for(lambda: api.groups_list()["groups"] != [], "the group")
        assert api.groups_lag("g")["lag"] == 1
