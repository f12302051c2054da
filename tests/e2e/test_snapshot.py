"""`snapshot` and `restore` of a broker under load lose nothing that was acknowledged before."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import kafka
import pytest
from kafka.structs import OffsetAndMetadata

from tests import forked
from tests.groups import groups_of
from tests.support import Broker, wait_for

PARTITIONS = 3
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "log.cleaner.backoff.ms": "50",
    "log.retention.check.interval.ms": "100",
}


class Load(threading.Thread):
    """Produces and commits without a pause, and remembers the acknowledged requests."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.stopping = threading.Event()
        self.produced: dict[int, int] = {}
        self.committed = -1
        self.error: BaseException | None = None

    def run(self) -> None:
        """Keep the broker busy."""
        try:
            self._run()
        except BaseException as error:
            self.error = error
            raise

    def _run(self) -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=2)
        admin = kafka.KafkaAdminClient(bootstrap_servers=self.bootstrap)
        number = 0
        while not self.stopping.is_set():
            futures = []
            for _ in range(60):
                partition = number % PARTITIONS
                value, key = b"%d" % number, b"k%d" % (number % 20)
                futures.append(producer.send("events", value=value, partition=partition))
                producer.send("table", value=value * 200, key=key, partition=0)
                number += 1
            producer.flush()
            for future in futures:
                metadata = future.get(10)
                self.produced[metadata.partition] = metadata.offset
            offset = min(self.produced.values())
            place = kafka.TopicPartition("events", 0)
            admin.alter_group_offsets("readers", {place: OffsetAndMetadata(offset, "m", -1)})
            self.committed = offset
            # A snapshot must cope with directories that appear and disappear meanwhile.
            if number % 300 == 0:
                admin.create_topics({"passing": {"num_partitions": 2, "replication_factor": 1}})
                producer.send("passing", value=b"x", partition=0).get(10)
                admin.delete_topics(["passing"])
        producer.close()
        admin.close()


def tool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one of our commands in a new process."""
    command = [sys.executable, "-m", "coordinator_server", *map(str, arguments)]
    return forked.run(command)


def read_all(bootstrap: str) -> dict[int, list[tuple[int, bytes]]]:
    """Return offsets and values of `events` by partition."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    places = [kafka.TopicPartition("events", number) for number in range(PARTITIONS)]
    consumer.assign(places)
    ends = consumer.end_offsets(places)
    found: dict[int, list[tuple[int, bytes]]] = {number: [] for number in range(PARTITIONS)}

    def complete() -> bool:
        for records in consumer.poll(100).values():
            for record in records:
                found[record.partition].append((record.offset, record.value))
        return all(len(found[place.partition]) >= ends[place] for place in places)

    wait_for(complete, "all records are read")
    consumer.close()
    return found


@pytest.mark.real_time
def test_a_snapshot_under_load_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    """Each snapshot of a busy broker restores all writes acknowledged before it began.

    Compaction runs, and topics are created and deleted, during the snapshots.
    """
    data = tmp_path / "data"
    with Broker(SETTINGS, data_dir=data) as broker:
        admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        small = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
        configs = {"cleanup.policy": "compact", **small}
        admin.create_topics(
            {
                "events": {"num_partitions": PARTITIONS, "replication_factor": 1},
                "table": {"num_partitions": 1, "replication_factor": 1, "configs": configs},
            },
            wait_for_metadata=True,
        )
        load = Load(broker.bootstrap_servers)
        load.start()
        wait_for(lambda: load.committed > 200 or load.error, "some load", 60)
        known: list[tuple[dict[int, int], int]] = []
        for number in range(3):
            known.append((dict(load.produced), load.committed))
            taken = tool("snapshot", "--data-dir", data, tmp_path / f"snapshot-{number}")
            assert taken.returncode == 0, taken.stderr
            time.sleep(0.2)  # keep the load running for a while before the next snapshot
        load.stopping.set()
        load.join(30)
        assert load.error is None
        admin.close()
    for number, (produced, committed) in enumerate(known):
        directory = tmp_path / f"restored-{number}"
        done = tool("restore", tmp_path / f"snapshot-{number}", "--data-dir", directory)
        assert done.returncode == 0, done.stderr
        assert_complete(directory, produced, committed)


def assert_complete(directory: Path, produced: dict[int, int], committed: int) -> None:
    """Check that a broker on the directory has all acknowledged records, and valid commits."""
    with Broker(SETTINGS, data_dir=directory) as broker:
        records = read_all(broker.bootstrap_servers)
        offset = groups_of(broker.bootstrap_servers)["readers"]["offsets"]["events-0"]["offset"]
        assert "log.recovered" not in broker.log
    for partition, last_offset in produced.items():
        assert [one[0] for one in records[partition]] == list(range(len(records[partition])))
        assert len(records[partition]) > last_offset
        numbers = [int(value) for _, value in records[partition]]
        assert numbers == [PARTITIONS * one + partition for one in range(len(numbers))]
    assert committed <= offset <= len(records[0])
