"""`promote` into a running Kafka and `import` back from it: offsets and configs of groups."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from coordinator_server.client import Client
from tests.e2e.migrations import STREAMS_OFFSETS, assert_moved, heartbeat, prepare, run, state
from tests.oracle.kafka_process import Kafka
from tests.support import Broker

OF_KAFKA = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@pytest.mark.nightly
def test_what_groups_have_goes_to_kafka_and_back(tmp_path: Path) -> None:
    """Group offsets, share-group start offsets and group configs are equal after each copy.

    In Kafka the streams group continues from its offsets.
    """
    kafka = Kafka(tmp_path, OF_KAFKA)
    with (
        ExitStack() as stack,
        Broker(data_dir=tmp_path / "a") as a,
        Broker(data_dir=tmp_path / "b") as b,
    ):
        stack.callback(kafka.end)
        kafka.start()
        source, middle, target = a.bootstrap_servers, kafka.bootstrap_servers, b.bootstrap_servers
        prepare(source)
        done = run("promote", "--from", source, "--to", middle)
        assert done.returncode == 0, done.stderr
        assert_moved(source, middle)
        done = run("import", "--from", middle, "--to", target)
        assert done.returncode == 0, done.stderr
        assert state(target) == state(middle)
        with closing(Client(middle)) as client:
            assert heartbeat(client, "counts", "b" * 22) > 0
        moved = state(middle)
        assert moved["types"]["counts"] == "streams"
        assert moved["committed"] == STREAMS_OFFSETS
