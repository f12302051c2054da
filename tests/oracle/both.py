"""Start a Kafka and our broker with the same settings and listeners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.oracle.kafka_process import Kafka
from tests.support import Serve, address_of, free_port

Addresses = dict[str, tuple[str, int]]


@contextmanager
def theirs(
    directory: Path, settings: Mapping[str, str], listeners: Mapping[str, str]
) -> Iterator[Addresses]:
    """Run a Kafka with `listeners` and the inter-broker listener PLAINTEXT; yield the addresses."""
    kafka = Kafka(directory, settings, listeners=listeners)
    try:
        kafka.start()
        yield {**kafka.addresses, "PLAINTEXT": address_of(kafka.bootstrap_servers)}
    finally:
        kafka.end()


@contextmanager
def ours(
    settings: Mapping[str, str], listeners: Mapping[str, str]
) -> Iterator[tuple[Addresses, Serve]]:
    """Run our broker with `listeners` and PLAINTEXT; yield the addresses and the process."""
    protocols = {"PLAINTEXT": "PLAINTEXT", **listeners}
    addresses: Addresses = {name: ("127.0.0.1", free_port()) for name in protocols}
    given = {
        **settings,
        "node.id": "1",
        "listeners": ",".join(
            f"{name}://{host}:{port}" for name, (host, port) in addresses.items()
        ),
        "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
    }
    arguments = [part for pair in given.items() for part in ("--set", "=".join(pair))]
    with Serve("--ephemeral", *arguments, listener=None) as broker:
        yield addresses, broker
