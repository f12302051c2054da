"""`__share_group_state` is interchangeable between our broker and Kafka.

The same requests to a Kafka and to our broker, which uses Kafka's topic ids, write the same state
records. Kafka's dump tool reads our log. A Kafka continues with our log, and our broker with
Kafka's log.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from coordinator_server.core.share_partitions.persister import StateBatch
from coordinator_server.core.share_state.batches import combine_batches
from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.find_coordinator import FindCoordinatorRequest
from protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ErrorCode
from protocol.json_form import uuid_to_text
from tests.faults.client import Client
from tests.harness.share_states import (
    delete_request,
    initialize_request,
    read_request,
    summary_request,
    write_request,
)
from tests.oracle.kafka_process import Kafka, dump_log_segments, java
from tests.support import Broker, address_of, wait_for

pytestmark = pytest.mark.nightly

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "auto.create.topics.enable": "false",
}
PRUNING = {**SETTINGS, "share.coordinator.state.topic.prune.interval.ms": "1000"}
FIRST_NEEDED = 14
"""The offset of the oldest snapshot still needed after `use` and `go_on`."""
STATE = "__share_group_state-0"
SHARE = 2
EARLIEST = -2
TIMEOUT_SECONDS = 30
RETRIED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


class Leader:
    """The requests of a group coordinator, and of the leaders of the partitions of "t"."""

    def __init__(self, bootstrap: str) -> None:
        self._client = Client(address_of(bootstrap))
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        self.topic_id = self._client.ask(request).topics[0].topic_id

    def ask(self, request: Any, version: int = 0) -> list[Any]:
        """Return the results for the share partitions, once the coordinator is available."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while True:
            answers = [
                one
                for topic in self._client.ask(request, version).results
                for one in topic.partitions
            ]
            if time.monotonic() > end or not any(one.error_code in RETRIED for one in answers):
                return answers
            time.sleep(0.05)

    def find_coordinator(self) -> None:
        """Wait until a share coordinator is available."""
        key = f"g:{uuid_to_text(self.topic_id)}:0"
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=SHARE)
        end = time.monotonic() + TIMEOUT_SECONDS
        while self._client.ask(request, 6).coordinators[0].error_code:
            assert time.monotonic() < end
            time.sleep(0.05)

    def does(self, request: Any, version: int = 0) -> None:
        """Send a request, and check that no partition has an error."""
        (one,) = self.ask(request, version)
        assert not one.error_code, one.error_message

    def first_offset(self) -> int:
        """Return the log start offset of the partition of `__share_group_state`."""
        partition = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
        topic = ListOffsetsTopic(name="__share_group_state", partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        return int(self._client.ask(request, 7).topics[0].partitions[0].offset)

    def states(self) -> list[tuple[Any, ...]]:
        """Return the state of each share partition, without error messages."""
        found: list[tuple[Any, ...]] = []
        for group in ("g", "h"):
            for partition in range(4):
                read, summary = (
                    read_request(self.topic_id, partition, leader_epoch=-1, group=group),
                    summary_request(self.topic_id, partition, group=group),
                )
                (one,), (summed,) = self.ask(read), self.ask(summary, 1)
                found.append(
                    (
                        group,
                        partition,
                        one.error_code,
                        one.error_message,
                        one.state_epoch,
                        one.start_offset,
                        [
                            (b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
                            for b in one.state_batches
                        ],
                        summed.error_code,
                        summed.state_epoch,
                        summed.leader_epoch,
                        summed.start_offset,
                        summed.delivery_complete_count,
                    )
                )
        return found


def create_topic(bootstrap: str) -> None:
    """Create topic "t" with four partitions."""
    topic = CreatableTopic(name="t", num_partitions=4, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    assert Client(address_of(bootstrap)).ask(request).topics[0].error_code == 0


def use(leader: Leader) -> None:
    """Initialize, write, read, reinitialize and delete the state of share partitions."""
    leader.find_coordinator()
    t = leader.topic_id
    for partition in range(4):
        leader.does(initialize_request(t, partition, state_epoch=2))
        leader.does(read_request(t, partition, leader_epoch=partition))
    # The shard writes a snapshot after every three updates.
    for first in range(0, 100, 10):
        batches = [(first, first + 4, 2, 1), (first + 5, first + 9, 0, 1)]
        start = max(0, first - 20)
        leader.does(write_request(t, 0, *batches, start=start, complete=5, state_epoch=2), 1)
    # These writes have overlapping batches and no start offset: records are released, delivered
    # again and archived.
    leader.does(write_request(t, 1, (0, 19, 0, 1), start=0, leader_epoch=1, state_epoch=2), 1)
    leader.does(write_request(t, 1, (3, 9, 2, 2), leader_epoch=1, state_epoch=2), 1)
    leader.does(write_request(t, 1, (8, 12, 4, 3), (14, 14, 2, 1), leader_epoch=1, state_epoch=2))
    leader.does(read_request(t, 1, leader_epoch=5))
    (fenced,) = leader.ask(write_request(t, 1, (20, 29, 2, 1), leader_epoch=4, state_epoch=2), 1)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    # Altering the group's offsets increments the state epoch.
    leader.does(initialize_request(t, 2, state_epoch=3, start=50))
    leader.does(write_request(t, 2, (50, 51, 2, 1), start=50, leader_epoch=2, state_epoch=3), 1)
    (fenced,) = leader.ask(write_request(t, 2, leader_epoch=2, state_epoch=2), 1)
    assert fenced.error_code == ErrorCode.FENCED_STATE_EPOCH
    leader.does(delete_request(t, 3))
    leader.does(initialize_request(t, 0, group="h", state_epoch=7, start=0))


def records(data: Path) -> list[tuple[Any, ...]]:
    """Return the batches of the log without times."""
    found: list[tuple[Any, ...]] = []
    for path in sorted((data / STATE).glob("*.log")):
        contents = path.read_bytes()
        for header in iterate_batches(contents):
            for record in iterate_records(contents, header):
                value = record.value
                if value is not None and record.key is not None and record.key[:2] == b"\0\0":
                    # Cut out the two timestamps of a snapshot, which differ.
                    value = value[:22] + value[38:]
                found.append(
                    (
                        record.offset,
                        record.key,
                        value,
                        header.attributes,
                        header.producer_id,
                        header.producer_epoch,
                        header.base_sequence,
                        header.record_count,
                    )
                )
    return found


class Used(NamedTuple):
    """A stopped Kafka and our data directory after the same requests, and their states."""

    kafka: Kafka
    ours: Path
    states: list[tuple[Any, ...]]


def with_its_topic(kafka: Kafka, data: Path) -> Path:
    """Create a directory for our broker with a copy of Kafka's topic "t"."""
    for index in range(4):
        shutil.copytree(kafka.data / f"t-{index}", data / f"t-{index}")
    return data


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Used]:
    """Yield both brokers after the script; ours is killed, so that it loads its states."""
    settings = dict(SETTINGS)
    kafka = Kafka(tmp_path_factory.mktemp("theirs"), settings)
    try:
        kafka.start()
        create_topic(kafka.bootstrap_servers)
        leader = Leader(kafka.bootstrap_servers)
        use(leader)
        states = leader.states()
        kafka.stop()
        ours = with_its_topic(kafka, tmp_path_factory.mktemp("ours") / "data")
        with Broker(SETTINGS, data_dir=ours) as broker:
            use(Leader(broker.bootstrap_servers))
            broker.kill()
            broker.start()
            assert Leader(broker.bootstrap_servers).states() == states
            broker.stop()
        settings.update(PRUNING)
        yield Used(kafka, ours, states)
    finally:
        kafka.end()


def test_the_records_are_kafkas(used: Used) -> None:
    """The records are equal except for times, in batches of the same form."""
    theirs = records(used.kafka.data)
    assert len(theirs) == 25
    assert records(used.ours) == theirs


def test_kafkas_dump_tool_reads_ours(used: Used) -> None:
    """The tool prints the same about our log and Kafka's, and finds no fault in log and indexes."""
    shown = []
    for data in (used.ours, used.kafka.data):
        logs = sorted((data / STATE).glob("*.log"))
        told = dump_log_segments(logs, "--share-group-state-decoder")
        shown.append(re.findall(r"key: .*", re.sub(r'Timestamp":\d+', 'Timestamp":0', told)))
    assert len(shown[0]) == 25
    assert shown[0] == shown[1]
    files = [
        path
        for path in sorted((used.ours / STATE).iterdir())
        if path.suffix in (".log", ".index", ".timeindex") and path.stat().st_size
    ]
    dump_log_segments(files, "--deep-iteration")


def go_on(bootstrap: str, states: list[tuple[Any, ...]]) -> None:
    """Check that the states are unchanged, an old leader is fenced, and a new leader can write."""
    leader = Leader(bootstrap)
    assert leader.states() == states
    t = leader.topic_id
    (fenced,) = leader.ask(read_request(t, 1, leader_epoch=4))
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    leader.does(write_request(t, 1, (20, 24, 2, 1), leader_epoch=5, state_epoch=2), 1)
    leader.does(read_request(t, 1, leader_epoch=6))
    (one,) = leader.ask(read_request(t, 1, leader_epoch=6))
    assert one.state_batches[-1].last_offset == 24
    wait_for(lambda: leader.first_offset() == FIRST_NEEDED, "what is out of date is deleted")


def test_we_go_on_with_kafkas_share_partitions(used: Used, tmp_path: Path) -> None:
    """Our broker continues with a copy of Kafka's directory."""
    data = with_its_topic(used.kafka, tmp_path / "data")
    shutil.copytree(used.kafka.data / STATE, data / STATE)
    with Broker(PRUNING, data_dir=data) as broker:
        go_on(broker.bootstrap_servers, used.states)


def test_kafka_goes_on_with_our_share_partitions(used: Used) -> None:
    """Kafka continues with our log, and deletes outdated records like our broker."""
    directory = used.kafka.data / STATE
    for path in directory.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for log in (used.ours / STATE).glob("*.log"):
        shutil.copy(log, directory)
    for path in (*used.kafka.data.glob("*checkpoint"), used.kafka.data / ".kafka_cleanshutdown"):
        path.unlink(missing_ok=True)
    used.kafka.start()
    go_on(used.kafka.bootstrap_servers, used.states)
    used.kafka.stop()


def test_batches_are_combined_as_kafka_does() -> None:
    """On random cases, Kafka's own class splits and merges batches in the same way."""
    random = Random(932)
    cases = []
    for _ in range(20_000):
        batches: list[StateBatch] = []
        for _ in range(random.randrange(12)):
            first = random.randrange(40)
            last = first + random.randrange(random.choice((1, 3, 12)))
            batches.append(
                StateBatch(first, last, random.choice((0, 2, 4)), random.randrange(1, 3))
            )
        split = random.randrange(len(batches) + 1)
        cases.append((random.choice((-1, random.randrange(40))), batches[:split], batches[split:]))
    lines = [
        f"{start};{text_of(so_far)};{text_of(new)}\n".replace(" \n", "\n")
        for start, so_far, new in cases
    ]
    program = str(Path(__file__).with_name("CombineBatches.java"))
    done = subprocess.run(
        java(program), input="".join(lines), capture_output=True, text=True, check=True
    )
    theirs = done.stdout.splitlines()
    assert len(theirs) == len(cases)
    for (start, so_far, new), expected in zip(cases, theirs, strict=True):
        made = text_of(combine_batches(so_far, new, start))
        assert made == expected.strip(), (start, so_far, new)


def text_of(batches: Any) -> str:
    """Return batches in the form of the Java program."""
    return " ".join(",".join(map(str, batch)) for batch in batches)
