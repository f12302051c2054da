"""Connection slots: of a broker, of its listeners, and of the inter-broker listener."""

from __future__ import annotations

import pytest

from coordinator_server.config.config import Config
from coordinator_server.net.connection_slots import ConnectionSlots, protected_listener

LISTENERS = {
    "listeners": "A://:9092,B://:9093",
    "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
}


def slots(**settings: str) -> ConnectionSlots:
    """Return the slots of a broker with two listeners."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return ConnectionSlots(Config(overrides={**LISTENERS, **named}))


def test_a_listener_has_a_limit_of_its_own() -> None:
    """A listener has its own limit, or else the broker's limit, which counts all connections."""
    found = slots(max_connections="3", listener_name_a_max_connections="1")
    slot = found.take("A")
    assert found.refusal("A") == "max.connections of the listener is 1"
    found.take("B")
    assert found.refusal("B") is None
    found.take("B")
    assert found.refusal("B") == "max.connections is 3"
    slot.give_back()
    assert found.refusal("A") is None
    assert found.refusal("B") is None
    slot.give_back()
    found.take("A")
    assert found.refusal("A") is not None, "a slot is given back once"


def test_the_listener_between_brokers_has_only_its_own_limit() -> None:
    """The inter-broker listener has only its own limit.

    The broker's limit applies to each listener without its own limit.
    """
    found = slots(inter_broker_listener_name="b", max_connections="1")
    found.take("A")
    assert found.refusal("B") is None
    found.take("B")
    assert found.refusal("B") == "max.connections of the listener is 1"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # The broker has only one listener.
        ({}, None),
        # No listener is called PLAINTEXT.
        (LISTENERS, None),
        ({**LISTENERS, "inter.broker.listener.name": "a"}, "A"),
        ({"listeners": "SSL://:1,PLAINTEXT://:2"}, "PLAINTEXT"),
        ({"listeners": "SSL://:1,PLAINTEXT://:2", "security.inter.broker.protocol": "SSL"}, "SSL"),
    ],
)
def test_the_listener_between_brokers(settings: dict[str, str], expected: str | None) -> None:
    """The inter-broker listener is found by name or protocol; a single listener is for clients."""
    assert protected_listener(Config(overrides=settings)) == expected


def test_who_waits_is_called_once() -> None:
    """A waiter is called once when a slot is free; it may wait again, or be removed before."""
    found = slots()
    calls: list[str] = []

    def again() -> None:
        calls.append("again")
        found.wait(again)

    def forgotten() -> None:
        calls.append("forgotten")

    found.wait(again)
    found.wait(forgotten)
    found.wait_no_more(forgotten)
    found.wait_no_more(forgotten)
    for expected in (1, 2):
        found.take("A").give_back()
        assert calls == ["again"] * expected
