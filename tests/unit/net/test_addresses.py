"""Advertised addresses depend on where the client comes from."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.config.config import Config
from coordinator_server.events.log import LOG
from coordinator_server.net.addresses import AddressBook, check_names
from coordinator_server.net.networks import RoutingTable
from tests.unit.net.tables import IPV4_TABLE, IPV6_TABLE

CONTAINER = "172.18.0.2"
GATEWAY = "172.18.0.1"
NEIGHBOUR = "172.18.0.7"
FAR_AWAY = "192.168.1.20"


def book(
    settings: Mapping[str, str] | None = None, *, in_container: bool = True, brokers: int = 1
) -> AddressBook:
    """Return the addresses of a broker in the network 172.18.0.0/16."""
    config = Config(overrides={"broker.count": str(brokers), **(settings or {})})
    configs = {one.node_id: one for one in map(config.of_broker, range(brokers))}
    return AddressBook(configs, RoutingTable(IPV4_TABLE, IPV6_TABLE), in_container=in_container)


def told(
    addresses: AddressBook,
    peer: str,
    local: str = CONTAINER,
    *,
    node_id: int = 1,
    listener: str = "PLAINTEXT",
) -> str:
    """Return the address for a client that dialled broker 1 at port 9092."""
    connection = SimpleNamespace(
        listener_name=listener, client_host=f"/{peer}", local_address=(local, 9092)
    )
    host, port = addresses.address(cast(Any, connection), node_id, 9091 + node_id)
    return f"{host} {port}"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Return the log output."""
    stream = io.StringIO()
    LOG.configure(stream=stream)
    yield stream
    LOG.configure()


@pytest.mark.parametrize(
    ("peer", "local", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1 9092"),
        (NEIGHBOUR, CONTAINER, "172.18.0.2 9092"),
        (CONTAINER, CONTAINER, "172.18.0.2 9092"),
        (GATEWAY, CONTAINER, "localhost 9092"),
        (FAR_AWAY, CONTAINER, "172.18.0.2 9092"),
        ("fd00:dead::7", "fd00:dead::2", "fd00:dead::2 9092"),
        ("fd00:dead::1", "fd00:dead::2", "localhost 9092"),
        ("unknown", "unknown", "unknown 9092"),
    ],
)
def test_a_client_is_told_what_it_reached_us_by(peer: str, local: str, expected: str) -> None:
    """A client gets the address that it dialled; behind the gateway, it gets the published port."""
    assert told(book(), peer, local) == expected


def test_a_gateway_is_a_client_outside_of_containers() -> None:
    """Outside of containers a gateway is an ordinary client and gets the broker's address."""
    assert told(book(in_container=False), GATEWAY) == "172.18.0.2 9092"


@pytest.mark.parametrize("in_container", [True, False])
@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (GATEWAY, "pc.example 19092"),
        (FAR_AWAY, "pc.example 19092"),
        (NEIGHBOUR, "172.18.0.2 9092"),
        ("127.0.0.1", "172.18.0.2 9092"),
    ],
)
def test_published_host_and_port_are_told_to_those_outside(
    peer: str, expected: str, in_container: bool
) -> None:
    """With published.host clients outside of the broker's networks get the published address."""
    settings = {"published.host": "pc.example", "published.port": "19092"}
    assert told(book(settings, in_container=in_container), peer) == expected


def test_the_published_port_alone_may_be_set() -> None:
    """published.port may be set alone; the host stays localhost."""
    addresses = book({"published.port": "19092"})
    assert told(addresses, GATEWAY) == "localhost 19092"
    assert told(addresses, FAR_AWAY) == "172.18.0.2 9092"


def test_several_brokers_have_a_port_each() -> None:
    """Further brokers have consecutive ports, and consecutive published ports."""
    assert [told(book(brokers=3), GATEWAY, node_id=one) for one in (1, 2, 3)] == [
        "localhost 9092",
        "localhost 9093",
        "localhost 9094",
    ]
    published = book({"published.port": "19092"}, brokers=3)
    assert told(published, GATEWAY, node_id=3) == "localhost 19094"
    assert told(published, NEIGHBOUR, node_id=3) == "172.18.0.2 9094"


def test_an_explicit_address_is_told_to_all() -> None:
    """advertised.listeners overrides the automatic address of its listener."""
    addresses = book(
        {
            "listeners": "INSIDE://:9092,OUTSIDE://:9093",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "advertised.listeners": "OUTSIDE://pc.example:29092",
        }
    )
    for peer in (GATEWAY, NEIGHBOUR, FAR_AWAY):
        assert told(addresses, peer, listener="OUTSIDE") == "pc.example 29092"
    assert told(addresses, NEIGHBOUR, listener="INSIDE") == "172.18.0.2 9092"


@pytest.mark.parametrize(
    ("advertised", "listener", "peer", "expected"),
    [
        ("auto", "INSIDE", NEIGHBOUR, "INSIDE://172.18.0.2:9092,OUTSIDE://172.18.0.2:9093"),
        ("auto", "INSIDE", GATEWAY, "INSIDE://localhost:9092,OUTSIDE://localhost:9093"),
        ("auto", "OUTSIDE", NEIGHBOUR, "INSIDE://172.18.0.2:9092,OUTSIDE://172.18.0.2:9092"),
        (
            "OUTSIDE://pc.example:29092",
            "INSIDE",
            NEIGHBOUR,
            "INSIDE://172.18.0.2:9092,OUTSIDE://pc.example:29092",
        ),
        (
            "OUTSIDE://pc.example:29092",
            "OUTSIDE",
            NEIGHBOUR,
            "INSIDE://172.18.0.2:9092,OUTSIDE://pc.example:29092",
        ),
    ],
)
def test_advertised_listeners_are_shown_as_addresses(
    advertised: str, listener: str, peer: str, expected: str
) -> None:
    """Each listener is shown with the address that the client would get on that listener."""
    settings = {
        "listeners": "INSIDE://:9092,OUTSIDE://:9093",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "advertised.listeners": advertised,
    }
    connection = SimpleNamespace(
        listener_name=listener, client_host=f"/{peer}", local_address=(CONTAINER, 9092)
    )
    shown = book(settings).advertised_listeners(cast(Any, connection), 1)
    assert shown == expected


@pytest.mark.parametrize(
    ("peer", "in_container", "doubted"),
    [
        (NEIGHBOUR, True, True),
        (FAR_AWAY, True, True),
        (GATEWAY, True, False),
        ("127.0.0.1", True, False),
        (CONTAINER, True, False),
        (NEIGHBOUR, False, True),
        (GATEWAY, False, True),
    ],
)
def test_localhost_told_to_another_machine_is_said_once(
    peer: str, in_container: bool, doubted: bool, log: io.StringIO
) -> None:
    """A warning about localhost for other machines is logged once.

    localhost is right for the broker's machine and behind a published port.
    """
    addresses = book(
        {"advertised.listeners": "PLAINTEXT://localhost:9092"}, in_container=in_container
    )
    assert [told(addresses, peer) for _ in range(2)] == ["localhost 9092"] * 2
    lines = log.getvalue().splitlines()
    assert len(lines) == doubted
    for line in lines:
        assert "address.doubted" in line
        assert f"remote={peer}" in line
        assert "address=localhost:9092" in line


def test_a_client_from_far_away_is_doubted_once(log: io.StringIO) -> None:
    """A warning about a distant client is logged once: only the user knows the right address."""
    addresses = book()
    for _ in range(2):
        told(addresses, NEIGHBOUR)
        told(addresses, FAR_AWAY)
    (line,) = log.getvalue().splitlines()
    assert "set published.host" in line
    assert f"remote={FAR_AWAY}" in line
    told(book(in_container=False), FAR_AWAY)
    assert log.getvalue().count("\n") == 1


def test_a_name_that_does_not_resolve_is_said(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each advertised name is resolved; a name that cannot be resolved is logged once."""

    def look_up(name: str, port: None) -> list[object]:
        if name != "broker":
            raise socket.gaierror(-2, "Name or service not known")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    advertised = "A://broker:9092,B://nowhere.invalid:9093,C://10.0.0.1:9094"
    thread = check_names(
        Config(
            overrides={
                "listeners": "A://:9092,B://:9093,C://:9094",
                "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
                "advertised.listeners": advertised,
            }
        )
    )
    assert thread is not None
    thread.join(10)
    (line,) = log.getvalue().splitlines()
    assert "address.unresolved" in line
    assert "nowhere.invalid does not resolve here" in line


def test_nothing_is_looked_up_without_a_name() -> None:
    """With `auto` or IP addresses no name is resolved."""
    assert check_names(Config()) is None
    settings = {"advertised.listeners": "PLAINTEXT://10.0.0.1:9092"}
    assert check_names(Config(overrides=settings)) is None
