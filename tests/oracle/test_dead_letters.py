"""Java's KafkaShareConsumer and a dead letter queue: the same records are in it as with Kafka."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kafka
import pytest

from tests.clients.support import create_topic, set_group_configs
from tests.oracle.kafka_process import Kafka, java
from tests.oracle.test_share_consumer import SETTINGS, Member
from tests.support import Broker

pytestmark = pytest.mark.slow

GROUP, TOPIC = "queue", "jobs"
_SHARE_SETTINGS = {
    **SETTINGS,
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_VALUES = (b"accept 1", b"reject 2", b"release 3", b"reject 4", b"accept 5")
_DEAD = 3
_WHEN = re.compile(r"CreateTime:\d+\t|Offset:\d+\t")
"""While Kafka creates the queue, its dead letters overtake each other."""


@contextmanager
def broker_of(kind: str, directory: Path) -> Iterator[str]:
    """One broker, ours or Kafka's: its address."""
    if kind == "ours":
        with Broker(_SHARE_SETTINGS, data_dir=directory / "data") as broker:
            yield broker.bootstrap_servers
        return
    kafka_broker = Kafka(directory, _SHARE_SETTINGS)
    try:
        kafka_broker.start()
        yield kafka_broker.bootstrap_servers
    finally:
        kafka_broker.end()


def consumed(bootstrap: str, topic: str, count: int) -> list[str]:
    """What Java's console consumer prints of so many records, but for when they were written."""
    shown = ("timestamp", "partition", "offset", "headers", "key", "value")
    command = java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", "60000"),
        *(part for name in shown for part in ("--formatter-property", f"print.{name}=true")),
    )
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [_WHEN.sub("", line) for line in told.stdout.splitlines()]


def played(kind: str, directory: Path, queue: str, *, copies: bool) -> tuple[list[str], list[str]]:
    """A member obeys the records of a topic; what it got, and what is in the queue then."""
    directory.mkdir()
    with broker_of(kind, directory) as bootstrap:
        create_topic(bootstrap, TOPIC)
        configs = {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": queue,
            "errors.deadletterqueue.copy.record.enable": str(copies).lower(),
        }
        set_group_configs(bootstrap, GROUP, configs)
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
        for value in _VALUES:
            producer.send(TOPIC, value, key=value[-1:], headers=[("of the source", b"1")])
        producer.close()
        with Member(bootstrap, directory / "member", "obey") as member:
            member.wait_until_got(len(_VALUES) + 4, "every delivery")
            found = sorted(consumed(bootstrap, queue, _DEAD))
            member.close()
            return [line for line in member.lines if line.startswith("got")], found


@pytest.mark.real_time
@pytest.mark.parametrize("copies", [False, True])
def test_a_java_consumer_sees_the_records_that_another_has_rejected(
    tmp_path: Path, copies: bool
) -> None:
    """The queue is created, and has the rejected records and the one that was released too often,
    as those of Kafka's broker have; the member gets the same records as often."""
    theirs = played("theirs", tmp_path / "theirs", "dlq.jobs", copies=copies)
    ours = played("ours", tmp_path / "ours", "dlq.jobs", copies=copies)
    assert ours[1] == theirs[1]
    assert sorted(ours[0]) == sorted(theirs[0])
    assert len(ours[1]) == _DEAD
    assert re.findall(r"__dlq.errors.offset:(\d)", "\n".join(sorted(ours[1]))) == ["1", "2", "3"]
