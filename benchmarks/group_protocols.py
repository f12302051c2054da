"""CPU cost of the new group protocols, compared with Kafka in one run (KIP-848, KIP-932).

    python -m benchmarks.group_protocols [ROUNDS]

Measures heartbeats of stable consumer groups, rebalances of 10 and of 500 members until all own
their target assignment, the memory of 10 000 consumer groups, and records that a share group
fetches and accepts.
Clients are raw connections of this process. Rounds alternate between the brokers, and the table
shows medians; CPU time of the broker per operation is the most reliable figure. Kafka runs with its
usual JVM options, warmed up; it needs Java, and Maven for its jars.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import load
from protocol import REFERENCE_VERSION
from protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.apis.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from protocol.apis.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from protocol.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.batch import Record, build_batch
from protocol.json_form import uuid_to_text
from tests.faults.client import Client, frame_of
from tests.oracle.kafka_process import Kafka
from tests.support import Serve, cpu_seconds, resident_mb, wait_for

TOPIC, RECORDS_TOPIC, PARTITIONS = "wide", "records", 2000
CONNECTIONS = 10
WINDOW_SECONDS, WARM_UP_SECONDS = 1.0, 6.0
SIZES = (10, 500)
CYCLES = {10: 40, 500: 4}
WARM_UP_CYCLES = {10: 300, 500: 10}
GROUPS = 10_000
BATCH, BATCHES, WARM_UP_BATCHES = 500, 600, 3000
RECORD_BYTES = 100
PATIENCE_SECONDS = 60.0
SETTINGS = {
    "num.partitions": "1",
    "offsets.topic.num.partitions": "50",
    **{
        f"group.{kind}.{name}": value
        for kind in ("consumer", "share")
        for name, value in (
            ("assignment.interval.ms", "0"),
            ("session.timeout.ms", "3600000"),
            ("max.session.timeout.ms", "3600000"),
        )
    },
    "group.consumer.max.size": "1000",
}
KAFKA_SETTINGS = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
"""A uuid, because Kafka parses the member id of a share session as one."""


class Side:
    """A broker under measurement."""

    def __init__(self, name: str, address: tuple[str, int], pid: int) -> None:
        self.name, self.address, self.pid = name, address, pid
        self.client = load.connect(self)
        load.ensure_topic(self.client, TOPIC, PARTITIONS)
        load.ensure_topic(self.client, RECORDS_TOPIC, 1)
        self.topic_ids = {one: self._topic_id(one) for one in (TOPIC, RECORDS_TOPIC)}
        # Kafka creates __consumer_offsets on the first FindCoordinator.
        self.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["group"]))

    def cpu_seconds(self) -> float:
        """Return the CPU time that the broker has used."""
        return cpu_seconds(self.pid)

    def _topic_id(self, name: str) -> bytes:
        """Return the id of a topic once the broker knows the topic.

        Kafka responds to CreateTopics earlier.
        """
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        answered = partial(self.client.ask, request)
        wait_for(lambda: not answered().topics[0].error_code, f"{self.name} knows {name}")
        topic_id: bytes = answered().topics[0].topic_id
        return topic_id


class Figure(NamedTuple):
    """One line of the table."""

    what: str
    unit: str
    ours: float
    kafka: float

    def __str__(self) -> str:
        ratio = self.kafka / self.ours
        return f"| {self.what} | {self.unit} | {self.ours:.3g} | {self.kafka:.3g} | {ratio:.2f} |"


# --- heartbeats -----------------------------------------------------------------------------------


def join(group: str, member_id: str, topic: str) -> ConsumerGroupHeartbeatRequest:
    """Return the heartbeat with which a member joins a consumer group."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )


def beat(group: str, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """Return a heartbeat; without more fields it reports no changes."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, **fields
    )


def joined(client: Client, request: Any) -> Any:
    """Return the response to a join, retried until the coordinator is available."""

    def answered() -> Any:
        answer = client.ask(request)
        return None if answer.error_code else answer

    return wait_for(answered, "the coordinator is there", PATIENCE_SECONDS, 0.05)


class Heartbeats:
    """Single members of stable groups, each on its own connection."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._loops: list[load.ClosedLoop] = []
        for number in range(CONNECTIONS):
            group = f"steady-{number}"
            epoch = joined(side.client, join(group, _MEMBER, RECORDS_TOPIC)).member_epoch
            frame = frame_of(beat(group, _MEMBER, epoch), 1)
            self._loops.append(load.ClosedLoop([frame], load.asked(side, frame)))

    async def connect(self) -> None:
        """Connect and warm the broker up."""
        await load.connected(self._side, self._loops)
        await load.window(self._side, self._loops, WARM_UP_SECONDS)

    async def cost_us(self) -> float:
        """Return the CPU per heartbeat in microseconds."""
        answers, cpu_s = await load.window(self._side, self._loops, WINDOW_SECONDS)
        return cpu_s / answers * 1e6


def heartbeats(sides: list[Side], rounds: int) -> Iterator[Figure]:
    """Measure heartbeats of all members at once, in turn with the other broker."""

    async def measure() -> list[list[float]]:
        cells = [Heartbeats(side) for side in sides]
        for cell in cells:
            await cell.connect()
        costs = [[await cell.cost_us() for cell in cells] for _ in range(rounds)]
        return [list(one) for one in zip(*costs, strict=True)]

    ours, kafka = map(statistics.median, asyncio.run(measure()))
    yield Figure(f"heartbeat, {CONNECTIONS} connections", "us CPU", ours, kafka)


# --- rebalances -----------------------------------------------------------------------------------


class Rebalances:
    """A group whose last member leaves and rejoins; members share some connections."""

    def __init__(self, side: Side, size: int) -> None:
        self._side, self.size = side, size
        self._group = f"rebalanced-{size}"
        self._clients = [load.connect(side) for _ in range(min(CONNECTIONS, size))]
        self._known: dict[int, tuple[int, list[int]]] = {}
        self._last = size - 1
        for number in range(size):
            self._join(number)
        self._reconcile()

    def cycle(self) -> None:
        """Do two rebalances: the last member leaves and joins."""
        leave = beat(self._group, self._name(self._last), -1)
        answer = self._side.client.ask(leave)
        assert not answer.error_code, answer
        del self._known[self._last]
        self._reconcile()
        self._join(self._last)
        self._reconcile()

    def cost(self) -> tuple[float, float]:
        """Return CPU per member in us, and duration in ms, of one rebalance."""
        cycles = CYCLES[self.size]
        cpu, started = self._side.cpu_seconds(), time.perf_counter()
        for _ in range(cycles):
            self.cycle()
        cpu_us = (self._side.cpu_seconds() - cpu) * 1e6 / (2 * cycles * self.size)
        return cpu_us, (time.perf_counter() - started) * 1000 / (2 * cycles)

    def _name(self, number: int) -> str:
        return f"{_MEMBER}-{number}"

    def _join(self, number: int) -> None:
        answer = joined(self._side.client, join(self._group, self._name(number), TOPIC))
        self._known[number] = 0, []
        self._learn(number, answer)

    def _learn(self, number: int, answer: Any) -> None:
        assert not answer.error_code, answer
        owned = self._known[number][1]
        if answer.assignment is not None:
            owned = [one for each in answer.assignment.topic_partitions for one in each.partitions]
        self._known[number] = answer.member_epoch, owned

    def _reconcile(self) -> None:
        """Send heartbeats of all members until all partitions are owned at one epoch."""
        topic_id = self._side.topic_ids[TOPIC]
        for _ in range(100):
            numbers = list(self._known)
            # To use all connections at once, send one request on each connection before reading
            # the responses.
            for start in range(0, len(numbers), len(self._clients)):
                some = list(zip(numbers[start:], self._clients, strict=False))
                for number, client in some:
                    epoch, owned = self._known[number]
                    listed = [OwnedTopicPartitions(topic_id=topic_id, partitions=owned)]
                    name = self._name(number)
                    client.send(
                        beat(self._group, name, epoch, topic_partitions=listed if owned else [])
                    )
                for number, client in some:
                    self._learn(number, client.receive())
            epochs = {epoch for epoch, _ in self._known.values()}
            if len(epochs) == 1 and sum(len(one) for _, one in self._known.values()) == PARTITIONS:
                return
        raise AssertionError("not reconciled")


def rebalances(sides: list[Side], rounds: int, size: int) -> Iterator[Figure]:
    """Measure rebalances in which one member leaves or joins a group of this size."""
    cells = [Rebalances(side, size) for side in sides]
    for cell in cells:
        for _ in range(WARM_UP_CYCLES[size]):
            cell.cycle()
    costs = [[cell.cost() for cell in cells] for _ in range(rounds)]
    what = f"rebalance of {size} members, {PARTITIONS} partitions"
    for place, unit in enumerate(("us CPU a member", "ms")):
        ours, kafka = (statistics.median(one[side][place] for one in costs) for side in (0, 1))
        yield Figure(what, unit, ours, kafka)


# --- share groups ---------------------------------------------------------------------------------


class Shared:
    """A share group with one member that fetches and accepts records."""

    GROUP = "shared"

    def __init__(self, side: Side) -> None:
        self._side = side
        self._topic_id = side.topic_ids[RECORDS_TOPIC]
        earliest = AlterableConfig(
            name="share.auto.offset.reset", config_operation=0, value="earliest"
        )
        resource = AlterConfigsResource(
            resource_type=32, resource_name=self.GROUP, configs=[earliest]
        )
        side.client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        # Kafka creates __share_group_state on the first FindCoordinator of a share partition.
        key = f"{self.GROUP}:{uuid_to_text(self._topic_id)}:0"
        find = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        wait_for(
            lambda: not side.client.ask(find).coordinators[0].error_code,
            "the share coordinator is there",
        )
        request = ShareGroupHeartbeatRequest(
            group_id=self.GROUP, member_id=_MEMBER, subscribed_topic_names=[RECORDS_TOPIC]
        )
        joined(side.client, request)
        self._client = load.connect(side)
        self._epochs = count()
        now_ms = time.time_ns() // 1_000_000
        records = [Record(one, now_ms, None, bytes(RECORD_BYTES)) for one in range(BATCH)]
        self._batch = build_batch(records).to_bytes()
        self.run(1)

    def run(self, batches: int) -> float:
        """Produce batches and return the broker's CPU in ms per 1000 records read."""
        self._produce(batches)
        cpu = self._side.cpu_seconds()
        self._read(batches)
        return (self._side.cpu_seconds() - cpu) * 1000 / (batches * BATCH / 1000)

    def _produce(self, batches: int) -> None:
        data = PartitionProduceData(index=0, records=self._batch)
        topic = TopicProduceData(name=RECORDS_TOPIC, partition_data=[data])
        request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic])
        for _ in range(batches):
            answer = self._side.client.ask(request, load.PRODUCE_VERSION)
            assert not answer.responses[0].partition_responses[0].error_code, answer

    def _read(self, batches: int) -> None:
        """Fetch and accept this number of batches."""
        left = batches * BATCH
        end = time.monotonic() + PATIENCE_SECONDS
        while left:
            acquired = self._fetch()
            if acquired:
                self._accept(acquired)
                left -= sum(last - first + 1 for first, last in acquired)
            assert time.monotonic() < end, f"{left} records are not delivered"

    def _fetch(self) -> list[tuple[int, int]]:
        epoch = next(self._epochs)
        partition = ShareFetchPartition(partition_index=0, acknowledgement_batches=[])
        topic = ShareFetchTopic(topic_id=self._topic_id, partitions=[partition])
        request = ShareFetchRequest(
            group_id=self.GROUP,
            member_id=_MEMBER,
            share_session_epoch=epoch,
            max_wait_ms=200,
            min_bytes=1,
            max_records=BATCH,
            batch_size=BATCH,
            topics=[] if epoch else [topic],
        )
        answer = self._client.ask(request)
        assert not answer.error_code, answer
        partitions = [each for one in answer.responses for each in one.partitions]
        # Kafka returns an error while it loads the state of the share partition, so wait.
        if any(one.error_code for one in partitions):
            time.sleep(0.1)
        return [
            (records.first_offset, records.last_offset)
            for one in partitions
            for records in one.acquired_records
        ]

    def _accept(self, acquired: list[tuple[int, int]]) -> None:
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[1])
            for first, last in acquired
        ]
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        request = ShareAcknowledgeRequest(
            group_id=self.GROUP,
            member_id=_MEMBER,
            share_session_epoch=next(self._epochs),
            topics=[AcknowledgeTopic(topic_id=self._topic_id, partitions=[partition])],
        )
        answer = self._client.ask(request)
        assert not answer.error_code, answer
        assert not answer.responses[0].partitions[0].error_code, answer


def shared(sides: list[Side], rounds: int) -> Iterator[Figure]:
    """Measure the records of a share group."""
    cells = [Shared(side) for side in sides]
    for cell in cells:
        cell.run(WARM_UP_BATCHES)
    costs = [[cell.run(BATCHES) for cell in cells] for _ in range(rounds)]
    ours, kafka = (statistics.median(one[side] for one in costs) for side in (0, 1))
    what = f"1 000 records fetched and accepted, {BATCH} at a time"
    yield Figure(what, "ms CPU", ours, kafka)


# --- memory ---------------------------------------------------------------------------------------


def memory(sides: list[Side]) -> Iterator[Figure]:
    """Measure the memory of groups with one member.

    Kafka's growth is its heap after a collection.
    """
    grown: list[float] = []
    totals: list[float] = []
    for side in sides:
        used = heap_mb if side.name == "Kafka" else resident_mb
        before = used(side.pid)
        for number in range(GROUPS):
            joined(side.client, join(f"many-{number}", _MEMBER, RECORDS_TOPIC))
        grown.append((used(side.pid) - before) * 2**20 / GROUPS)
        totals.append(resident_mb(side.pid))
    yield Figure(f"{GROUPS} consumer groups of one member", "bytes a group", *grown)
    yield Figure(f"{GROUPS} consumer groups of one member", "MB resident in all", *totals)


def heap_mb(pid: int) -> float:
    """Return the live heap of a JVM in MB, from jcmd's histogram."""
    command = ["jcmd", str(pid), "GC.class_histogram"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    total = next(line for line in text.splitlines() if line.startswith("Total"))
    return int(total.split()[2]) / 2**20


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as directory:
        data = f"{directory}/ours"
        kafka = Kafka(Path(directory), SETTINGS | KAFKA_SETTINGS, options=("-XX:+UseG1GC",))
        with Serve("--data-dir", data, "--log-level", "warning", *settings) as ours:
            try:
                kafka.start()
                host, _, port = kafka.bootstrap_servers.rpartition(":")
                sides = [
                    Side("ours", ours.address, ours.pid),
                    Side("Kafka", (host, int(port)), kafka.pid),
                ]
                print(f"| | | ours | Kafka {REFERENCE_VERSION} | Kafka / ours |")
                print("|---|---|---|---|---|")
                for figures in (
                    heartbeats(sides, rounds),
                    *(rebalances(sides, rounds, size) for size in SIZES),
                    memory(sides),
                    shared(sides, rounds),
                ):
                    for figure in figures:
                        print(figure, flush=True)
            finally:
                kafka.end()


if __name__ == "__main__":
    main()
