"""Kafka's kafka-acls prints the same with our broker and with Kafka."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.oracle.kafka_process import SECONDS, Kafka, java
from tests.support import AUTHORIZED, Broker

ALICE = ("--allow-principal", "User:alice")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("--list",),
    ("--add", *ALICE, "--operation", "read", "--topic", "orders", "--group", "billing"),
    ("--add", *ALICE, "--producer", "--topic", "o", "--resource-pattern-type", "prefixed"),
    ("--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--topic", "*"),
    ("--add", *ALICE, "--operation", "alter", "--cluster"),
    ("--add", *ALICE, "--operation", "write", "--transactional-id", "t"),
    ("--list", "--topic", "orders", "--resource-pattern-type", "match"),
    ("--list", "--principal", "User:alice"),
    ("--remove", "--force", "--topic", "o", "--resource-pattern-type", "prefixed"),
    ("--remove", "--force", *ALICE, "--operation", "read", "--topic", "none"),
    ("--list",),
)


def _run(bootstrap_servers: str) -> list[list[str]]:
    """Return the output of each command with sorted lines, because Kafka's order is arbitrary."""
    main = "org.apache.kafka.tools.AclCommand"
    printed = []
    for command in COMMANDS:
        done = subprocess.run(
            java(main, "--bootstrap-server", bootstrap_servers, *command),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        # Sort and strip the lines: kafka-acls prints its ACLs in hash order, with a space before
        # the first.
        printed.append(sorted(line.strip() for line in done.stdout.splitlines()))
    return printed


@pytest.mark.nightly
def test_the_tool_prints_the_same(tmp_path: Path) -> None:
    """A super user adds, lists and removes ACLs with the same output."""
    with Broker(AUTHORIZED) as broker:
        ours = _run(broker.bootstrap_servers)
    kafka = Kafka(tmp_path, AUTHORIZED)
    kafka.start()
    try:
        theirs = _run(kafka.bootstrap_servers)
    finally:
        kafka.end()
    assert any("orders" in line for lines in ours for line in lines)
    for command, own, expected in zip(COMMANDS, ours, theirs, strict=True):
        assert own == expected, command
