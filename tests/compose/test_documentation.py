"""The commands and files in docs/docker.md work unchanged with the image under test."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import kafka
import pytest

from tests.compose.support import (
    BROKER_IMAGE,
    CLIENTS_IMAGE,
    Project,
    docker,
    running,
)
from tests.support import ROOT, free_ports

pytestmark = pytest.mark.nightly

PAGE = (ROOT / "docs" / "docker.md").read_text()
COMMANDS = re.findall(r"^ {4}(docker (?:run|exec) .*)$", PAGE, re.MULTILINE)
READ = "import kafka; print(kafka.KafkaAdminClient(bootstrap_servers='{}').list_topics())"


def test_the_commands_are_those_that_are_tested() -> None:
    """docs/docker.md has only those docker commands that this module tests."""
    assert [command.split(" #")[0].split()[1] for command in COMMANDS] == [
        "run",
        "run",
        "run",
        "exec",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs(command: str, project: Project) -> None:
    """`docker run` starts a broker or lists settings; `docker exec` runs a tool in a container."""
    words = shlex.split(command, comments=True)[1:]
    words = [BROKER_IMAGE if word == "coordinator-server" else word for word in words]
    if words[0] == "exec":
        words[words.index("CONTAINER")] = project.container("broker").id
        words[words.index(BROKER_IMAGE)] = "coordinator-server"
        # The documented group does not exist here: the tool prints only an error, and exits with
        # code 1.
        assert docker(*words, check=False) == ""
        return
    if "-p" not in words:
        assert "num.partitions" in docker(*words)
        return
    # Port 9092 may be in use on this machine, so the container has no published port and no
    # network.
    published = words.index("-p")
    words[published : published + 2] = ["-d", "--network", "none"]
    container_id = docker(*words).strip()
    try:
        check = ("exec", container_id, "python", "-m", "coordinator_server.container.healthcheck")
        for _ in range(50):
            if docker(*check, check=False):
                break
        assert docker(*check).startswith("127.0.0.1:9092 serves ")
    finally:
        docker("rm", "-fv", container_id)


BROKERS = (
    "import kafka; brokers = kafka.KafkaAdminClient(bootstrap_servers='{}').describe_cluster()"
    "['brokers']; print(sorted((one['broker_id'], one['host'], one['port']) for one in brokers))"
)


@pytest.mark.usefixtures("images")
def test_one_container_replaces_three(tmp_path: Path) -> None:
    """The names of all three services lead to three brokers, inside and outside the network."""
    snippet = PAGE.partition("## Three brokers")[2].partition("```yaml")[2].partition("```")[0]
    first = free_ports(3)
    for old, new in (("coordinator-server", BROKER_IMAGE), ("29092-29094", f"{first}-{first + 2}")):
        snippet = snippet.replace(old, new)
    file = tmp_path / "docker-compose.yml"
    file.write_text(
        snippet.replace(f'"{first}', f'"127.0.0.1:{first}').replace("29092", str(first))
    )
    with running([str(file)], broker="kafka-1") as project:
        command = ("run", "--rm", "--network", f"{project.name}_default", CLIENTS_IMAGE)
        for name in ("kafka-1", "kafka-2", "kafka-3"):
            told = docker(*command, "python", "-c", BROKERS.format(f"{name}:19092")).strip()
            assert told == str([(number, "kafka-1", 19091 + number) for number in (1, 2, 3)])
        admin = kafka.KafkaAdminClient(bootstrap_servers=f"localhost:{first}")
        ports = sorted(broker["port"] for broker in admin.describe_cluster()["brokers"])
        admin.close()
        assert ports == [first, first + 1, first + 2]


@pytest.mark.usefixtures("images")
def test_the_compose_file_of_the_page_serves_its_network(tmp_path: Path) -> None:
    """With only an image line, clients of the network connect to broker:9092."""
    match = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    file = tmp_path / "docker-compose.yml"
    file.write_text(match.group(1).replace("image: coordinator-server ", f"image: {BROKER_IMAGE} "))
    with running([str(file)]) as project:
        command = ("run", "--rm", "--network", f"{project.name}_default", CLIENTS_IMAGE)
        assert docker(*command, "python", "-c", READ.format("broker:9092")).strip() == "[]"
