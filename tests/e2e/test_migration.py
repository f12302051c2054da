"""`promote` and `import` copy everything between two of our brokers, even if interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from kafka.structs import OffsetAndMetadata

from tests.e2e.migrations import command, run
from tests.groups import groups_of
from tests.support import ROOT, Broker, wait_for

SETTINGS = {"offsets.topic.num.partitions": "2"}
RECORDS = 3000
PARTITIONS = 3

Contents = dict[int, list[tuple[Any, ...]]]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of a source and a target."""
    with (
        Broker(SETTINGS, data_dir=tmp_path / "a") as source,
        Broker(SETTINGS, data_dir=tmp_path / "b") as target,
    ):
        yield source.bootstrap_servers, target.bootstrap_servers


def fill(bootstrap: str, records: int = RECORDS) -> None:
    """Create topics with many kinds of records, and groups, one of which is far behind."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    configs = {"retention.ms": "-1", "segment.bytes": "2097152"}
    admin.create_topics(
        {
            "orders": {
                "num_partitions": PARTITIONS,
                "replication_factor": 1,
                "configs": configs,
            },
            "empty": {"num_partitions": 2, "replication_factor": 1},
        },
        wait_for_metadata=True,
    )
    for codec in ("none", "zstd"):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "compression.codec": codec, "linger.ms": 10}
        )
        for number in range(records // 2):
            producer.produce(
                "orders",
                key=b"key %d" % number if number % 3 else None,
                value=b"value %d " % number * (number % 40) if number % 7 else None,
                headers=[("trace", b"%d" % number), ("", b"")] if number % 5 == 0 else None,
                partition=number % PARTITIONS,
                timestamp=1_600_000_000_000 + number,
            )
        assert producer.flush(30) == 0
    commit(admin, "readers", {0: (40, "here"), 1: (0, ""), 2: (records // PARTITIONS, "all read")})
    commit(admin, "others", {1: (7, "héllo")})
    admin.close()


def commit(admin: Any, group: str, offsets: dict[int, tuple[int, str]]) -> None:
    """Commit offsets and metadata by partition for a group without members."""
    places = {
        kafka.TopicPartition("orders", partition): OffsetAndMetadata(offset, metadata, -1)
        for partition, (offset, metadata) in offsets.items()
    }
    admin.alter_group_offsets(group, places)


def contents(bootstrap: str, topic: str = "orders") -> Contents:
    """Return all records of a topic, with their offsets, by partition."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    places = [
        kafka.TopicPartition(topic, number)
        for number in sorted(consumer.partitions_for_topic(topic) or ())
    ]
    consumer.assign(places)
    ends = consumer.end_offsets(places)
    found: Contents = {place.partition: [] for place in places}

    def complete() -> bool:
        for records in consumer.poll(100).values():
            for one in records:
                row = (one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
                found[one.partition].append(row)
        return all(consumer.position(place) >= ends[place] for place in places)

    wait_for(complete, "all records are read")
    consumer.close()
    return found


def assert_same(source: str, target: str) -> None:
    """Check that records, topics, configs and committed offsets are equal."""
    assert contents(target) == contents(source)
    admins = [kafka.KafkaAdminClient(bootstrap_servers=one) for one in (source, target)]
    resource = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, "orders")
    told = [
        {
            name: one["value"]
            for name, one in admin.describe_configs([resource])["topic"]["orders"].items()
        }
        for admin in admins
    ]
    assert told[0] == told[1]
    assert told[0]["retention.ms"] == "-1"
    topics = [{one for one in admin.list_topics() if one[:2] != "__"} for admin in admins]
    assert topics[0] == topics[1]
    for admin in admins:
        admin.close()
    assert groups_of(target) == groups_of(source)


def test_promote_moves_everything_and_back(brokers: tuple[str, str]) -> None:
    """`promote` copies topics, configs, records and committed offsets; a second run adds nothing.

    The records have keys, headers, timestamps and null values.
    """
    source, target = brokers
    fill(source)
    done = run("promote", "--from", source, "--to", target)
    assert done.returncode == 0, done.stderr
    assert f"2 topics, {RECORDS} records copied, 0 were there, 4 committed offsets" in done.stdout
    assert_same(source, target)
    again = run("import", "--from", source, "--to", target)
    assert again.returncode == 0, again.stderr
    assert f"0 records copied, {RECORDS} were there" in again.stdout
    assert_same(source, target)


def test_what_came_meanwhile_follows(brokers: tuple[str, str]) -> None:
    """A later run copies newer records, and keeps a higher committed offset in the target."""
    source, target = brokers
    fill(source, 300)
    assert run("promote", "--from", source, "--to", target, "--topic", "orders").returncode == 0
    admin = kafka.KafkaAdminClient(bootstrap_servers=target)
    commit(admin, "others", {1: (90, "the new consumer")})
    assert "empty" not in admin.list_topics()
    admin.close()
    producer = confluent_kafka.Producer({"bootstrap.servers": source})
    producer.produce("orders", value=b"late", partition=2)
    producer.flush(10)
    done = run("promote", "--from", source, "--to", target, "--topic", "orders")
    assert done.returncode == 0, done.stderr
    assert "1 records copied, 300 were there, 3 committed offsets, 1 were further on" in done.stdout
    assert contents(target) == contents(source)
    moved = groups_of(target)["others"]["offsets"]["orders-1"]
    assert (moved["offset"], moved["metadata"]) == (90, "the new consumer")


def total(contents_: Contents) -> int:
    """Return the number of records."""
    return sum(map(len, contents_.values()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.real_time
def test_an_interrupted_run_goes_on_without_duplicates(
    brokers: tuple[str, str], number: signal.Signals
) -> None:
    """A run that was killed while copying can be repeated, and duplicates nothing."""
    source, target = brokers
    fill(source, 15_000)
    process = subprocess.Popen(
        command("promote", "--from", source, "--to", target),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    admin = kafka.KafkaAdminClient(bootstrap_servers=target)
    place = kafka.TopicPartition("orders", 1)

    def begun() -> bool:
        if "orders" not in admin.list_topics():
            return False
        latest = admin.list_partition_offsets({place: kafka.admin.OffsetSpec.LATEST})
        return int(latest[place].offset) > 100

    wait_for(begun, "the second partition is being copied", 60)
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    admin.close()
    assert process.returncode in (-signal.SIGKILL, 130), error
    before = total(contents(target))
    assert 0 < before < 15_000
    done = run("promote", "--from", source, "--to", target)
    assert done.returncode == 0, done.stderr
    assert f"{15_000 - before} records copied, {before} were there" in done.stdout
    assert_same(source, target)


def test_a_target_that_others_write_to_is_refused(brokers: tuple[str, str]) -> None:
    """Foreign records or a different partition count in the target stop a run with one line."""
    source, target = brokers
    fill(source, 60)
    admin = kafka.KafkaAdminClient(bootstrap_servers=target)
    topics = {
        name: {"num_partitions": count, "replication_factor": 1}
        for name, count in (("orders", PARTITIONS), ("empty", 9))
    }
    admin.create_topics(topics, wait_for_metadata=True)
    admin.close()
    producer = confluent_kafka.Producer({"bootstrap.servers": target})
    producer.produce("orders", value=b"foreign", partition=0)
    producer.flush(10)
    done = run("promote", "--from", source, "--to", target, "--topic", "orders")
    assert done.returncode == 1
    assert "orders-0: offset 0 of the target is not the record at 0" in done.stderr
    done = run("promote", "--from", source, "--to", target)
    assert done.returncode == 1
    assert "empty has 2 partitions, and 9 on" in done.stderr
    assert run("promote", "--from", source, "--to", target, "--topic", "none").returncode == 1
