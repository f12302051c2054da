"""A cluster that counts, with real connections, and its parsed metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families

from coordinator_server.cluster import Cluster
from coordinator_server.counting.counts import Counts
from coordinator_server.metrics.scrape import Exposition, scraper_of
from coordinator_server.net.connection import Connection
from protocol.schema import Message
from tests.faults.client import frame_of
from tests.harness.nodes import Nodes
from tests.unit.net.fakes import FakeTransport

OPENMETRICS = "application/openmetrics-text;version=1.0.0"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str, *, openmetrics: bool = False) -> Samples:
    """Return the samples of an exposition by name and sorted labels; fail for a repeated sample."""
    parse = parse_openmetrics if openmetrics else text_string_to_metric_families
    samples: Samples = {}
    for family in parse(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in samples, key
            samples[key] = sample.value
    return samples


def value(samples: Samples, name: str, **labels: object) -> float | None:
    """Return the value of a series; None if the series does not exist."""
    return samples.get((name, tuple(sorted((key, str(one)) for key, one in labels.items()))))


def total(samples: Samples, name: str, **labels: object) -> float:
    """Return the sum of all series that have these labels."""
    wanted = {(key, str(one)) for key, one in labels.items()}
    return sum(one for (found, has), one in samples.items() if found == name and wanted <= set(has))


async def exposition(cluster: Cluster, accept: str = "", accept_encoding: str = "") -> Exposition:
    """Return the exposition of a cluster's scrape."""
    scraper = await scraper_of(cluster)
    assert scraper is not None
    return await scraper.scrape(accept, accept_encoding)


class CountingNodes(Nodes):
    """Brokers that count, whose requests go through connections."""

    def __init__(self, *arguments: Any, **overrides: Any) -> None:
        super().__init__(*arguments, counts=Counts(), **overrides)
        self.topics.create("t", 1, {})
        for node_id, broker in self.cluster.brokers.items():
            self.cluster.servers.by_id[node_id] = self.cluster.new_server(broker)
        self.loaded()

    def connect(self, node_id: int = 1, listener: str = "PLAINTEXT") -> Wire:
        """Open and return a connection to a broker."""
        connections = self.cluster.servers.by_id[node_id].connections
        return Wire(connections.connection_type(connections, listener), self.turn)

    async def exposition(self, accept: str = "", accept_encoding: str = "") -> Exposition:
        """Return the exposition of the cluster's scrape."""
        return await exposition(self.cluster, accept, accept_encoding)

    async def samples(self) -> Samples:
        """Scrape the cluster and return the samples."""
        return parsed((await self.exposition()).body.decode())


class Wire:
    """A connection and its transport, which records what is written."""

    def __init__(self, connection: Connection, turn: Callable[[], None]) -> None:
        self.connection = connection
        self.turn = turn
        self.transport = FakeTransport()
        connection.connection_made(cast("Any", self.transport))
        self.sent_bytes = 0

    def send(self, message: Message, version: int) -> None:
        """Let the connection receive a request."""
        self.send_frame(frame_of(message, version))

    def send_frame(self, frame: bytes) -> None:
        """Let the connection receive a frame."""
        self.sent_bytes += len(frame)
        self.connection.data_received(frame)

    @property
    def answers(self) -> list[bytes]:
        """Return the written frames."""
        return list(self.transport.written)

    def close(self) -> None:
        """Let the connection end."""
        self.connection.connection_lost(None)
