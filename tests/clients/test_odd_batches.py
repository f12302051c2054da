"""Clients that produce odd batches: sarama's largest timestamp of -1, and a broken codec."""

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

pytestmark = pytest.mark.slow

TOPIC = "odd"
SECONDS = 120


def output_of(command: list[str], environment: dict[str, str], broker: Broker) -> str:
    """What a program prints that gets the broker and the topic."""
    done = subprocess.run(
        [*command, broker.bootstrap_servers, TOPIC],
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
    """sarama 1.43.3 claims -1 as the largest timestamp. sarama and kafka-python find its record by
    time all the same."""
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


def test_a_broken_codec_is_refused(start_broker: Callable[..., Broker], tmp_path: Path) -> None:
    """A batch of garbage instead of zstd is not stored; kafkajs is told an unknown error."""
    command, environment = kafkajs(tmp_path, "kafkajs_broken_codec.js")
    broker = start_broker()
    create_topic(broker.bootstrap_servers, TOPIC, 1)
    assert output_of(command, environment, broker) == "UNKNOWN"
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    with closing(consumer):
        assert consumer.end_offsets([partition]) == {partition: 0}
