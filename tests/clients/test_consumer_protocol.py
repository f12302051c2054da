"""librdkafka in consumer groups (KIP-848), alone and together with classic members."""

import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import confluent_kafka
import pytest

from coordinator_server.client import Client
from protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.apis.list_groups import ListGroupsRequest
from tests.clients.support import Feed, Group, Member, create_topic, feed
from tests.clients.variants import LIBRARIES, StartGroup, committed_offsets
from tests.clients.worker import CONFLUENT_KAFKA_CONSUMER
from tests.support import Broker

PARTITIONS = 6
FIRST_HEARTBEAT_SECONDS = 3
"""A consumer that is assigned within this time did not wait for its second heartbeat."""


def partitions_of(topic: str) -> list[tuple[str, int]]:
    """Return all partitions of a topic of these tests."""
    return [(topic, number) for number in range(PARTITIONS)]


def type_of(group: Group) -> str:
    """Return the group's type from ListGroups."""
    with closing(Client(group.settings.bootstrap)) as client:
        listed = client.ask(ListGroupsRequest(), min_version=5).groups
    return next(str(one.group_type) for one in listed if one.group_id == group.settings.group)


def described(group: Group) -> Any:
    """Return the group from ConsumerGroupDescribe."""
    request = ConsumerGroupDescribeRequest(group_ids=[group.settings.group])
    with closing(Client(group.settings.bootstrap)) as client:
        return client.ask(request, client.coordinator(group.settings.group)).groups[0]


def progress(group: Group, count: int) -> None:
    """Wait until the group has processed `count` more records."""
    before = len(group.processed())
    group.wait_until(lambda: len(group.processed()) >= before + count, f"{count} records more")


@pytest.mark.real_time
def test_reopening_the_only_consumer_of_a_group_takes_no_interval(
    bootstrap: str, name: str
) -> None:
    """A consumer that succeeds a group's only consumer gets partitions with its first heartbeat.

    librdkafka sends the next heartbeat 5 s later, so an assignment that waited for
    `group.consumer.assignment.interval.ms` would take 5 s.
    """
    create_topic(bootstrap, name, PARTITIONS)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": name,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }
    for _ in range(4):
        consumer = confluent_kafka.Consumer(settings)
        started = time.monotonic()
        consumer.subscribe([name])
        while not consumer.assignment() and time.monotonic() < started + 10:
            consumer.poll(0.02)
        elapsed = time.monotonic() - started
        consumer.close()
        assert elapsed < FIRST_HEARTBEAT_SECONDS


@pytest.mark.parametrize(
    ("library", "assignor"),
    [
        ("confluent-kafka", "range"),
        pytest.param("kafka-python", "cooperative-sticky", marks=pytest.mark.nightly),
        pytest.param("aiokafka", "range", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.real_time
def test_a_group_is_upgraded_and_downgraded_while_records_flow(
    bootstrap: str, name: str, start_group: StartGroup, library: str, assignor: str
) -> None:
    """A group changes to the consumer protocol and back, and every record is processed once."""
    create_topic(bootstrap, name, PARTITIONS)
    group = start_group(bootstrap, library, assignor, changes_protocol=True)
    old = [group.start() for _ in range(2)]
    group.wait_until_shared(old, partitions_of(name))
    assert type_of(group) == "classic"
    with Feed(bootstrap, name, PARTITIONS, None, per_second=500) as sending:
        progress(group, 200)
        members = replaced(group, old, CONFLUENT_KAFKA_CONSUMER, name)
        assert type_of(group) == "consumer"
        members = replaced(group, members, library, name)
        assert type_of(group) == "classic"
        values = sending.finish()
    group.wait_until_processed(values)


def replaced(group: Group, members: list[Member], client: str, topic: str) -> list[Member]:
    """Replace each member by a member of another client, one after the other."""
    members = list(members)
    for _ in range(len(members)):
        members.append(start(group, client))
        group.wait_until_shared(members, partitions_of(topic))
        progress(group, 100)
        members.pop(0).close()
        group.wait_until_shared(members, partitions_of(topic))
        progress(group, 100)
    return members


def start(group: Group, client: str, instance: str | None = None) -> Member:
    """Start a member; with the consumer protocol the broker's assignors are used."""
    before = group.settings
    if client == CONFLUENT_KAFKA_CONSUMER:
        group.settings = replace(before, assignor="uniform")
    try:
        return group.start(instance, client)
    finally:
        group.settings = before


@pytest.mark.real_time
def test_members_of_every_library_share_a_consumer_group(
    bootstrap: str, name: str, start_group: StartGroup
) -> None:
    """Consumer-protocol members and classic members of each library share the records."""
    create_topic(bootstrap, name, PARTITIONS)
    group = start_group(bootstrap, "kafka-python", "range", 2_500, changes_protocol=True)
    members = [start(group, CONFLUENT_KAFKA_CONSUMER) for _ in range(2)]
    group.wait_until_shared(members, partitions_of(name))
    members += [start(group, client) for client in LIBRARIES]
    group.wait_until_shared(members, partitions_of(name))
    values = feed(bootstrap, name, PARTITIONS, 600, "all-")
    group.wait_until_processed(values)
    assert all(member.processed() for member in members)
    members.pop(0).end()
    group.wait_until_shared(members, partitions_of(name))
    values += feed(bootstrap, name, PARTITIONS, 600, "without-")
    group.wait_until_processed(values)
    assert type_of(group) == "consumer"


@pytest.mark.real_time
def test_an_upgrade_from_an_assignor_with_data_of_its_own_is_refused(
    bootstrap: str, name: str, start_group: StartGroup
) -> None:
    """An upgrade from cooperative-sticky is refused, because its user data would be lost."""
    create_topic(bootstrap, name, PARTITIONS)
    group = start_group(bootstrap, "confluent-kafka", "cooperative-sticky", changes_protocol=True)
    members = [group.start() for _ in range(2)]
    group.wait_until_shared(members, partitions_of(name))
    moves = [member.moves() for member in members]
    refused = start(group, CONFLUENT_KAFKA_CONSUMER)
    (error,) = group.wait_until(lambda: refused.events("error"), "the error")
    assert "The group id does not exist" in error["message"]
    refused.end()
    values = feed(bootstrap, name, PARTITIONS, 100)
    group.wait_until_processed(values)
    assert [member.moves() for member in members] == moves, group.story()


@pytest.mark.parametrize("assignor", ["uniform", pytest.param("range", marks=pytest.mark.nightly)])
@pytest.mark.real_time
def test_what_a_killed_member_had_goes_to_the_others(
    bootstrap: str, name: str, start_group: StartGroup, assignor: str
) -> None:
    """After a member's kill -9 and session timeout, other members continue from its commits."""
    create_topic(bootstrap, name, PARTITIONS)
    group = start_group(bootstrap, CONFLUENT_KAFKA_CONSUMER, assignor, session_timeout_ms=2_000)
    members = [group.start() for _ in range(3)]
    group.wait_until_shared(members, partitions_of(name))
    with Feed(bootstrap, name, PARTITIONS, None, per_second=1_000) as sending:
        progress(group, 500)
        killed = members.pop()
        killed.send_signal(signal.SIGKILL)
        killed.process.wait(10)
        killed_at = time.monotonic()
        group.wait_until_shared(members, partitions_of(name))
        assert time.monotonic() - killed_at > 1.5, "the last heartbeat was at most an interval ago"
        values = sending.finish()
    ends = Counter((name, record.partition) for record in sending.acknowledged)
    group.wait_until(
        lambda: committed_offsets(bootstrap, group.settings.group) == ends, "all are committed"
    )
    # The killed member may not have reported its last commit.
    told = [record[3] for record in group.processed()]
    assert len(told) == len(set(told))
    assert len(values) - len(told) <= group.settings.max_poll_records


@pytest.mark.nightly
@pytest.mark.real_time
def test_a_pattern_is_resolved_by_the_broker(
    bootstrap: str, name: str, start_group: StartGroup
) -> None:
    """All topics that match a regular expression are consumed, including topics created later.

    A broker looks for new topics every ten seconds.
    """
    create_topic(bootstrap, f"{name}-a", 2)
    create_topic(bootstrap, f"{name}.other", 2)
    group = start_group(bootstrap, CONFLUENT_KAFKA_CONSUMER, "uniform")
    group.settings = replace(group.settings, topics=[f"^{name}-[a-z]+"])
    members = [group.start() for _ in range(2)]
    group.wait_until_shared(members, [(f"{name}-a", 0), (f"{name}-a", 1)])
    create_topic(bootstrap, f"{name}-b", 2)
    wanted = [(f"{name}-{letter}", number) for letter in "ab" for number in (0, 1)]
    group.wait_until_shared(members, wanted)
    values = [
        value for letter in "ab" for value in feed(bootstrap, f"{name}-{letter}", 2, 50, letter)
    ]
    group.wait_until_processed(values)
    patterns = {member.subscribed_topic_regex for member in described(group).members}
    assert patterns == {f"(^{name}-[a-z]+)"}, "as librdkafka sends it"


@pytest.mark.real_time
def test_a_static_member_is_away_for_a_while(
    bootstrap: str, name: str, start_group: StartGroup
) -> None:
    """A static member that leaves temporarily gets its partitions back; no partition moves."""
    create_topic(bootstrap, name, PARTITIONS)
    group = start_group(bootstrap, CONFLUENT_KAFKA_CONSUMER, "uniform", session_timeout_ms=20_000)
    members = {instance: group.start(instance) for instance in ("one", "two")}
    group.wait_until_shared(list(members.values()), partitions_of(name))
    values = feed(bootstrap, name, PARTITIONS, 200, "start-")
    group.wait_until_processed(values)
    owned, moves = members["one"].owned(), members["two"].moves()
    members["one"].close()
    values += feed(bootstrap, name, PARTITIONS, 200, "away-")
    back = group.start("one")
    group.wait_until_shared([back], owned)
    group.wait_until_processed(values)
    assert members["two"].moves() == moves, group.story()


@pytest.mark.nightly
@pytest.mark.real_time
def test_a_mixed_group_goes_on_after_kill_9_of_the_broker(
    start_broker: Callable[..., Broker], name: str, start_group: StartGroup
) -> None:
    """After kill -9 in the middle of an upgrade, the members continue and the upgrade completes."""
    broker = start_broker()
    create_topic(broker.bootstrap_servers, name, PARTITIONS)
    group = start_group(
        broker.bootstrap_servers, "confluent-kafka", "range", 20_000, changes_protocol=True
    )
    members = [
        start(group, client)
        for client in ("confluent-kafka", CONFLUENT_KAFKA_CONSUMER)
        for _ in range(2)
    ]
    group.wait_until_shared(members, partitions_of(name))
    with Feed(broker.bootstrap_servers, name, PARTITIONS, None, per_second=500) as sending:
        progress(group, 300)
        broker.kill()
        broker.start()
        progress(group, 300)
        group.wait_until_shared(members, partitions_of(name))
        for member in members[:2]:
            member.close()
        group.wait_until_shared(members[2:], partitions_of(name))
        progress(group, 100)
        broker.kill()
        broker.start()
        progress(group, 300)
        values = sending.finish()
    group.wait_until_processed(values)
    assert {record[3] for record in group.processed()} == set(values)
