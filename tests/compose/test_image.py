"""The image: its size, user, healthcheck and stop, and the override for host networking."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import kafka
import pytest

from tests.compose.support import (
    BASE_IMAGE,
    BROKER_IMAGE,
    HOST,
    Container,
    docker,
    running,
)
from tests.support import free_port, wait_for

MOST_BYTES_BEYOND_BASE = 120_000_000
# `cryptography` and its dependencies take 18 MB of these 55 MB.
MOST_BYTES_TODAY = 55_000_000

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("images")]


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[tuple[Container, str]]:
    """Run a broker on a loopback port; yield the container and its address."""
    address = f"127.0.0.1:{free_port()}"
    listeners = ("-e", f"KAFKA_LISTENERS=PLAINTEXT://{address}")
    settings = ("--network", "host", "--health-interval=1s", *listeners, *arguments)
    container = Container(docker("run", "-d", *settings, BROKER_IMAGE).strip())
    try:
        container.wait_until_healthy()
        yield container, address
    finally:
        docker("rm", "-fv", container.id)


def test_the_image_is_small() -> None:
    """The image adds less than 120 MB, and less than MOST_BYTES_TODAY, to its base image."""
    sizes = [
        int(docker("image", "inspect", "--format", "{{.Size}}", image))
        for image in (BROKER_IMAGE, BASE_IMAGE)
    ]
    assert sizes[0] - sizes[1] < min(MOST_BYTES_TODAY, MOST_BYTES_BEYOND_BASE)


def test_it_runs_as_an_ordinary_user_on_a_read_only_root() -> None:
    """The broker runs without root and capabilities, and writes only to its data volume."""
    with serving("--read-only", "--cap-drop", "ALL") as (container, address):
        status = docker("exec", container.id, "cat", "/proc/1/status")
        assert "Uid:\t1000\t1000" in status
        assert "CapEff:\t0000000000000000" in status
        producer = kafka.KafkaProducer(bootstrap_servers=address)
        assert producer.send("written", b"x").get(20).offset == 0
        producer.close()
        assert "written-0" in docker("exec", container.id, "ls", "/var/lib/kafka/data")


def test_it_stops_in_good_order() -> None:
    """`docker stop` stops the broker cleanly with exit code 0."""
    with serving() as (container, _):
        docker("stop", "--time", "20", container.id)
        assert container.inspect("{{.State.ExitCode}}") == "0"
        assert "broker.stopped" in container.log()


@pytest.mark.real_time
def test_the_healthcheck_notices_a_broker_that_hangs() -> None:
    """A suspended broker, which accepts connections without answering, becomes unhealthy."""
    with serving("--health-timeout=3s", "--health-retries=2") as (one, _):
        pid = one.inspect("{{.State.Pid}}")
        subprocess.run(["docker", "kill", "--signal", "STOP", one.id], check=True)
        assert pid == one.inspect("{{.State.Pid}}")
        wait_for(
            lambda: one.inspect("{{.State.Health.Status}}") == "unhealthy", "unhealthy", 60, 0.5
        )
        subprocess.run(["docker", "kill", "--signal", "CONT", one.id], check=True)
        one.wait_until_healthy()


def test_other_commands_run_too() -> None:
    """The image has all commands, and `docker exec` finds them on the path."""
    assert "advertised.listeners" in docker("run", "--rm", BROKER_IMAGE, "settings")
    with serving() as (container, address):
        told = docker("exec", container.id, "coordinator-server", "--version")
        assert told.startswith("coordinator-server ")
        told = docker(
            "exec", container.id, "python", "-m", "coordinator_server.container.healthcheck"
        )
        assert told.startswith(f"{address} serves ")


def test_host_networking_is_an_override_file() -> None:
    """With docker-compose.host.yml broker and clients use a loopback address of this machine."""
    with running(HOST) as project:
        assert project.container("broker").inspect("{{.HostConfig.NetworkMode}}") == "host"
        told = project.compose(
            "--profile", "test", "run", "--rm", "--no-deps", "integration-tests", seconds=120
        )
        assert "2 passed" in told, told
        admin = kafka.KafkaAdminClient(bootstrap_servers=project.bootstrap)
        (broker,) = admin.describe_cluster()["brokers"]
        admin.close()
        assert f"{broker['host']}:{broker['port']}" == project.bootstrap
