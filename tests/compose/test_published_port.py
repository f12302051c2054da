"""The advertised addresses behind a published port of a real Docker engine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import kafka
import pytest

from tests.compose.support import (
    BROKER_IMAGE,
    CLIENTS_IMAGE,
    Container,
    docker,
)
from tests.support import free_port, wait_for

TOLD = """
import sys, kafka
admin = kafka.KafkaAdminClient(bootstrap_servers=sys.argv[1])
for broker in admin.describe_cluster()["brokers"]:
    print(broker["host"], broker["port"])
"""

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("images")]


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    """A bridge network."""
    name = f"coordinator-server-{free_port()}"
    docker("network", "create", name)
    yield name
    docker("network", "rm", name)


@contextlib.contextmanager
def broker(network: str, *arguments: str) -> Iterator[Container]:
    """Run a broker container until the end of the block; it is healthy at the start."""
    command = ("run", "-d", "--health-interval=1s", "--network", network, *arguments)
    container = Container(docker(*command, BROKER_IMAGE).strip())
    try:
        container.wait_until_healthy()
        yield container
    finally:
        docker("rm", "-fv", container.id)


def told_here(port: int) -> list[str]:
    """Return the addresses that a client on this machine gets through the published port."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
    try:
        return [f"{one['host']} {one['port']}" for one in admin.describe_cluster()["brokers"]]
    finally:
        admin.close()


def told_inside(network: str, bootstrap: str) -> list[str]:
    """Return the addresses that a client in another container of the network gets."""
    command = ("run", "--rm", "--network", network, CLIENTS_IMAGE, "python", "-c", TOLD, bootstrap)
    return docker(*command).splitlines()


def warnings(container: Container) -> list[str]:
    """Return the log lines about addresses."""
    return [line for line in container.log().splitlines() if " address." in line]


def test_the_published_port_is_one_setting(network: str) -> None:
    """With KAFKA_PUBLISHED_PORT=P clients outside get localhost:P, others the container."""
    port = free_port()
    with broker(
        network, "-p", f"127.0.0.1:{port}:9092", "-e", f"KAFKA_PUBLISHED_PORT={port}"
    ) as container:
        address = container.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
        assert told_here(port) == [f"localhost {port}"]
        assert told_inside(network, f"{address}:9092") == [f"{address} 9092"]
        assert not warnings(container)


def test_the_published_host_may_be_named(network: str) -> None:
    """Only clients that use the published port get KAFKA_PUBLISHED_HOST."""
    port = free_port()
    settings = ("-e", "KAFKA_PUBLISHED_HOST=127.0.0.1", "-e", f"KAFKA_PUBLISHED_PORT={port}")
    with broker(network, "-p", f"127.0.0.1:{port}:9092", *settings) as container:
        address = container.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
        assert told_here(port) == [f"127.0.0.1 {port}"]
        assert told_inside(network, f"{address}:9092") == [f"{address} 9092"]


def test_several_brokers_are_published_one_by_one(network: str) -> None:
    """With broker.count=3 each of the three published ports gets its own address."""
    with broker(
        network, "-e", "KAFKA_BROKER_COUNT=3", "-e", "KAFKA_PUBLISHED_PORT=19092"
    ) as container:
        address = container.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
        inside = [f"{address} {port}" for port in (9092, 9093, 9094)]
        assert told_inside(network, f"{address}:9093") == inside
        # The client connects from the network's gateway. The broker therefore treats it as a
        # client outside of the network, although it does not use a published port.
        admin = kafka.KafkaAdminClient(bootstrap_servers=f"{address}:9093")
    # The client is still connected and has the metadata of all three brokers.
    assert [one.port for one in admin._manager.cluster.brokers()] == [19092, 19093, 19094]


def test_localhost_told_to_a_container_is_said_in_one_line(network: str) -> None:
    """One log line warns if a client in another container gets the advertised host localhost."""
    port = free_port()
    with broker(
        *(network, "-p", f"127.0.0.1:{port}:9092"),
        *("-e", "KAFKA_LISTENERS=PLAINTEXT://:9092"),
        *("-e", f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:{port}"),
    ) as container:
        address = container.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
        assert told_here(port) == [f"localhost {port}"]
        assert not warnings(container)
        with pytest.raises(AssertionError, match="KafkaConnectionError"):
            told_inside(network, f"{address}:9092")
        (line,) = warnings(container)
        assert "address.doubted" in line
        assert f"address=localhost:{port}" in line


def test_a_name_that_does_not_resolve_is_said_at_start(network: str) -> None:
    """One line warns about an advertised name that the container cannot resolve."""
    advertised = "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://no-such-host.invalid:9092"
    with broker(network, "-e", advertised) as container:
        (line,) = wait_for(lambda: warnings(container), "the line about the name", 30, 0.3)
        assert "no-such-host.invalid does not resolve here" in line


@pytest.mark.parametrize(
    ("advertised", "expected"),
    [
        ("PLAINTEXT://0.0.0.0:9092", "name a host"),
        ("PLAINTEXT://localhost:0", "name a port"),
        ("PLAINTEXT_HOST://localhost:9092", "there is no such listener, listeners has PLAINTEXT"),
    ],
)
def test_an_address_that_cannot_be_right_ends_the_start(advertised: str, expected: str) -> None:
    """An invalid advertised address ends the start with exit code 2 and one line with the value."""
    container = Container(
        docker(
            *("run", "-d", "--network", "none", "-e", "KAFKA_LISTENERS=PLAINTEXT://:9092"),
            *("-e", f"KAFKA_ADVERTISED_LISTENERS={advertised}", BROKER_IMAGE),
        ).strip()
    )
    try:
        assert docker("wait", container.id).strip() == "2"
        (line,) = container.log().splitlines()
        assert line.startswith(f"coordinator-server: advertised.listeners: {advertised}: ")
        assert expected in line
    finally:
        docker("rm", "-fv", container.id)
