"""The Kafka modules of Testcontainers work with only the image's name changed.

The Python and Java modules run as they are. The Go and Node modules are imitated: the test uses
their entry point, command, variables, and the script that they write into the running container.
"""

from __future__ import annotations

import contextlib
import io
import re
import socket
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import kafka
import pytest
from py4j.java_gateway import (  # type: ignore[import-untyped]  # the library ships no types
    GatewayParameters,
    JavaGateway,
    launch_gateway,
)
from testcontainers.community.kafka import KafkaContainer
from testcontainers.core.network import Network

from tests.compose.support import BROKER_IMAGE, Container, docker
from tests.maven import fetch
from tests.support import ROOT, free_port, wait_for

IMAGE = "coordinator-server:8.0.0"
"""The image under a tag that the modules parse as a version, to choose KRaft or ZooKeeper."""

JARS = ROOT / ".testcontainers-2.0.5"
POM = Path(__file__).with_name("testcontainers.pom.xml")

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("tagged")]


@pytest.fixture(scope="module")
def tagged(images: None) -> None:
    """Tag the broker's image with a version for the modules."""
    docker("tag", BROKER_IMAGE, IMAGE)


@pytest.fixture(autouse=True)
def settings_of_testcontainers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use loopback, and disable Testcontainers' cleanup container, which is another image."""
    monkeypatch.setenv("TESTCONTAINERS_HOST_OVERRIDE", "localhost")
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")


def use(bootstrap: str) -> None:
    """Produce a record as a client on this machine, and consume it in a group."""
    with kafka.KafkaProducer(bootstrap_servers=bootstrap) as producer:
        producer.send("t", b"x").get(20)
    consumer = kafka.KafkaConsumer(
        "t", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest"
    )
    assert next(consumer).value == b"x"
    consumer.close()


@pytest.mark.parametrize("kraft", [False, True])
def test_python(kraft: bool) -> None:
    """testcontainers-python works with ZooKeeper and with KRaft."""
    with Network() as network:
        container = KafkaContainer(IMAGE).with_network(network)
        if kraft:
            container = container.with_kraft()
        with container:
            use(container.get_bootstrap_server())


@contextlib.contextmanager
def java(home: Path) -> Iterator[Any]:
    """Run Testcontainers for Java in a separate process; yield the packages of its class path.

    Testcontainers writes its properties into the home directory.
    """
    fetch(POM, JARS)
    options = [f"-Duser.home={home}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    port = launch_gateway(classpath=f"{JARS}/*", javaopts=options, die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        yield gateway.jvm.org.testcontainers
    finally:
        gateway.shutdown()


@pytest.mark.parametrize(
    ("module", "image"),
    [("KafkaContainer", "apache/kafka"), ("ConfluentKafkaContainer", "confluentinc/cp-kafka")],
)
def test_java(module: str, image: str, tmp_path: Path) -> None:
    """Both Kafka modules of testcontainers-java work, and the cluster has the id that they set."""
    with java(tmp_path) as packages:
        network = packages.containers.Network.newNetwork()
        name = packages.utility.DockerImageName.parse(IMAGE).asCompatibleSubstituteFor(image)
        container = getattr(packages.kafka, module)(name).withNetwork(network)
        try:
            container.start()
            bootstrap = container.getBootstrapServers()
            use(bootstrap)
            admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
            given = container.getEnvMap()["CLUSTER_ID"]
            assert admin.describe_cluster()["cluster_id"] == given
            admin.close()
        finally:
            container.stop()
            network.close()


class Module(NamedTuple):
    """The behaviour of a Testcontainers module with a Confluent image.

    {bootstrap} is the published address, {hostname} that of the container. The container is ready
    when its log contains `ready`, or if that is None, when all its ports accept connections.
    """

    environment: Mapping[str, str]
    ports: tuple[int, ...]
    command: str
    script_path: str
    script: str
    ready: str | None


COMMON = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
KRAFT = {
    **COMMON,
    "KAFKA_LISTENERS": ("PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094"),
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
}
NODE_COMMAND = "echo 'Waiting for script...'; while [ ! -f {script} ]; do sleep 0.1; done; {script}"
MODULES = {
    "go": Module(
        environment={
            **KRAFT,
            "KAFKA_REST_BOOTSTRAP_SERVERS": KRAFT["KAFKA_LISTENERS"],
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        },
        ports=(9093,),
        command="while [ ! -f {script} ]; do sleep 0.1; done; bash {script}",
        script_path="/usr/sbin/testcontainers_start.sh",
        script="""\
#!/bin/bash
source /etc/confluent/docker/bash-config
export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{bootstrap},BROKER://{hostname}:9092
echo Starting Kafka KRaft mode
sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure
echo 'kafka-storage format --ignore-formatted -t "$(kafka-storage random-uuid)" -c \
/etc/kafka/kafka.properties' >> /etc/confluent/docker/configure
echo '' > /etc/confluent/docker/ensure
/etc/confluent/docker/configure
/etc/confluent/docker/launch""",
        ready=".*Transitioning from RECOVERY to RUNNING.*",
    ),
    "node": Module(
        environment={
            **KRAFT,
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
            "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092",
        },
        ports=(9093,),
        command=NODE_COMMAND,
        script_path="/tmp/testcontainers_start.sh",
        script="""\
#!/bin/bash
export KAFKA_ADVERTISED_LISTENERS=BROKER://{hostname}:9092,PLAINTEXT://{bootstrap}
/etc/confluent/docker/run 
""",  # noqa: W291
        ready=None,
    ),
    "node with ZooKeeper": Module(
        environment={
            **COMMON,
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
            "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092",
            "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
        },
        ports=(9093, 2181),
        command=NODE_COMMAND,
        script_path="/testcontainers_start.sh",
        script="""\
#!/bin/bash
export KAFKA_ADVERTISED_LISTENERS=BROKER://{hostname}:9092,PLAINTEXT://{bootstrap}
echo '' > /etc/confluent/docker/ensure 
echo 'clientPort=2181' > zookeeper.properties
echo 'dataDir=/var/lib/zookeeper/data' >> zookeeper.properties
echo 'dataLogDir=/var/lib/zookeeper/log' >> zookeeper.properties
zookeeper-server-start zookeeper.properties &
/etc/confluent/docker/run 
""",  # noqa: W291
        ready=None,
    ),
}


@contextlib.contextmanager
def started(module: Module) -> Iterator[tuple[Container, dict[int, int]]]:
    """Start a container that waits for its script; yield it and its published ports."""
    name = f"coordinator-server-{free_port()}"
    docker("network", "create", name)
    arguments = ["run", "-d", "--network", name, "--entrypoint", "sh"]
    for variable, value in module.environment.items():
        arguments += ["-e", f"{variable}={value}"]
    for port in module.ports:
        arguments += ["-p", f"127.0.0.1::{port}"]
    command = module.command.format(script=module.script_path)
    try:
        container = Container(docker(*arguments, IMAGE, "-c", command).strip())
        try:
            ports = {}
            for port in module.ports:
                (line, *_) = docker("port", container.id, str(port)).splitlines()
                ports[port] = int(line.rpartition(":")[2])
            yield container, ports
        finally:
            docker("rm", "-fv", container.id)
    finally:
        docker("network", "rm", name)


def write(container: Container, path: str, script: str) -> None:
    """Write an executable file into a running container."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        file = tarfile.TarInfo(path.lstrip("/"))
        file.size, file.mode = len(script.encode()), 0o777
        tar.addfile(file, io.BytesIO(script.encode()))
    subprocess.run(
        ["docker", "cp", "-", f"{container.id}:/"], input=archive.getvalue(), check=True, timeout=60
    )


def is_open(container: Container, port: int) -> bool:
    """Return whether the port accepts connections inside the container, like the Node module."""
    check = f"</dev/tcp/localhost/{port}"
    done = subprocess.run(
        ["docker", "exec", container.id, "/bin/bash", "-c", check], capture_output=True, check=False
    )
    return done.returncode == 0


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_what_the_others_send(module: Module) -> None:
    """The module's script starts the broker, its check succeeds, and a client works."""
    with started(module) as (container, ports):
        bootstrap = f"localhost:{ports[9093]}"
        hostname = container.inspect("{{.Config.Hostname}}")
        script = module.script.format(bootstrap=bootstrap, hostname=hostname)
        write(container, module.script_path, script)
        if module.ready is None:
            wait_for(lambda: all(is_open(container, port) for port in ports), "the ports", 60)
        else:
            wait_for(lambda: re.search(str(module.ready), container.log()), "the log line", 60)
        for port in ports.values():
            socket.create_connection(("127.0.0.1", port), 10).close()
        use(bootstrap)
        assert "rror" not in container.log()
