"""Kafka's and our kafka-consumer-groups and kafka-groups show KIP-848 groups of a Kafka alike.

The groups are: one with a dynamic and a static member, one that has ended, one that is being
upgraded and has a classic member, and a classic group.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator_server.client import Client
from coordinator_server.kafka_tools.groups_read import committed_offsets, describe_group
from tests.oracle.consumers import polled
from tests.oracle.kafka_process import Kafka
from tests.scripts.player import OfficialTools, Outcome, ours
from tests.support import wait_for

TOOL = "kafka-consumer-groups"
CASES = (
    *(
        f"--describe --group {group} {what}".strip()
        for group in ("new", "ended", "mixed", "old", "none")
        for what in ("", "--verbose", "--members", "--members --verbose", "--state --verbose")
    ),
    "--describe --group none --group new --state",
    "--list",
    "--list --state --type",
    "--list --type consumer",
    "--list --type classic",
    "--list --state empty",
    "--delete --group new",
    "--delete-offsets --group new --topic orders",
    "--delete-offsets --group ended --topic orders",
    "--reset-offsets --group new --to-earliest --all-topics --execute",
    "--reset-offsets --group ended --to-earliest --topic orders --execute",
    "--reset-offsets --group ended --to-latest --all-topics --dry-run",
)
LISTINGS = (
    "--list",
    "--list --consumer",
    "--list --share",
    "--list --group-type consumer",
    "--list --group-type Classic",
    "--list --protocol consumer",
)
PATTERNS = (
    "ord.*",
    "",
    "(a",
    "a[",
    "a)",
    "a\\",
    "*a",
    "a{1001}",
    "a{2,1}",
    "a**",
    "a(?=b)",
    "\\8",
    "[b-a]",
    "[[:foo:]]",
    "(?P<n",
    "(?<n>a)",
    "(?z)",
    "\\pX",
)
PARTITION_COUNTS = {"new": [3, 4], "mixed": [3, 3], "old": [6]}
"""The groups with members, and the sorted partition counts of their members at the end."""
_FRAMES = re.compile(r"\n\s+at .*")


def plain(outcome: Outcome, *, is_list: bool) -> Outcome:
    """Return the outcome without stack frames; lists are sorted, as Kafka's order varies."""
    text = "\n".join(sorted(outcome.out.splitlines())) if is_list else outcome.out
    return outcome._replace(out=text, err=_FRAMES.sub("", outcome.err))


@pytest.mark.nightly
def test_groups_of_the_consumer_protocol_are_shown_as_kafkas_tool_shows_them(
    tmp_path: Path,
) -> None:
    """Both tools print the same and end with the same exit code."""
    kafka = Kafka(tmp_path, {"auto.create.topics.enable": "false"})
    with OfficialTools() as official, ExitStack() as stack:
        stack.callback(kafka.end)
        kafka.start()
        server = {"bootstrap.servers": kafka.bootstrap_servers}
        topics = [NewTopic("orders", 6, 1), NewTopic("bills", 1, 1)]
        admin = AdminClient(server)
        for created in admin.create_topics(topics).values():
            created.result(30)
        producer = confluent_kafka.Producer(server)
        for number in range(15):
            producer.produce("orders", b"x", partition=number % 5)
        assert not producer.flush(30)

        client = Client(kafka.bootstrap_servers)
        stack.callback(client.close)

        def joined(group: str, *names: str, **settings: str) -> confluent_kafka.Consumer:
            consumer = confluent_kafka.Consumer(
                {
                    **server,
                    "group.id": group,
                    "auto.offset.reset": "earliest",
                    "auto.commit.interval.ms": 100,
                    **{name.replace("_", "."): value for name, value in settings.items()},
                }
            )
            consumer.subscribe(list(names))
            return consumer

        new = {"group_protocol": "consumer"}
        consumers = [
            joined("new", "orders", client_id="one", **new),
            joined("new", "orders", "bills", client_id="two", group_instance_id="s", **new),
            joined("mixed", "orders", client_id="new", **new),
            joined("mixed", "orders", client_id="old", partition_assignment_strategy="range"),
            joined("old", "orders", client_id="old"),
        ]
        for consumer in consumers:
            stack.callback(consumer.close)
        ended = joined("ended", "orders", **new)
        with polled([ended]):
            wait_for(lambda: len(committed_offsets(client, "ended")) == 5, "it has committed")
        ended.close()
        stack.enter_context(polled(consumers))

        def have_committed() -> bool:
            return all(len(committed_offsets(client, group)) == 5 for group in PARTITION_COUNTS)

        def are_stable() -> bool:
            groups = [describe_group(client, group) for group in PARTITION_COUNTS]
            shares = [[len(member.partitions) for member in one.members] for one in groups]
            states = {one.state.lower() for one in groups}
            return states == {"stable"} and list(map(sorted, shares)) == [
                *PARTITION_COUNTS.values()
            ]

        wait_for(lambda: have_committed() and are_stable(), "the groups are as they are shown", 60)
        address = ["--bootstrap-server", kafka.bootstrap_servers]
        calls = [(TOOL, [*line.split(), *address]) for line in CASES]
        calls += [("kafka-groups", [*line.split(), *address]) for line in LISTINGS]
        calls += [(TOOL, ["--validate-regex", pattern]) for pattern in PATTERNS]
        for tool, arguments in calls:
            is_list = "--list" in arguments
            expected = plain(official(tool, arguments), is_list=is_list)
            assert plain(ours(tool, arguments), is_list=is_list) == expected, arguments
