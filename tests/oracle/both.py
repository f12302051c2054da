"""A Kafka and our broker with the same settings and listeners, by the addresses of these."""

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
    """A Kafka with PLAINTEXT, the listener between brokers, and `listeners` by their protocols."""
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
    """Our broker likewise, and the broker itself."""
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
