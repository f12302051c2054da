"""Consumers in containers join, leave and are paused, and their broker is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import kafka
import pytest

from tests.clients.support import Feed, create_topic
from tests.clients.support import Group as HostGroup
from tests.clients.support import Member as HostMember
from tests.clients.worker import Settings
from tests.compose.support import (
    Member,
    Project,
    docker,
    wait_until_processed,
    wait_until_shared,
)
from tests.support import wait_for

pytestmark = pytest.mark.nightly

PARTITIONS = 6
SERVICES = ("member-1", "member-2", "member-3")

Start = Callable[..., list[Member]]


@pytest.fixture
def start(project: Project) -> Iterator[Start]:
    """A function that starts members of a group, which are removed after the test."""
    started: list[str] = []

    def begin(group: str, *services: str) -> list[Member]:
        started.extend(services)
        return [project.member(service, group) for service in services]

    yield begin
    project.remove(*started)


def committed(project: Project, group: str) -> int:
    """Return the sum of the group's committed offsets over all partitions."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=project.bootstrap, group_id=group)
    offsets = [
        consumer.committed(kafka.TopicPartition(group, partition)) or 0
        for partition in range(PARTITIONS)
    ]
    consumer.close()
    return sum(offsets)


@pytest.mark.real_time
def test_one_joins_and_one_leaves(project: Project, start: Start) -> None:
    """Two and then three containers share the partitions; a join and a leave lose no record."""
    group = "joins"
    create_topic(project.bootstrap, group, PARTITIONS)
    members = start(group, *SERVICES[:2])
    wait_until_shared(members, group, PARTITIONS)
    with Feed(project.bootstrap, group, PARTITIONS, 600, per_second=60) as feed:
        members += start(group, SERVICES[2])
        wait_until_shared(members, group, PARTITIONS)
        with Feed(project.bootstrap, group, PARTITIONS, 60, prefix="for three ") as for_three:
            values = for_three.join()
        wait_for(members[2].processed, "records for the third", 60, 0.3)
        docker("stop", members[2].id)
        assert members[2].events("closed"), members[2].log()
        assert members[2].inspect("{{.State.ExitCode}}") == "0"
        wait_until_shared(members[:2], group, PARTITIONS)
        values += feed.join()
    wait_until_processed(members, values)
    assert all(member.processed() for member in members)
    assert committed(project, group) == 660


@pytest.mark.real_time
def test_the_broker_is_killed_and_returns_on_its_volume(project: Project, start: Start) -> None:
    """After `docker kill` the members continue from their commits, and each record is read once."""
    group = "killed"
    create_topic(project.bootstrap, group, PARTITIONS)
    members = start(group, *SERVICES)
    with Feed(project.bootstrap, group, PARTITIONS, 120) as feed:
        before = feed.join()
    wait_until_processed(members, before)
    broker = project.container("broker")
    docker("kill", broker.id)
    assert broker.inspect("{{.State.ExitCode}}") == "137"
    docker("start", broker.id)
    broker.wait_until_healthy()
    assert committed(project, group) == 120
    with Feed(project.bootstrap, group, PARTITIONS, 120, prefix="after ") as feed:
        after = feed.join()
    wait_until_processed(members, before + after)
    wait_until_shared(members, group, PARTITIONS)
    assert committed(project, group) == 240


@pytest.mark.real_time
def test_a_paused_container_loses_its_partitions_and_rejoins(
    project: Project, start: Start
) -> None:
    """A paused container's session expires; once resumed it gets partitions again."""
    group = "paused"
    create_topic(project.bootstrap, group, PARTITIONS)
    members = start(group, *SERVICES)
    wait_until_shared(members, group, PARTITIONS)
    docker("pause", members[0].id)
    wait_until_shared(members[1:], group, PARTITIONS)
    with Feed(project.bootstrap, group, PARTITIONS, 60) as feed:
        values = feed.join()
    wait_until_processed(members[1:], values)
    docker("unpause", members[0].id)
    wait_for(lambda: members[0].events("lost", "revoked"), "the news of the loss", 60, 0.3)
    wait_until_shared(members, group, PARTITIONS)
    with Feed(project.bootstrap, group, PARTITIONS, 60, prefix="after ") as feed:
        values += feed.join()
    wait_until_processed(members, values)
    assert members[0].processed()


@pytest.mark.real_time
def test_a_host_client_is_a_member_beside_containers(
    project: Project, start: Start, tmp_path: Path
) -> None:
    """Two containers and a process on this machine share one group."""
    group = "mixed"
    create_topic(project.bootstrap, group, PARTITIONS)
    settings = Settings("kafka-python", project.bootstrap, group, [group], "range", 6000)
    on_host = HostGroup(tmp_path, settings)
    try:
        member = on_host.start()
        containers = start(group, *SERVICES[:2])
        everyone: list[HostMember | Member] = [member, *containers]

        def shared() -> bool:
            owned = [one.owned() for one in everyone]
            partitions = sorted(partition for one in owned for _, partition in one)
            return all(owned) and partitions == list(range(PARTITIONS))

        def processed() -> list[str]:
            return sorted(record[3] for one in everyone for record in one.processed())

        wait_for(shared, "partitions for each of the three", 60, 0.3)
        with Feed(project.bootstrap, group, PARTITIONS, 120) as feed:
            values = feed.join()
        wait_for(lambda: processed() == sorted(values), "all processed once", 60, 0.3)
        assert all(one.processed() for one in everyone)
        member.close()
    finally:
        on_host.end()


def test_the_integration_tests_of_the_profile_pass(project: Project) -> None:
    """`compose run integration-tests` passes inside the network."""
    told = project.compose(
        "--profile", "test", "run", "--rm", "--no-deps", "integration-tests", seconds=120
    )
    assert "2 passed" in told, told


@pytest.mark.real_time
def test_the_demo_shows_three_consumers_at_work(project: Project) -> None:
    """The profile `demo` has a producer and three consumers that each read one partition."""
    consumers = ("consumer-1", "consumer-2", "consumer-3")
    try:
        project.up("producer", *consumers)

        def reading() -> set[str]:
            """Return the last partition of each consumer, from lines HOST partition NUMBER:
            TEXT."""
            lines = [project.container(name).output().splitlines() for name in consumers]
            return {told[-1].split()[2] for told in lines if told}

        wait_for(lambda: reading() == {"0:", "1:", "2:"}, "a partition for each", 60, 0.5)
    finally:
        project.remove("producer", *consumers)
