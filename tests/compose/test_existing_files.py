"""Compose files written for apache/kafka work with only the image line changed."""

from __future__ import annotations

from typing import NamedTuple

import kafka
import pytest

from tests.compose.support import CLIENTS_IMAGE, Project, docker, running

pytestmark = pytest.mark.nightly

ROUND_TRIP = """
import sys, kafka
bootstrap = sys.argv[1]
admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
(broker,) = admin.describe_cluster()["brokers"]
producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
producer.send("existing", b"from a container").get(20)
producer.close()
consumer = kafka.KafkaConsumer("existing", bootstrap_servers=bootstrap, group_id="container",
    auto_offset_reset="earliest", consumer_timeout_ms=20_000)
values = sorted(record.value for _, record in zip(range(2), consumer))
consumer.close()
print(broker["broker_id"], broker["host"], broker["port"], values)
"""
"""Produces a record, and reads it and the host client's; prints the advertised address."""


class Case(NamedTuple):
    """A file and its expected outcome; {port} is the published port."""

    file: str
    node_id: int
    told_on_host: str
    bootstrap_inside: str
    told_inside: str
    data_directory: str
    ignored: tuple[str, ...]
    partitions: int = 1


CASES = [
    Case(
        "two-listeners",
        1,
        "localhost {port}",
        "broker:19092",
        "broker 19092",
        "/tmp/kraft-combined-logs",
        ("controller.quorum.voters", "process.roles", "transaction.state.log.min.isr"),
    ),
    Case(
        "derived-listeners",
        5,
        "localhost {port}",
        "broker:19092",
        "broker 19092",
        "/var/lib/kafka/data",
        ("process.roles", "KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS"),
    ),
    Case(
        "file-input",
        3,
        "localhost {port}",
        "broker:19092",
        "broker 19092",
        "/tmp/kafka-logs",
        ("controller.quorum.voters", "num.network.threads"),
        partitions=4,  # KAFKA_NUM_PARTITIONS takes precedence over num.partitions=2 in the file
    ),
    Case(
        "bare",
        1,
        "localhost {port}",
        "broker:{port}",
        "{address} {port}",
        "/tmp/kraft-combined-logs",
        (),
    ),
]


def send_from_host(project: Project, partitions: int) -> str:
    """Produce a record as a client on this machine; return the advertised host and port.

    This creates the topic, which must have `partitions` partitions.
    """
    admin = kafka.KafkaAdminClient(bootstrap_servers=project.bootstrap)
    (broker,) = admin.describe_cluster()["brokers"]
    admin.close()
    producer = kafka.KafkaProducer(bootstrap_servers=project.bootstrap)
    producer.send("existing", b"from the host").get(20)
    assert producer.partitions_for("existing") == set(range(partitions))
    producer.close()
    return f"{broker['host']} {broker['port']}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.file))
@pytest.mark.usefixtures("images")
def test_one_changed_line_is_enough(case: Case) -> None:
    """Clients inside and outside connect, and one line lists the ignored settings."""
    with running([f"tests/compose/existing/{case.file}.yml"]) as project:
        broker = project.container("broker")
        network = f"{project.name}_default"
        port = project.settings["KAFKA_PORT"]
        address = broker.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
        assert send_from_host(project, case.partitions) == case.told_on_host.format(port=port)
        inside = docker(
            *("run", "--rm", "--network", network, CLIENTS_IMAGE, "python", "-c", ROUND_TRIP),
            case.bootstrap_inside.format(port=port),
        )
        told = case.told_inside.format(port=port, address=address)
        assert inside.strip() == f"{case.node_id} {told} [b'from a container', b'from the host']"
        assert "existing-" in docker("exec", broker.id, "ls", case.data_directory)
        ignored = [line for line in broker.log().splitlines() if "settings.ignored" in line]
        assert len(ignored) == bool(case.ignored), ignored
        for name in case.ignored:
            assert name in ignored[0]
        warnings = [line for line in broker.log().splitlines() if "address." in line]
        assert not warnings
