"""Kafka's own clients push their metrics to our broker (KIP-714) by default."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.clients.support import create_topic, subscribe_to_metrics
from tests.oracle.kafka_process import java
from tests.support import Broker, wait_for

pytestmark = pytest.mark.nightly

TOPIC = "t"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"


@pytest.mark.real_time
def test_java_clients_push_their_metrics(tmp_path: Path) -> None:
    """A producer and a consumer push metrics compressed with zstd, also when they close."""
    with Broker({}, data_dir=tmp_path) as broker:
        create_topic(broker.bootstrap_servers, TOPIC, 1)
        subscribe_to_metrics(
            broker.bootstrap_servers,
            "java",
            metrics="org.apache.kafka.",
            interval_ms="500",
            match="client_software_name=apache-kafka-java,client_id=console-.*",
        )
        options = ["--bootstrap-server", broker.bootstrap_servers, "--topic", TOPIC]
        consume = java(CONSUMER, *options, "--from-beginning", "--max-messages", "6")
        with (
            subprocess.Popen(java(PRODUCER, *options), stdin=subprocess.PIPE) as producer,
            subprocess.Popen(consume, stdout=subprocess.PIPE) as consumer,
        ):

            def has_pushed(client_id: str) -> bool:
                listed = broker.control.call("GET", "/telemetry")["clients"]
                return any(one["client_id"] == client_id and one["pushes"] > 1 for one in listed)

            assert producer.stdin is not None
            for number in range(3):
                producer.stdin.write(b"%d\n" % number)
                producer.stdin.flush()
            for client_id in ("console-producer", "console-consumer"):
                wait_for(partial(has_pushed, client_id), f"{client_id} pushes", 60, 0.1)
            producer.stdin.write(b"3\n4\n5\n")
            producer.stdin.close()
            assert (producer.wait(60), consumer.wait(60)) == (0, 0)
        for kind in ("producer", "consumer"):
            shown = broker.control.call("GET", f"/telemetry/console-{kind}")
            names = {one["name"] for one in shown["metrics"]}
            assert any(name.startswith(f"org.apache.kafka.{kind}.") for name in names), names
            assert (shown["client_software_name"], shown["compression"]) == (
                "apache-kafka-java",
                "zstd",
            )
            assert shown["is_terminating"]
            assert shown["is_whole"]
