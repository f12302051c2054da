"""Compose projects for tests, with the checkout's files and a unique name and port.

Any engine that `docker` talks to will do. If the engine has bridge networks, the broker is
published on a loopback port, and members join the project's network. Otherwise the override file
for host networking keeps all traffic on loopback addresses.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.clients.support import ConsumerEvents, share_all
from tests.support import ROOT, free_port, wait_for

BASE_IMAGE = "python:3.11-slim-bookworm"
BROKER_IMAGE = "coordinator-server:compose-test"
CLIENTS_IMAGE = "coordinator-server-clients:compose-test"
SECONDS = 90.0
BRIDGE = ("docker-compose.yml", "docker-compose.override.yml")
HOST = ("docker-compose.yml", "docker-compose.host.yml")


def docker(*arguments: str, seconds: float = SECONDS, check: bool = True) -> str:
    """Run a docker command and return its standard output."""
    return _run(["docker", *arguments], {}, seconds, check)


@cache
def has_bridge_networks() -> bool:
    """Return whether the engine can create a network for containers."""
    name = f"coordinator-server-probe-{uuid.uuid4().hex[:8]}"
    made = subprocess.run(["docker", "network", "create", name], capture_output=True, check=False)
    subprocess.run(["docker", "network", "rm", name], capture_output=True, check=False)
    return made.returncode == 0


@cache
def build_images() -> None:
    """Build both images from the checkout; the engine's cache makes later builds fast."""
    for image, *target in ((BROKER_IMAGE,), (CLIENTS_IMAGE, "--target", "clients")):
        docker("build", "--network", "host", "-q", "-t", image, *target, str(ROOT), seconds=300)


class Container:
    """A container with its id."""

    def __init__(self, container_id: str) -> None:
        self.id = container_id

    def inspect(self, template: str) -> str:
        """Return a part of `docker inspect`, selected by a Go template."""
        return docker("inspect", "--format", template, self.id).strip()

    def output(self) -> str:
        """Return the standard output so far."""
        return _run(["docker", "logs", self.id], {}, SECONDS, check=True)

    def log(self) -> str:
        """Return standard output and standard error so far."""
        done = subprocess.run(
            ["docker", "logs", self.id],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout

    def wait_until_healthy(self) -> None:
        """Wait until the healthcheck succeeds."""
        wait_for(
            lambda: self.inspect("{{.State.Health.Status}}") == "healthy",
            "a healthy container",
            SECONDS,
            step_seconds=0.2,
        )


class Member(Container, ConsumerEvents):
    """A consumer in a container: `tests.clients.worker`, read through its standard output."""

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """Return all events so far, or those of the given kinds."""
        found = [json.loads(line) for line in self.output().splitlines() if line[:1] == "{"]
        return [event for event in found if not kinds or event["event"] in kinds]


class Project:
    """A compose project; `bootstrap` is the broker's address for clients on this machine.

    `files` are relative to `directory`.
    """

    def __init__(
        self,
        files: Sequence[str],
        settings: Mapping[str, str] | None = None,
        directory: Path = ROOT,
    ) -> None:
        self.directory = directory
        self.name = f"coordinator-server-{uuid.uuid4().hex[:8]}"
        self.files = files
        port = free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        self.settings = {
            "BROKER_IMAGE": BROKER_IMAGE,
            "CLIENTS_IMAGE": CLIENTS_IMAGE,
            "BUILD_NETWORK": "host",
            "KAFKA_PORT": str(port),
            **({"BROKER_ADDRESS": self.bootstrap} if files == HOST else {}),
            **(settings or {}),
        }

    def compose(
        self,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> str:
        """Run a compose command on this project."""
        command = [*_compose_command(), "-p", self.name, "--project-directory", str(self.directory)]
        for file in self.files:
            command += ["-f", str(self.directory / file)]
        return _run(
            [*command, *arguments], {**self.settings, **(settings or {})}, seconds, check=True
        )

    def container(self, service: str) -> Container:
        """Return the container of a service, running or not."""
        label = f"com.docker.compose.project={self.name}"
        of_service = f"com.docker.compose.service={service}"
        arguments = ("ps", "-aq", "--filter", f"label={label}", "--filter", f"label={of_service}")
        (container_id,) = docker(*arguments).split()
        return Container(container_id)

    def up(self, *services: str, settings: Mapping[str, str] | None = None) -> None:
        """Start services without their dependencies."""
        self.compose("up", "-d", "--no-build", "--no-deps", *services, settings=settings)

    def member(self, service: str, group: str) -> Member:
        """Start a consumer of the group and the topic with the same name."""
        self.up(service, settings={"GROUP": group})
        return Member(self.container(service).id)

    def remove(self, *services: str) -> None:
        """Remove containers, in any state."""
        for service in services:
            container_id = self.container(service).id
            docker("unpause", container_id, check=False)
            docker("rm", "-fv", container_id)

    def down(self) -> None:
        """Remove everything, including volumes, even if a step fails."""
        label = f"label=com.docker.compose.project={self.name}"
        if containers := docker("ps", "-aq", "--filter", label).split():
            docker("unpause", *containers, check=False)
            docker("rm", "-fv", *containers, check=False)
        for kind in ("volume", "network"):
            if found := docker(kind, "ls", "-q", "--filter", label).split():
                docker(kind, "rm", *found, check=False)


@contextlib.contextmanager
def running(
    files: Sequence[str],
    settings: Mapping[str, str] | None = None,
    broker: str = "broker",
    directory: Path = ROOT,
) -> Iterator[Project]:
    """Run a project with a healthy broker, and remove all of it at the end of the block."""
    project = Project(files, settings, directory)
    try:
        project.up(broker)
        project.container(broker).wait_until_healthy()
        yield project
    finally:
        project.down()


def wait_until_shared(
    members: Sequence[Member], topic: str, partitions: int, seconds: float = 60.0
) -> None:
    """Wait until each partition has exactly one owner and every member owns a partition."""
    wanted = [(topic, partition) for partition in range(partitions)]

    def shared() -> bool:
        return share_all(members, wanted)

    _telling(members, lambda: wait_for(shared, "all partitions owned once", seconds, 0.3))


def wait_until_processed(
    members: Sequence[Member], values: Iterable[str], seconds: float = 60.0
) -> None:
    """Wait for these values, and check that all members together processed each exactly once."""
    wanted = Counter(values)

    def processed() -> Counter[str]:
        return Counter(record[3] for member in members for record in member.processed())

    _telling(
        members,
        lambda: wait_for(
            lambda: processed().total() >= wanted.total(), "all processed", seconds, 0.3
        ),
    )
    got = processed()
    assert not wanted - got, f"lost: {sorted(wanted - got)[:9]}"
    assert not got - wanted, f"too often: {sorted(got - wanted)[:9]}"


def _telling(members: Sequence[Member], wait: Any) -> None:
    """Wait, and include the members' stories in the message of a failure."""
    try:
        wait()
    except AssertionError as error:
        stories = "\n".join(f"-- {member.id[:12]}\n{member.log()[-1500:]}" for member in members)
        raise AssertionError(f"{error}\n{stories}") from None


@cache
def _compose_command() -> tuple[str, ...]:
    """Return `docker compose`, or the older docker-compose."""
    modern = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if modern.returncode == 0:
        return ("docker", "compose")
    assert shutil.which("docker-compose"), "neither `docker compose` nor docker-compose"
    return ("docker-compose",)


def _run(command: list[str], settings: Mapping[str, str], seconds: float, check: bool) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **settings},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    failed = check and done.returncode != 0
    assert not failed, f"{' '.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
