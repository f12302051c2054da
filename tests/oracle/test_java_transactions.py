"""The Java producer, the only client with transactions v2, across kill -9 of the broker."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.clients.readers import read_with_confluent_kafka
from tests.clients.support import create_topic
from tests.oracle.kafka_process import java
from tests.support import Broker, wait_for

pytestmark = pytest.mark.nightly

PROGRAM = Path(__file__).with_name("TransactionalCopy.java")
COUNT = 600


@pytest.mark.real_time
def test_every_record_is_copied_once(tmp_path: Path) -> None:
    """Every record is copied once and in order with transactions v2, over two broker kills."""
    with Broker({"group.initial.rebalance.delay.ms": "0"}, data_dir=tmp_path / "data") as broker:
        for topic in ("source", "target"):
            create_topic(broker.bootstrap_servers, topic, 1)
        values = [b"%d" % number for number in range(COUNT)]
        broker.produce("source", *values)
        command = java(
            str(PROGRAM), broker.bootstrap_servers, "source", "target", "copy", str(COUNT)
        )
        output = tmp_path / "output"
        with output.open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            for so_far in (50, 300):
                wait_for(
                    partial(has_reached, output, so_far),
                    f"{so_far} records are copied",
                    60,
                )
                broker.kill()
                broker.start()
            assert process.wait(120) == 0, output.read_text()
        finally:
            process.kill()
            process.wait()
        copied = [
            value for _, _, value in read_with_confluent_kafka(broker.bootstrap_servers, "target")
        ]
        assert copied == values
        assert broker.committed("copy") == {("source", 0): COUNT}
        (copy,) = broker.control.call("GET", "/transactions")["transactions"]
        assert copy["producer_epoch"] > COUNT // 10 // 2, "an epoch for each transaction"


def has_reached(output: Path, count: int) -> bool:
    """Return whether the program reports `count` committed records."""
    return f"committed {count}" in output.read_text()
