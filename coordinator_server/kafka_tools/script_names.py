"""The names of the tools: Kafka's scripts and the commands of `coordinator-server`.

    /opt/kafka/bin/kafka-topics.sh --list ...     # in the image: `container.scripts`
    coordinator-server topics --list ...

A script name works with and without `.sh`. A tool's module is imported when the tool runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple


class Script(NamedTuple):
    """A tool: its command, Kafka's script name without `.sh`, its module, and a help line."""

    command: str
    name: str
    module: str
    help: str


SCRIPTS = (
    Script("topics", "kafka-topics", "topics", "create, list, describe, change and delete topics"),
    Script(
        "groups",
        "kafka-consumer-groups",
        "consumer_groups",
        "list, describe and delete groups, and reset their offsets",
    ),
    Script("list-groups", "kafka-groups", "groups", "list groups of all types"),
    Script(
        "share-groups",
        "kafka-share-groups",
        "share_groups",
        "list, describe and delete share groups, and reset their offsets",
    ),
    Script(
        "streams-groups",
        "kafka-streams-groups",
        "streams_groups",
        "list, describe and delete streams groups, and reset their offsets",
    ),
    Script(
        "produce",
        "kafka-console-producer",
        "console_producer",
        "write lines of standard input to a topic",
    ),
    Script("consume", "kafka-console-consumer", "console_consumer", "print records of topics"),
    Script(
        "share-consume",
        "kafka-console-share-consumer",
        "console_share_consumer",
        "print records as a member of a share group",
    ),
    Script(
        "consumer-perf-test",
        "kafka-consumer-perf-test",
        "consumer_perf_test",
        "measure how fast records can be read",
    ),
    Script(
        "verifiable-producer",
        "kafka-verifiable-producer",
        "verifiable_producer",
        "write numbers, and print acknowledgements as JSON",
    ),
    Script(
        "verifiable-consumer",
        "kafka-verifiable-consumer",
        "verifiable_consumer",
        "read as a member of a group, and print assignments and records as JSON",
    ),
    Script(
        "producer-perf-test",
        "kafka-producer-perf-test",
        "producer_perf_test",
        "measure how fast records can be written",
    ),
    Script("configs", "kafka-configs", "configs", "print and change settings"),
    Script(
        "client-metrics",
        "kafka-client-metrics",
        "client_metrics",
        "manage subscriptions to client metrics",
    ),
    Script("acls", "kafka-acls", "acls", "add, remove and list ACLs"),
    Script(
        "delegation-tokens",
        "kafka-delegation-tokens",
        "delegation_tokens",
        "create, renew, expire and describe delegation tokens",
    ),
    Script(
        "offsets", "kafka-get-offsets", "get_offsets", "print the offsets of partitions at a time"
    ),
    Script(
        "delete-records", "kafka-delete-records", "delete_records", "delete records below an offset"
    ),
    Script("elect-leaders", "kafka-leader-election", "leader_election", "elect leaders"),
    Script(
        "reassign",
        "kafka-reassign-partitions",
        "reassign_partitions",
        "move partitions to other brokers",
    ),
    Script(
        "verify-replicas",
        "kafka-replica-verification",
        "replica_verification",
        "compare the replicas of partitions",
    ),
    Script("features", "kafka-features", "features", "print and change feature levels"),
    Script("log-dirs", "kafka-log-dirs", "log_dirs", "print the sizes of partitions on disk"),
    Script(
        "cluster",
        "kafka-cluster",
        "cluster",
        "print the cluster id and the brokers, and unregister a broker",
    ),
    Script("quorum", "kafka-metadata-quorum", "metadata_quorum", "describe the controller quorum"),
    Script(
        "transactions",
        "kafka-transactions",
        "transactions",
        "describe transactions, and end hanging ones",
    ),
    Script(
        "api-versions",
        "kafka-broker-api-versions",
        "api_versions",
        "print the API versions of each broker",
    ),
    Script(
        "storage",
        "kafka-storage",
        "storage",
        "print a random cluster id; data directories need no formatting",
    ),
)
_WITH_PARSER = (
    "kafka-producer-perf-test",
    "kafka-verifiable-consumer",
    "kafka-verifiable-producer",
)
"""Tools whose TOOL is a ParserTool."""

_WITH_COMMANDS = (
    "kafka-cluster",
    "kafka-features",
    "kafka-metadata-quorum",
    "kafka-transactions",
)
"""Tools with subcommands, whose TOOL is a CommandTool."""

BY_NAME = {script.name: script for script in SCRIPTS}
BY_COMMAND = {script.command: script for script in SCRIPTS}


def run_script(script: Script, arguments: Sequence[str]) -> int:
    """Run a tool and return its exit code."""
    from coordinator_server.kafka_tools.frame import run_tool

    module = import_module(f"coordinator_server.kafka_tools.{script.module}")
    if script.name in _WITH_COMMANDS:
        from coordinator_server.kafka_tools.commands import run_command_tool

        return run_command_tool(module.TOOL, arguments)
    if script.name in _WITH_PARSER:
        from coordinator_server.kafka_tools.commands import run_parser_tool

        return run_parser_tool(module.TOOL, arguments)
    return run_tool(module.TOOL, arguments)
