"""Kill the broker repeatedly at random moments under load, and check it after every restart.

    python -m tests.faults.kills --kills 1000 --seed 1

After each restart every acknowledged commit and record exists, the broker has no record that was
never sent, and every group makes progress. The run uses 127.0.0.1 only and ends by itself.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.batch import iterate_records
from protocol.batch_header import iterate_batches
from protocol.errors import ErrorCode
from tests.faults.client import Client
from tests.faults.workers import PARTITIONS, TOPIC, Committer, Member, Producer, Worker
from tests.support import Broker, wait_for

COMMITTERS = 6
GROUPS = 2
MEMBERS = 2
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "log.segment.bytes": "1048576",
    "offsets.topic.segment.bytes": "1048576",
    "offsets.topic.num.partitions": "8",
}
PROGRESS_SECONDS = 30.0
RECORDS_CHECKED = 2000  # records to read in each partition after each kill


class Load(Protocol):
    """A source of load: a `Worker`, or a class with the same methods."""

    name: str
    acknowledged: int
    failure: BaseException | None

    def start(self) -> None:
        """Start the load."""

    def finish(self) -> None:
        """Request the end of the load."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until the load has ended."""


class KilledBroker(ABC):
    """A broker on one data directory, its load, and the checks after each kill."""

    def __init__(self, directory: str, seed: int) -> None:
        self._random = random.Random(seed)
        self._broker = Broker(SETTINGS, data_dir=directory)
        self._broker.start()
        self._address = self._broker.address
        self._create_topic()
        self._make_workers()
        for worker in self._workers():
            worker.start()

    @abstractmethod
    def _make_workers(self) -> None:
        """Create the workers that keep the broker busy."""

    @abstractmethod
    def _workers(self) -> Sequence[Load]:
        """Return all workers."""

    @abstractmethod
    def _expectation(self) -> Callable[[], None]:
        """Record the acknowledged requests while the broker is down; return a check of them."""

    def kill_and_check(self) -> None:
        """Run one round: load, kill -9 at a random moment, restart, check."""
        time.sleep(self._random.uniform(0.0, 0.25))
        self._broker.kill()
        before = [(worker, worker.acknowledged) for worker in self._workers()]
        check = self._expectation()
        self._broker.start()
        check()
        for worker, acknowledged in before:
            self._wait_for_progress(worker, acknowledged)

    @property
    def logs_cut(self) -> int:
        """Return the number of logs with a torn end that a restart truncated."""
        return len(self._broker.log_lines("log.recovered"))

    def _wait_for_progress(self, worker: Load, acknowledged: int) -> None:
        """Check that no group or partition is stuck: the worker makes progress."""
        wait_for(
            lambda: worker.acknowledged > acknowledged or worker.failure,
            f"{worker.name} gets on after the restart\n{self._broker.log}",
            PROGRESS_SECONDS,
        )
        if worker.failure is not None:
            raise worker.failure

    def close(self) -> None:
        """End the load, then the broker."""
        for worker in self._workers():
            worker.finish()
        for worker in self._workers():
            worker.join(30)
        self._broker.stop()

    def _stored(self, producers: Sequence[Producer]) -> set[tuple[int, int]]:
        """Stop the producers and return (partition, offset) of all their acknowledged records."""
        for producer in producers:
            producer.finish()
            producer.join(30)
        return {(one.partition, at) for one in producers for at in one.offset_of.values()}

    def _where(self) -> tuple[str, int]:
        return self._address

    def _create_topic(self) -> None:
        client = Client(self._address)
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        self.topic_id: bytes = answer.topics[0].topic_id
        client.close()

    def _committed(self, client: Client, group: str) -> list[int]:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(PARTITIONS)))]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)]
        )
        for _ in range(2000):
            answer = client.ask(request).groups[0]
            if answer.error_code == ErrorCode.NONE:
                return [one.committed_offset for one in answer.topics[0].partitions]
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert answer.error_code == loading, f"{answer}\n{self._broker.log}"
            time.sleep(0.005)
        raise AssertionError(f"{group} is loading for ever")


class Kills(KilledBroker):
    """Kills a broker with classic groups, standalone commits and records."""

    def _make_workers(self) -> None:
        self.committers = [Committer(self._where, f"commits-{n}") for n in range(COMMITTERS)]
        self.members = [
            Member(self._where, f"members-{group}", number)
            for group in range(GROUPS)
            for number in range(MEMBERS)
        ]
        self.producers = [Producer(self._where, index) for index in range(PARTITIONS)]

    def _expectation(self) -> Callable[[], None]:
        acknowledged = {worker.name: worker.acknowledged for worker in self.committers}
        stored = [dict(producer.offset_of) for producer in self.producers]

        def check() -> None:
            self._check_commits(acknowledged)
            self._check_records(stored)

        return check

    def _workers(self) -> list[Worker]:
        return [*self.committers, *self.members, *self.producers]

    def _check_commits(self, acknowledged: dict[str, int]) -> None:
        """Check that committed offsets are not below acknowledged and not above sent offsets."""
        client = Client(self._address)
        for worker in self.committers:
            for offset in self._committed(client, worker.group):
                assert acknowledged[worker.name] <= offset <= worker.sent, (worker.name, offset)
        for group in range(GROUPS):
            name = f"members-{group}"
            committed = self._committed(client, name)
            sent = max(one.sent for one in self.members if one.group == name)
            assert all(-1 <= offset <= sent for offset in committed), (name, committed, sent)
        client.close()

    def _check_records(self, stored: list[dict[int, int]]) -> None:
        """Check that acknowledged records are at their offsets, and values are in order."""
        client = Client(self._address)
        for producer, offset_of in zip(self.producers, stored, strict=True):
            if not offset_of:
                continue
            start = max(min(offset_of.values()), max(offset_of.values()) - RECORDS_CHECKED)
            found = self._values(client, producer.partition, start, max(offset_of.values()))
            for value, offset in offset_of.items():
                if offset >= start:
                    assert found.get(offset) == value, (producer.name, value, offset)
                else:
                    producer.offset_of.pop(value)  # earlier rounds have checked these records
            assert list(found.values()) == sorted(found.values())
        client.close()

    def _values(self, client: Client, partition: int, start: int, last: int) -> dict[int, int]:
        """Return the values of a partition by offset, from `start` to `last`."""
        found: dict[int, int] = {}
        while start <= last:
            one = FetchPartition(
                partition=partition, fetch_offset=start, partition_max_bytes=1 << 20
            )
            request = FetchRequest(
                max_wait_ms=100, topics=[FetchTopic(topic=TOPIC, partitions=[one])]
            )
            data = client.ask(request, 12).responses[0].partitions[0]
            assert data.error_code == ErrorCode.NONE, data
            for header in iterate_batches(data.records):
                for record in iterate_records(data.records, header):
                    assert record.value is not None
                    found[record.offset] = int(record.value)
                start = header.next_offset
        return {offset: value for offset, value in found.items() if offset <= last}


def main() -> int:
    """Run the command line; the first violation ends the run with a traceback."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        kills = Kills(directory, options.seed)
        started = time.monotonic()
        try:
            for number in range(1, options.kills + 1):
                kills.kill_and_check()
                if number % 25 == 0:
                    commits = sum(one.acknowledged + 1 for one in kills.committers)
                    records = sum(one.acknowledged + 1 for one in kills.producers)
                    seconds = time.monotonic() - started
                    print(
                        f"{number} kills, {commits} commits and {records} records acknowledged, "
                        f"{kills.logs_cut} logs cut, {seconds:.0f} s",
                        flush=True,
                    )
        finally:
            kills.close()
    print(f"{options.kills} kills, nothing acknowledged is missing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
