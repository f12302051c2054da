"""Kafka's DumpLogSegments and a real Kafka broker read the files of our broker.

Clients use our broker with every codec, an idempotent producer, batches near the limit, enough data
to roll segments, compaction of a topic and of the offsets log, and groups of all kinds. Then the
broker is stopped, and Kafka reads its files.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from kafka.structs import OffsetAndMetadata

from coordinator_server.cli import main
from coordinator_server.tools.verify_log import LogVerification
from tests.groups import Groups, groups_of
from tests.known_topics import know_topics
from tests.oracle.kafka_process import Kafka, dump_log_segments, jars
from tests.support import Broker, wait_for
from tests.unit.tools.facts import BATCH_FACTS, FACT

OFFSETS_PARTITIONS = 4
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "500",
}
# So many commits that the offsets log is compacted, which requires 1 MiB of uncompacted data.
COMMIT_PARTITIONS = 500
COMMIT_ROUNDS = 45


def produce(bootstrap: str) -> None:
    """Produce with all codecs, sizes up to nearly the limit, keys, headers and idempotence."""
    noise = random.Random(1)
    for number, codec in enumerate(CODECS):
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.codec": codec,
                "enable.idempotence": bool(number % 2),
                "linger.ms": 20,
                "message.max.bytes": 1_000_000,
            }
        )
        for one in range(400):
            producer.produce(
                "mixed",
                value=b"%d " % one * (one + 1),
                key=b"k%d" % (one % 50) if one % 3 else None,
                headers=[("codec", codec), ("none", None)],
                partition=one % 2,
            )
        producer.produce("mixed", value=bytes(range(256)) * 3800, partition=0)
        for one in range(300):
            value = noise.randbytes(3000)  # incompressible
            producer.produce("compacted", value=value, key=b"k%d" % (one % 7))
            if one % 30 == 0:
                producer.flush()
        producer.produce("compacted", value=None, key=b"k%d" % number)
        assert producer.flush(30) == 0


def commit_often(bootstrap: str) -> None:
    """Commit so many offsets that compaction at the next start removes some of them."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    partitions = [kafka.TopicPartition("wide", number) for number in range(COMMIT_PARTITIONS)]
    for number in range(COMMIT_ROUNDS):
        offsets = {one: OffsetAndMetadata(number, f"round {number}", -1) for one in partitions}
        admin.alter_group_offsets("busy", offsets)
    admin.close()


def commit(bootstrap: str) -> kafka.KafkaConsumer:
    """Create groups of all kinds; return a static member that stays during the stop."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    simple = {
        kafka.TopicPartition("mixed", 0): OffsetAndMetadata(3, "héllo 日本 \U0001f600", 0),
        kafka.TopicPartition("mixed", 1): OffsetAndMetadata(2, "", -1),
    }
    for group in ("simple", "trimmed", "deleted"):
        admin.alter_group_offsets(group, simple)
    admin.delete_group_offsets("trimmed", [kafka.TopicPartition("mixed", 0)])
    admin.delete_groups(["deleted"])
    admin.close()
    gone = consumer(bootstrap, "gone", None)
    gone.commit()
    gone.close()
    return consumer(bootstrap, "static", "instance-1")


def consumer(bootstrap: str, group: str, instance: str | None) -> kafka.KafkaConsumer:
    """Return a member that has its partitions and has read something."""
    member = kafka.KafkaConsumer(
        "mixed",
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        check_crcs=False,
        max_partition_fetch_bytes=100,
        max_poll_records=1,
        session_timeout_ms=45_000,
    )
    know_topics(member)
    wait_for(lambda: member.poll(2000) or member.assignment(), f"{group} has partitions")
    return member


def log_bytes(data: Path, topic: str) -> int:
    """Return the size of all logs of a topic."""
    return sum(path.stat().st_size for path in data.glob(f"{topic}-*/*.log"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Groups]:
    """The data directory of a stopped broker of ours, and its groups."""
    jars()  # download now, so that the time is not charged to the tests below
    data = tmp_path_factory.mktemp("ours") / "data"
    with Broker(SETTINGS, data_dir=data) as broker:
        admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        rolling = {"segment.bytes": "1048576"}
        compacting = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        topics = {
            "mixed": {"num_partitions": 2, "replication_factor": 1, "configs": rolling},
            "compacted": {
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": {**rolling, **compacting},
            },
            "wide": {"num_partitions": COMMIT_PARTITIONS, "replication_factor": 1},
        }
        admin.create_topics(topics, wait_for_metadata=True)
        admin.close()
        produce(broker.bootstrap_servers)
        commit_often(broker.bootstrap_servers)
        broker.stop()
    assert log_bytes(data, "__consumer_offsets") > 900_000
    # Our broker compacts its internal logs when it starts.
    with Broker(SETTINGS, data_dir=data) as broker:
        static = commit(broker.bootstrap_servers)
        groups = groups_of(broker.bootstrap_servers)
        wait_for(lambda: log_bytes(data, "compacted") < 2_000_000, "the topic is compacted")
        wait_for(lambda: log_bytes(data, "__consumer_offsets") < 900_000, "so is the offsets log")
        broker.stop()
        static.close(autocommit=False, timeout_ms=0)
    return data, groups


def files_of(data: Path, pattern: str) -> list[Path]:
    """Return the non-empty logs, indexes and snapshots that match a pattern."""
    suffixes = (".log", ".index", ".timeindex", ".snapshot")
    found = sorted(path for path in data.glob(f"{pattern}/*") if path.suffix in suffixes)
    return [path for path in found if path.stat().st_size]


def our_batches(files: list[Path], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the batches of logs from our own dump."""
    assert main(["dump-log", "--json", "--headers", *map(str, files)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_kafka_accepts_every_segment(
    written: tuple[Path, Groups], capsys: pytest.CaptureFixture[str]
) -> None:
    """DumpLogSegments finds no fault, and prints the same facts about every batch as our dump.

    DumpLogSegments reads logs, indexes and snapshots, and opens every record.
    """
    data, groups = written
    assert LogVerification(data).run().errors == []
    assert len(list(data.glob("mixed-0/*.log"))) > 2, "rolled"
    # How often the offsets log was compacted varies, but at least one batch per group must be
    # left.
    for pattern, options, least in (
        ("[!_]*-*", [], 11),
        ("__consumer_offsets-*", ["--offsets-decoder"], len(groups)),
    ):
        files = files_of(data, pattern)
        shown = dump_log_segments(files, "--deep-iteration", *options)
        theirs = [
            dict(FACT.findall(line))
            for line in shown.splitlines()
            if line.startswith("baseOffset: ")
        ]
        logs = [path for path in files if path.suffix == ".log"]
        ours = our_batches(logs, capsys)
        assert len(ours) == len(theirs) >= least
        for our, their in zip(ours, theirs, strict=True):
            assert their["isvalid"] == "true"
            facts = {name: str(our[ours_]).lower() for name, ours_ in BATCH_FACTS.items()}
            assert facts == {name: their[name] for name in BATCH_FACTS}


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Kafka]:
    """A Kafka that has not been started."""
    settings = {"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS)}
    broker = Kafka(tmp_path, settings)
    try:
        yield broker
    finally:
        broker.end()


@pytest.mark.nightly
@pytest.mark.real_time
def test_kafka_boots_on_our_offsets_log(written: tuple[Path, Groups], real: Kafka) -> None:
    """Kafka loads the same groups, members and offsets from our `__consumer_offsets`.

    Kafka's directory has only our logs, without indexes or checkpoints.
    """
    data, groups = written
    real.start()
    admin = kafka.KafkaAdminClient(bootstrap_servers=real.bootstrap_servers)
    topic = {
        "num_partitions": OFFSETS_PARTITIONS,
        "replication_factor": 1,
        "configs": {"cleanup.policy": "compact"},
    }
    admin.create_topics({"__consumer_offsets": topic}, wait_for_metadata=True)
    directories = [real.data / f"__consumer_offsets-{one}" for one in range(OFFSETS_PARTITIONS)]
    wait_for(lambda: all((one / "partition.metadata").exists() for one in directories), "made")
    admin.close()
    real.stop()
    for directory in directories:
        for path in directory.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for log in (data / directory.name).glob("*.log"):
            shutil.copy(log, directory)
    for path in (*real.data.glob("*checkpoint"), real.data / ".kafka_cleanshutdown"):
        path.unlink()
    real.start()
    assert set(groups) == {"busy", "simple", "trimmed", "gone", "static"}
    wait_for(lambda: loaded(real.bootstrap_servers) == groups, "the same groups", 120, 0.5)
    real.stop()


def loaded(bootstrap: str) -> Groups | None:
    """Return Kafka's groups, or None while it is loading."""
    try:
        return groups_of(bootstrap)
    except kafka.errors.KafkaError:
        return None
