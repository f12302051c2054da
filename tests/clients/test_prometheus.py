"""The lag metrics equal the numbers of franz-go's admin client; Prometheus accepts our rules."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from tests.clients.copies import kadm, promql
from tests.clients.support import create_topic
from tests.support import Broker
from tests.unit.metrics.examples import EXAMPLES, dashboard, names_in_rules, served
from tests.unit.metrics.scene import Samples, parsed

pytestmark = pytest.mark.nightly

Lags = dict[tuple[str, str, int], tuple[int, int]]
"""Committed offset and lag by group, topic and partition."""


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit offsets of partitions as a consumer without a subscription."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    partitions = [
        confluent_kafka.TopicPartition(topic, index, offset) for index, offset in offsets.items()
    ]
    for one in consumer.commit(offsets=partitions, asynchronous=False):
        assert one.error is None
    consumer.close()


def with_lag(bootstrap: str) -> None:
    """Create topics with records, and groups at the start, the middle and the end."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for topic, partitions in (("orders", 3), ("payments", 2)):
        create_topic(bootstrap, topic, partitions)
        for number in range(partitions * 10):
            producer.produce(topic, b"%d" % number, partition=number % partitions)
    producer.flush()
    commit(bootstrap, "billing", "orders", {0: 0, 1: 4, 2: 10})
    commit(bootstrap, "billing", "payments", {0: 15})
    commit(bootstrap, "reports", "orders", {1: 9})
    commit(bootstrap, "größe & <b>", "payments", {0: 1, 1: 2})
    commit(bootstrap, "ahead", "orders", {0: 10, 1: 10})


def ours(broker: Broker) -> Lags:
    """Return the lag metrics of a broker."""
    host, port = broker.control.address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics") as response:
        samples: Samples = parsed(response.read().decode())
    found: dict[str, dict[tuple[str, str, int], int]] = {"committed_offset": {}, "lag_records": {}}
    for (name, labels), number in samples.items():
        values = found.get(name.removeprefix("coordinator_group_"))
        if values is not None:
            place = dict(labels)
            key = place["group"], place["topic"], int(place["partition"])
            values[key] = int(number)
    committed = found["committed_offset"]
    return {key: (committed[key], lag) for key, lag in found["lag_records"].items()}


@pytest.mark.real_time
def test_lag_is_that_of_franz_go(start_broker: Callable[..., Broker], tmp_path: Path) -> None:
    """Committed offset and lag of every group and partition equal kadm's, with two brokers."""
    words, environment = kadm(tmp_path)
    broker = start_broker(broker_count=2)
    with_lag(broker.bootstrap_servers)
    done = subprocess.run(
        [*words, broker.bootstrap_servers], env=environment, capture_output=True, check=True
    )
    theirs: Lags = {}
    for line in done.stdout.decode().splitlines():
        group, topic, partition, committed, lag = line.split("\t")
        if int(committed) >= 0:  # kadm also lists partitions without a committed offset
            theirs[group, topic, int(partition)] = int(committed), int(lag)
    assert len(theirs) == 9
    assert ours(broker) == theirs


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    """Rules and queries are valid, and Prometheus' parser finds the metrics that our tests find."""
    words, environment = promql(tmp_path)
    files = {name: EXAMPLES / name for name in ("alerts.yml", "pipeline-alerts.yml")}
    for name, path in files.items():
        done = subprocess.run(
            [*words, "rules", str(path)], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert sum(not line.startswith("metric ") for line in lines) == path.read_text().count(
            "- alert:"
        )
        found = {line.split()[1] for line in lines if line.startswith("metric ")}
        assert found - {"up"} == names_in_rules(name)
    queries = "".join(
        target["expr"].replace("$__rate_interval", "5m") + "\n"
        for panel in dashboard()["panels"]
        for target in panel.get("targets", ())
    )
    done = subprocess.run(
        [*words, "names"], env=environment, input=queries, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert {line.split()[1] for line in done.stdout.splitlines()} <= served()


def test_prometheus_rejects_a_broken_rule(tmp_path: Path) -> None:
    """The check fails for a query that is not valid PromQL."""
    words, environment = promql(tmp_path)
    broken = tmp_path / "broken.yml"
    broken.write_text((EXAMPLES / "alerts.yml").read_text().replace("max by (", "max by ("[:-1]))
    done = subprocess.run([*words, "rules", str(broken)], env=environment, capture_output=True)
    assert done.returncode == 1
