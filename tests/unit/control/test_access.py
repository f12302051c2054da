"""Access of logged-in users to the control server: hidden topics are in no response."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import Any

import pytest

from coordinator_server.control.request import ControlError, ControlRequest
from coordinator_server.control.routes import ROUTES
from coordinator_server.control.state import ControlOptions, ControlState
from coordinator_server.events.log import LOG
from coordinator_server.rebalances.schema import topics_of
from coordinator_server.security.acl import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coordinator_server.security.authorizer import Authorizer
from coordinator_server.security.principal import user
from protocol.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from protocol.apis.init_producer_id import InitProducerIdRequest
from tests.harness.clock import settle
from tests.unit.control.modern_nodes import ModernNodes

HIDDEN = "three"


def acl(
    operation: str,
    resource_type: str,
    name: str = "*",
    permission: Permission = Permission.ALLOW,
    host: str = "*",
) -> Acl:
    """Return an ACL of alice."""
    kind = ResourceType[resource_type]
    return Acl(
        kind, name, PatternType.LITERAL, "User:alice", host, Operation[operation], permission
    )


class Accessed(ModernNodes):
    """A broker whose user alice may see the topic `t`, but not the topic `three`."""

    def __init__(self) -> None:
        super().__init__(None, 1)
        self.security.authorizer = Authorizer(
            ["User:ANONYMOUS"],
            acls=[
                acl("DESCRIBE", "TOPIC", "t"),
                *(acl("ALL", kind) for kind in ("GROUP", "TRANSACTIONAL_ID")),
                acl("ALL", "CLUSTER", "kafka-cluster"),
            ],
        )
        self.state = ControlState(self.cluster, ControlOptions(), None)

    def allow(self, *acls: Acl) -> None:
        """Add ACLs."""
        assert self.security.authorizer is not None
        self.security.authorizer.change(added=acls)

    async def see(
        self,
        verb: str,
        body: object = None,
        *,
        name: str | None = "alice",
        host: str = "/127.0.0.1",
        **given: str,
    ) -> Any:
        """Return a route's response to a user, or without a login if the name is None."""
        await settle()
        (route,) = [route for route in ROUTES if route.verb == verb or route.path == verb]
        assert isinstance(route.answer, str)
        module, _, function = route.answer.partition(":")
        parameters = {key: value for key, value in given.items() if key.isupper()}
        query = {key: value for key, value in given.items() if not key.isupper()}
        request = ControlRequest(
            self.cluster,
            parameters,
            query,
            json.dumps(body).encode() if body is not None else b"",
            values=route.values(query),
            route=route,
            user=None if name is None else user(name),
            state=self.state,
            client_host=host,
        )
        return await getattr(import_module(f"coordinator_server.control.{module}"), function)(
            request
        )


@pytest.fixture
async def nodes() -> Accessed:
    """Return the broker with a group of both topics, and a consumer group of the hidden topic."""
    nodes = Accessed()
    places = [{"topic": name, "partition": 0, "offset": 0} for name in ("t", HIDDEN)]
    await nodes.see("offsets set", {"offsets": places}, name=None, GROUP="both")
    nodes.beat("a", 0)
    await settle()
    return nodes


def has_hidden(answer: object) -> bool:
    """Return whether an answer names the hidden topic."""
    return HIDDEN in json.dumps(answer)


async def test_offsets_in_hidden_topics_are_in_no_answer(nodes: Accessed) -> None:
    """A reset, a commit and a deletion show earlier offsets of visible topics only."""
    with pytest.raises(ControlError, match="READ on TOPIC t"):
        await nodes.see("offsets reset", {"to": "earliest", "dry_run": True}, GROUP="both")
    nodes.allow(acl("READ", "TOPIC", "t"))
    for body in ({"to": "earliest", "dry_run": True}, {"to": "earliest"}):
        answer = await nodes.see("offsets reset", body, GROUP="both")
        assert [one["topic"] for one in answer["offsets"]] == ["t"]
    places = [{"topic": name, "partition": 0, "offset": 0} for name in ("t", HIDDEN)]
    answer = await nodes.see("offsets set", {"offsets": places}, GROUP="both")
    assert [(one["topic"], one["before"]) for one in answer["offsets"]] == [
        ("t", 0),
        (HIDDEN, None),
    ]
    with pytest.raises(ControlError, match="has no offset in three"):
        await nodes.see("offsets delete", GROUP="both", topic=HIDDEN)
    assert has_hidden(await nodes.see("groups show", name=None, GROUP="both"))
    assert not has_hidden(await nodes.see("groups show", GROUP="both"))


async def test_a_group_of_hidden_topics_is_not_described(nodes: Accessed) -> None:
    """Members with hidden topics get TOPIC_AUTHORIZATION_FAILED, as from Kafka's describe APIs."""
    assert has_hidden(await nodes.see("groups show", name=None, GROUP="g"))
    with pytest.raises(ControlError, match="TOPIC_AUTHORIZATION_FAILED") as raised:
        await nodes.see("groups show", GROUP="g")
    assert raised.value.status == 403
    assert not has_hidden(str(raised.value))
    assert not has_hidden(await nodes.see("groups lag", GROUP="g"))


async def test_rebalances_of_hidden_topics_are_left_out(nodes: Accessed) -> None:
    """Rebalances that name a hidden topic are omitted from the list and the group description."""
    nodes.beat("b", 0)
    nodes.beat("a", -1)
    nodes.beat("b", -1)
    await nodes.controller.advance(1_000)
    everything = await nodes.see("groups rebalances", name=None, GROUP="g")
    assert {HIDDEN} in [topics_of(one["account"]) for one in everything["rebalances"]]
    shown = await nodes.see("groups rebalances", GROUP="g")
    assert not has_hidden(shown)
    assert len(shown["rebalances"]) < len(everything["rebalances"])
    assert has_hidden((await nodes.see("groups show", name=None, GROUP="g"))["last_rebalance"])
    assert not has_hidden(await nodes.see("groups show", GROUP="g"))


async def test_events_of_rebalances_with_hidden_topics_are_left_out(nodes: Accessed) -> None:
    """A user gets no event for a rebalance that names a hidden topic."""
    streams = {
        name: (await nodes.see("events", name=name, types="rebalance,topic")).parts
        for name in (None, "alice")
    }
    for stream in streams.values():
        await anext(stream)  # read the comment that begins the stream
    waiting = {name: asyncio.ensure_future(anext(stream)) for name, stream in streams.items()}
    await settle()
    record = {"members": [{"partitions": {HIDDEN: [0]}}]}
    for listener in nodes.cluster.journal.listeners:
        listener("g", record)
    nodes.topics.create("t2", 1, {})
    nodes.allow(acl("DESCRIBE", "TOPIC", "t2"))
    assert has_hidden((await waiting[None]).decode())
    seen = (await asyncio.wait_for(waiting["alice"], 10)).decode()
    assert "t2" in seen
    assert not has_hidden(seen)
    for stream in streams.values():
        await stream.aclose()
    nodes.state.stop()


async def test_transactions_show_visible_topics(nodes: Accessed) -> None:
    """Partitions of hidden topics are left out of transactions, as in DescribeTransactions."""
    message = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    producer = nodes.ask(message, 4)
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("t", HIDDEN)]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    nodes.ask(request, 3)
    everything = await nodes.see("transactions list", name=None)
    assert has_hidden(everything)
    for answer in (
        await nodes.see("transactions list"),
        await nodes.see("transactions show", TRANSACTION="x"),
    ):
        assert not has_hidden(answer)
        assert "t-0" in json.dumps(answer)


async def test_acls_for_hosts(nodes: Accessed, monkeypatch: pytest.MonkeyPatch) -> None:
    """ACLs for hosts apply to the client's address, in lists and in handlers of Kafka's APIs."""
    nodes.allow(
        acl("DESCRIBE", "TOPIC", HIDDEN, host="10.0.0.9"),
        acl("ALTER_CONFIGS", "TOPIC", HIDDEN, host="10.0.0.9"),
    )
    for host, is_shown in (("/10.0.0.9", True), ("/10.0.0.8", False), ("/127.0.0.1", False)):
        assert has_hidden(await nodes.see("topics list", host=host)) == is_shown
    hosts = []

    def emit(_: object, event: str, **fields: Any) -> None:
        if event == "access.denied":
            hosts.append(fields["host"])

    monkeypatch.setattr(type(LOG), "emit", emit)
    change = {"set": {"retention.ms": "1000"}}
    with pytest.raises(ControlError, match="TOPIC_AUTHORIZATION_FAILED"):
        await nodes.see("topics alter", change, host="/10.0.0.8", TOPIC=HIDDEN)
    assert hosts == ["10.0.0.8"]
    await nodes.see("topics alter", change, host="/10.0.0.9", TOPIC=HIDDEN)


async def test_metrics_need_every_topic_and_group(nodes: Accessed) -> None:
    """An ACL for all names is not enough for the metrics if another ACL denies a topic or group.

    Metrics are disabled in this test, so a user who may see them gets 404.
    """

    async def status() -> int:
        with pytest.raises(ControlError) as raised:
            await nodes.see("/metrics")
        assert not has_hidden(str(raised.value))
        return raised.value.status

    assert await status() == 403
    nodes.allow(acl("DESCRIBE", "TOPIC"))
    assert await status() == 404
    for hidden in (
        acl("DESCRIBE", "TOPIC", HIDDEN, Permission.DENY),
        acl("ALL", "GROUP", "g", Permission.DENY),
    ):
        nodes.allow(hidden)
        assert await status() == 403
        assert nodes.security.authorizer is not None
        nodes.security.authorizer.change(removed=[hidden])
        assert await status() == 404


def test_topics_of_a_rebalance() -> None:
    """All topics in a rebalance record are found; tasks of streams groups are not topics."""
    record: dict[str, Any] = {
        "group_type": "consumer",
        "members": [
            {
                "partitions_before": {"a": [0]},
                "partitions": {"b": [0]},
                "topics_added": ["c"],
                "topics_removed": ["d"],
            }
        ],
        "delays": [{"waited_for": [{"partitions": {"e": [0]}}]}],
        "given_up": {"topic": "f", "dead_letter_queue": "g"},
        "partitions": {"moved": 1},
    }
    assert topics_of(record) == set("abcdefg")
    assert topics_of(record | {"group_type": "streams"}) == set("cdfg")


async def test_the_log_knows_who_has_reset_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event of a reset has the user and the address of the client; without a login no user."""
    events: list[dict[str, Any]] = []

    def emit(_: object, event: str, **fields: Any) -> None:
        if event == "cluster.reset":
            events.append(fields)

    accessed = Accessed()
    monkeypatch.setattr(type(LOG), "emit", emit)
    await accessed.see("reset", move="false", host="/10.1.2.3")
    await accessed.see("reset", move="false", name=None)
    assert [(one["user"], one["remote"]) for one in events] == [
        ("User:alice", "10.1.2.3"),
        (None, "127.0.0.1"),
    ]
