"""Clients that produce odd batches: sarama with a largest timestamp of -1, and a broken codec."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import kafka
import pytest

from tests.clients.copies import kafkajs, sarama
from tests.clients.support import create_topic
from tests.support import Broker

pytestmark = pytest.mark.nightly

TOPIC = "odd"
SECONDS = 120


def output_of(command: list[str], environment: dict[str, str], broker: Broker, *more: str) -> str:
    """Return the output of a program that gets the broker, the topic and further arguments."""
    done = subprocess.run(
        [*command, broker.bootstrap_servers, TOPIC, *more],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_a_record_of_old_sarama_is_found_by_time(
    start_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """A record is found by time although its batch has a largest timestamp of -1.

    sarama 1.43.3 writes such batches; sarama and kafka-python look for the record.
    """
    command, environment = sarama(tmp_path)
    broker = start_broker()
    create_topic(broker.bootstrap_servers, TOPIC, 1)
    before_ms = int(time.time() * 1000) - 1000
    assert output_of(command, environment, broker) == "0 0"
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    with closing(consumer):
        found = consumer.offsets_for_times({partition: before_ms})[partition]
    assert found is not None
    assert found.offset == 0
    assert found.timestamp >= before_ms


def test_sarama_reassigns_a_partition_as_kafkactl_does(
    start_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """A sarama admin client continues after both accepted and refused reassignments."""
    command, environment = sarama(tmp_path)
    broker = start_broker(broker_count="3")
    with closing(kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.create_topics({TOPIC: {"assignments": {0: [1, 2]}}})
    printed = output_of(command, environment, broker, "reassign")
    assert printed == (
        "[1 2] [3 1] failed to reassign partitions for topic: [odd-0]: "
        "kafka server: Replica assignment is invalid 1"
    )


def test_a_broken_codec_is_refused(start_broker: Callable[..., Broker], tmp_path: Path) -> None:
    """A batch of garbage instead of zstd is not stored, and kafkajs gets UNKNOWN_SERVER_ERROR."""
    command, environment = kafkajs(tmp_path, "kafkajs_broken_codec.js")
    broker = start_broker()
    create_topic(broker.bootstrap_servers, TOPIC, 1)
    assert output_of(command, environment, broker) == "UNKNOWN"
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    with closing(consumer):
        assert consumer.end_offsets([partition]) == {partition: 0}
