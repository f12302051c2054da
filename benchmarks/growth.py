"""Memory and CPU by the number of groups, members, partitions and so on.

    python -m benchmarks.growth                        # some minutes, 2 GB of memory
    python -m benchmarks.growth --only groups --most 10000

Each dimension has its own broker that grows in steps. At each step the resident memory and the CPU
time per operation are measured. The slope is measured between the last two sizes. Larger sizes are
calculated from the slope and marked as calculated.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import uvloop

from benchmarks import load
from benchmarks.cells import Rebalances
from benchmarks.load import ClosedLoop
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.batch import Record, build_batch
from tests.faults.client import Client
from tests.support import API_VERSIONS_REQUEST, Serve

SIZES = (10, 100, 1_000, 10_000, 100_000)
PER_REQUEST = 4_900
"""Topics in one request: Kafka's limit is 10 000 records, two per one-partition topic."""

HEARTBEAT_CONNECTIONS = 100
WINDOW_SECONDS = 1.0
SETTINGS = {**load.SETTINGS, "max.connections": "100000"}
_OWN_DESCRIPTORS = 100


class Point(NamedTuple):
    """A measured size: memory, and CPU in microseconds per operation."""

    size: int
    resident_mb: float
    cpu_us: float


class Dimension(NamedTuple):
    """A kind of object to count.

    `grow(broker, sizes)` creates each number of objects and yields a Point for each number.
    """

    name: str
    operation: str
    most: int
    """The largest measured size, limited by two cores and one address."""

    grow: Callable[[Serve, Sequence[int]], Iterator[Point]]
    settings: dict[str, str] = SETTINGS


def _groups(broker: Serve, sizes: Sequence[int]) -> Iterator[Point]:
    """Measure groups with one member; the operation is a heartbeat, group after group."""
    beats: list[bytes] = []
    with load.client_of(broker) as client:
        for size in sizes:
            for number in range(len(beats), size):
                beats.append(load.heartbeat(load.only_member(client, f"group-{number}")))
            yield Point(size, broker.resident_mb(), _cpu_us(broker, beats))


def _cpu_us(broker: Serve, frames: Sequence[bytes]) -> float:
    """Return the CPU per request; the connections share the frames."""

    async def run() -> float:
        number = min(len(frames), HEARTBEAT_CONNECTIONS)
        loops = [ClosedLoop(frames[one::number], answer) for one in range(number)]
        await load.connected(broker, loops)
        await load.window(broker, loops, WINDOW_SECONDS / 2)
        answers, cpu_s = await load.window(broker, loops, WINDOW_SECONDS)
        for one in loops:
            one.close()
        return cpu_s / answers * 1e6

    answer = load.asked(broker, frames[0])
    return uvloop.run(run())


def _members(broker: Serve, sizes: Sequence[int]) -> Iterator[Point]:
    """Measure one group whose members have their own connections; the operation is a rebalance."""
    for size in sizes:
        group = Rebalances(broker, size)
        group.cycle()
        cpu_s = broker.cpu_seconds()
        group.cycle()
        cpu_us = (broker.cpu_seconds() - cpu_s) / size * 1e6
        yield Point(size, broker.resident_mb(), cpu_us)
        group.close()


def _offsets(broker: Serve, sizes: Sequence[int]) -> Iterator[Point]:
    """Measure committed offsets, 100 per group; the operation is one offset of a commit."""
    with load.client_of(broker) as client:
        load.ensure_topic(client)
        number = 0
        for size in sizes:
            cpu_s, before = broker.cpu_seconds(), number
            while number < size:
                partitions = min(load.PARTITIONS, size - number)
                member = load.Member(f"group-{number // load.PARTITIONS}", "", -1)
                client.ask_frame(load.commit(member, partitions, 1000))
                number += partitions
            cpu_us = (broker.cpu_seconds() - cpu_s) / (number - before) * 1e6
            yield Point(size, broker.resident_mb(), cpu_us)


def _topics(broker: Serve, sizes: Sequence[int]) -> Iterator[Point]:
    """Measure topics with one partition; the operation is the creation of a topic."""
    with load.client_of(broker) as client:
        number = 0
        for size in sizes:
            cpu_s, before = broker.cpu_seconds(), number
            while number < size:
                end = min(number + PER_REQUEST, size)
                _create(client, [_topic(f"t{one}", 1) for one in range(number, end)])
                number = end
            cpu_us = (broker.cpu_seconds() - cpu_s) / (number - before) * 1e6
            yield Point(size, broker.resident_mb(), cpu_us)


def _partitions(broker: Serve, sizes: Sequence[int]) -> Iterator[Point]:
    """Measure partitions of large topics; the operation is the append of one batch."""
    with load.client_of(broker) as client:
        number = 0
        for size in sizes:
            while number < size:
                count = min(PER_REQUEST, size - number)
                _create(client, [_topic(f"p{number}", count)])
                cpu_s = broker.cpu_seconds()
                _produce(client, f"p{number}", count)
                cpu_us = (broker.cpu_seconds() - cpu_s) / count * 1e6
                number += count
            yield Point(size, broker.resident_mb(), cpu_us)


def _topic(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


def _create(client: Client, topics: list[CreatableTopic]) -> None:
    request = CreateTopicsRequest(topics=topics, timeout_ms=60_000)
    errors = load.errors_in(client.ask(request, load.CREATE_TOPICS_VERSION))
    assert not errors, errors


def _produce(client: Client, topic: str, partitions: int) -> None:
    """Write one record to each partition of a topic in one request."""
    now_ms = time.time_ns() // 1_000_000
    batch = build_batch([Record(0, now_ms, None, bytes(100))]).to_bytes()
    data = [PartitionProduceData(index=one, records=batch) for one in range(partitions)]
    request = ProduceRequest(
        acks=1, timeout_ms=60_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    errors = load.errors_in(client.ask(request, load.PRODUCE_VERSION))
    assert not errors, errors


def _connections(broker: Serve, sizes: Sequence[int]) -> Iterator[Point]:
    """Measure connections that have sent ApiVersions; the operation is to open a connection."""
    clients: list[Client] = []
    for size in sizes:
        cpu_s, before = broker.cpu_seconds(), len(clients)
        while len(clients) < size:
            clients.append(load.connect(broker))
            clients[-1].ask_frame(API_VERSIONS_REQUEST)
        cpu_us = (broker.cpu_seconds() - cpu_s) / (len(clients) - before) * 1e6
        yield Point(size, broker.resident_mb(), cpu_us)
    for client in clients:
        client.close()


DIMENSIONS = (
    Dimension("groups of one member", "a heartbeat", 100_000, _groups),
    Dimension(
        "members of one group",
        "a member in a rebalance",
        1_000,
        _members,
        {**SETTINGS, "group.initial.rebalance.delay.ms": "5000"},
    ),
    Dimension("committed offsets", "an offset in a commit of 100", 100_000, _offsets),
    Dimension("topics of one partition", "creating one", 100_000, _topics),
    Dimension("partitions with a batch each", "that batch", 10_000, _partitions),
    Dimension("connections", "opening one, ApiVersions", 20_000, _connections),
)


def sizes_of(dimension: Dimension, most: int) -> list[int]:
    """Return the sizes to measure: powers of ten, and the largest size."""
    most = min(most, dimension.most)
    return [size for size in SIZES if size < most] + [most]


def rows(points: Sequence[Point]) -> Iterator[str]:
    """Yield the table rows of one dimension: measured sizes, then calculated ones."""
    for point in points:
        yield f"| {point.size} | {point.resident_mb:.1f} | {point.cpu_us:.1f} | measured |"
    before, last = points[-2:]
    slope_mb = (last.resident_mb - before.resident_mb) / (last.size - before.size)
    for size in SIZES:
        if size > last.size:
            resident_mb = last.resident_mb + slope_mb * (size - last.size)
            yield f"| {size} | {resident_mb:.0f} | | calculated |"
    yield f"| one more | {slope_mb * 1024:.2f} KB | | slope of the last step |"


def main() -> int:
    """Print a table for each dimension."""
    parser = argparse.ArgumentParser(
        description=(
            "Measure memory and CPU by the number of groups, members, partitions or connections."
        )
    )
    parser.add_argument(
        "--only", default="", help="run only benchmarks whose names contain this text"
    )
    parser.add_argument("--most", type=int, default=SIZES[-1], help="largest size to measure")
    options = parser.parse_args()
    most_descriptors = _raise_descriptors()
    for dimension in DIMENSIONS:
        if options.only not in dimension.name:
            continue
        most = options.most
        if dimension.grow in (_connections, _members):
            most = min(most, most_descriptors - _OWN_DESCRIPTORS)
        with load.served(dimension.settings) as broker:
            _warm_up(broker)
            points = list(dimension.grow(broker, sizes_of(dimension, most)))
        print(f"\n| {dimension.name} | resident MB | CPU us, {dimension.operation} | |")
        print("|---|---|---|---|\n" + "\n".join(rows(points)), flush=True)
    return 0


def _warm_up(broker: Serve) -> None:
    """Let the broker do its deferred imports and create its offsets topic."""
    with load.client_of(broker) as client:
        client.ask_frame(API_VERSIONS_REQUEST)
        load.ensure_topic(client)
        client.ask_frame(load.produce(0))
        client.ask_frame(load.commit(load.Member("warm-up", "", -1), 1, 1000))


def _raise_descriptors() -> int:
    """Raise the limit of open files to the maximum and return it; the broker inherits it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DIMENSIONS[-1].most + 10 * _OWN_DESCRIPTORS
    if hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except (ValueError, OSError):
            wanted = hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
    return wanted


if __name__ == "__main__":
    sys.exit(main())
