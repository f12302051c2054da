"""The image's entry point and healthcheck as processes, without an image."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from coordinator_server.container.healthcheck import ask
from tests import forked
from tests.e2e.commands import check
from tests.support import ROOT, Broker, free_port, wait_for


def test_a_healthy_broker_answers() -> None:
    """The healthcheck prints the number of APIs and ends with exit code 0."""
    with Broker() as broker:
        by_address = check(broker.bootstrap_servers)
        assert by_address.returncode == 0, by_address.stderr
        assert f"{broker.bootstrap_servers} serves " in by_address.stdout
        listeners = f"CONTROLLER://:1,PLAINTEXT://:{broker.address[1]}"
        by_settings = check(KAFKA_LISTENERS=listeners, KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER")
        assert by_settings.stdout == by_address.stdout


def test_every_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """If localhost is ::1 first, the healthcheck still finds a broker on 127.0.0.1."""
    with Broker() as broker, socket.create_server(("127.0.0.1", 0)) as unused:
        closed = unused.getsockname()
        unused.close()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", closed)]
        found.append((socket.AF_INET, socket.SOCK_STREAM, 0, "", broker.address))
        monkeypatch.setattr("_socket.getaddrinfo", lambda *_: found)
        assert ask("localhost", broker.address[1]) > 0


def test_nobody_there_is_unhealthy() -> None:
    """Without a broker the healthcheck prints one line and ends with exit code 1."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    done = check(address)
    assert done.returncode == 1
    assert done.stderr.startswith("healthcheck: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "closed after 0 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an answer of 1213486160 bytes"),
        (b"\0\0\0\x0a" + b"\0" * 10, "not an answer to ApiVersions"),
        (b"\0\0\0\x0aHELT\0\x23\0\0\0\0", "not an answer to ApiVersions"),
    ],
)
def test_an_answer_that_is_none_is_unhealthy(answer: bytes, expected: str) -> None:
    """A port is only healthy if it answers with an ApiVersions response."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises((OSError, ValueError), match=expected):
            ask("127.0.0.1", server.getsockname()[1])
        thread.join(10)


def test_the_healthcheck_imports_no_broker() -> None:
    """The healthcheck runs often, so it loads no asyncio, argparse or message class."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        "import coordinator_server.container.healthcheck; "
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "coordinator_server.config.config" in loaded
    assert not loaded & {"asyncio", "argparse", "socket", "structlog", "construct", "protocol"}
    assert {name for name in loaded if name.startswith(("protocol.", "storage."))} == {
        "storage.config_def",
        "storage.topic_settings",
    }


def test_the_entry_point_serves_and_stops(tmp_path: Path) -> None:
    """The entry point serves with the variables of Kafka's image, and logs the unused ones."""
    environment = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0,CONTROLLER://:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_HEAP_OPTS": "-Xmx512m",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    }
    kept = {name: value for name, value in os.environ.items() if name[:6] != "KAFKA_"}
    process = subprocess.Popen(
        [sys.executable, "-m", "coordinator_server.container.entrypoint"],
        cwd=ROOT,
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "log").open("w"),
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("listening ").strip()
        assert process.stdout.readline().startswith("[KafkaServer id=1] started")
        assert check(address).returncode == 0
        log = tmp_path / "log"
        wait_for(lambda: "settings.ignored" in log.read_text(), "the line about settings")
        (line,) = log.read_text().splitlines()
        for name in ("controller.quorum.voters", "process.roles", "KAFKA_HEAP_OPTS"):
            assert name in line
        process.terminate()
        assert process.wait(60) == 0
        properties = (tmp_path / "data" / "meta.properties").read_text()
        assert f"cluster.id={environment['CLUSTER_ID']}" in properties.splitlines()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_the_entry_point_names_a_bad_value() -> None:
    """An invalid variable ends the entry point with one line and exit code 2."""
    done = forked.run(
        [sys.executable, "-m", "coordinator_server.container.entrypoint"],
        env={**os.environ, "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://0.0.0.0:9092"},
        timeout=30,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "coordinator-server: advertised.listeners: PLAINTEXT://0.0.0.0:9092: clients cannot "
        "connect to every interface, name a host\n"
    )


def test_the_entry_point_runs_other_programs(tmp_path: Path) -> None:
    """The entry point can run another program, and ends with that program's exit code."""
    command = [sys.executable, "-m", "coordinator_server.container.entrypoint"]
    environment = {**os.environ, "KAFKA_LISTENERS": "nonsense"}
    script = ["sh", "-c", "echo $KAFKA_LISTENERS; exit 7"]
    done = forked.run([*command, *script], env=environment)
    assert (done.returncode, done.stdout) == (7, "nonsense\n")
    missing = [*command, str(tmp_path / "missing")]
    done = forked.run(missing)
    assert done.returncode == 127
    assert done.stderr == f"coordinator-server: {tmp_path}/missing: No such file or directory\n"


def test_zookeeper_is_a_port_that_opens(tmp_path: Path) -> None:
    """The ZooKeeper port accepts connections, as Testcontainers expects, and closes them."""
    port = free_port()
    properties = tmp_path / "zookeeper.properties"
    properties.write_text(f"clientPort={port}\ndataDir=/var/lib/zookeeper/data\n")
    command = [sys.executable, "-m", "coordinator_server.container.zookeeper", str(properties)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().endswith(f"port {port} does nothing\n")
            with socket.create_connection(("127.0.0.1", port), 10) as client:
                assert client.recv(1) == b""
        finally:
            process.kill()
    properties.write_text("clientPort=x")
    done = forked.run(command)
    assert (done.returncode, done.stderr.startswith("zookeeper-server-start: ")) == (1, True)
