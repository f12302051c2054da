"""examples/secured_compose: a client with the settings of alice is served, even after kill -9."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.compose.support import CLIENTS_IMAGE, Container, Project, docker, running
from tests.support import ROOT, wait_for

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("images")]

SECURITY = "/var/lib/kafka/security"
WRONG = """
import json, pathlib, kafka
config = json.loads(pathlib.Path("/var/lib/kafka/security/alice.kafka-python.json").read_text())
config |= {"bootstrap_servers": "broker:9092", "sasl_plain_password": "not-it"}
try:
    kafka.KafkaAdminClient(**config)
except kafka.errors.KafkaError as error:
    print(type(error).__name__)
"""
READ = """
import json, pathlib, kafka
config = json.loads(pathlib.Path("/var/lib/kafka/security/alice.kafka-python.json").read_text())
config["bootstrap_servers"] = "broker:9092"
consumer = kafka.KafkaConsumer(**config, consumer_timeout_ms=20000)
partitions = [kafka.TopicPartition("orders", 0)]
ends = consumer.end_offsets(partitions)
print(ends[partitions[0]])
"""


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    """The broker of the example."""
    directory = ROOT / "examples" / "secured_compose"
    with running(["docker-compose.yml"], directory=directory) as project:
        yield project


def service(project: Project) -> list[str]:
    """Run the example's service to its end and return its output lines."""
    project.up("service")
    container = project.container("service")
    wait_for(
        lambda: container.inspect("{{.State.Status}}") == "exited", "the service ends", 90, 0.3
    )
    assert container.inspect("{{.State.ExitCode}}") == "0", container.log()
    lines = container.output().splitlines()
    project.remove("service")
    return lines


def inside(project: Project, program: str) -> list[str]:
    """Return the output of a program in the example's network, with its settings mounted."""
    volume = f"{project.name}_security:{SECURITY}:ro"
    network = f"{project.name}_default"
    options = ("--rm", "--network", network, "-v", volume)
    return docker("run", *options, CLIENTS_IMAGE, "python", "-c", program).splitlines()


def test_the_service_comes_as_alice(project: Project) -> None:
    """The service produces and consumes a record as alice."""
    assert service(project) == ["orders: hello"]


def test_a_wrong_password_is_a_clear_line(project: Project) -> None:
    """The log names the user of a failed login, but not the password; the client fails."""
    (line,) = inside(project, WRONG)
    assert line.endswith("Error")  # kafka-python retries until its time limit
    log = project.container("broker").log()
    failed = [line for line in log.splitlines() if "authentication.failed" in line]
    assert failed
    assert "user=alice" in failed[0]
    assert "not-it" not in log


def test_the_broker_is_killed(project: Project) -> None:
    """After kill -9 and a restart, users, certificates and records are the same."""
    before = int(inside(project, READ)[0])
    broker = project.container("broker")
    docker("kill", "-s", "KILL", broker.id)
    docker("start", broker.id)
    wait_until_serving(broker)
    assert service(project) == ["orders: hello"]
    assert int(inside(project, READ)[0]) == before + 1


def wait_until_serving(broker: Container) -> None:
    """Wait until the restarted broker's healthcheck succeeds."""
    wait_for(
        lambda: (
            json.loads(broker.inspect("{{json .State}}"))["Status"] == "running"
            and broker.inspect("{{.State.Health.Status}}") == "healthy"
        ),
        "a healthy broker",
        90,
        0.3,
    )
