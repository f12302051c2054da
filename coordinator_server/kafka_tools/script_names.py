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
    Script("topics", "kafka-topics", "topics", "create, list, describe, change topics"),
    Script("groups", "kafka-consumer-groups", "consumer_groups", "describe and move groups"),
    Script("list-groups", "kafka-groups", "groups", "list the groups of every kind"),
    Script("share-groups", "kafka-share-groups", "share_groups", "describe and move share groups"),
    Script(
        "streams-groups",
        "kafka-streams-groups",
        "streams_groups",
        "describe and move streams groups",
    ),
    Script("produce", "kafka-console-producer", "console_producer", "write lines to a topic"),
    Script("consume", "kafka-console-consumer", "console_consumer", "print records of topics"),
    Script(
        "share-consume",
        "kafka-console-share-consumer",
        "console_share_consumer",
        "print records as a member of a share group",
    ),
    Script(
        "consumer-perf-test", "kafka-consumer-perf-test", "consumer_perf_test", "how fast it reads"
    ),
    Script(
        "verifiable-producer",
        "kafka-verifiable-producer",
        "verifiable_producer",
        "write numbers, and print what was acknowledged",
    ),
    Script(
        "verifiable-consumer",
        "kafka-verifiable-consumer",
        "verifiable_consumer",
        "read as a member of a group, and print what happens",
    ),
    Script(
        "producer-perf-test", "kafka-producer-perf-test", "producer_perf_test", "how fast it writes"
    ),
    Script("configs", "kafka-configs", "configs", "show and change settings"),
    Script(
        "client-metrics",
        "kafka-client-metrics",
        "client_metrics",
        "subscriptions to metrics of clients",
    ),
    Script("acls", "kafka-acls", "acls", "add, remove and list ACLs"),
    Script(
        "delegation-tokens",
        "kafka-delegation-tokens",
        "delegation_tokens",
        "make, renew, end and describe delegation tokens",
    ),
    Script("offsets", "kafka-get-offsets", "get_offsets", "the offsets of partitions at a time"),
    Script("delete-records", "kafka-delete-records", "delete_records", "drop the oldest records"),
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
    Script("features", "kafka-features", "features", "the levels of features"),
    Script("log-dirs", "kafka-log-dirs", "log_dirs", "sizes of partitions on the disk"),
    Script("cluster", "kafka-cluster", "cluster", "the cluster's id, its brokers"),
    Script("quorum", "kafka-metadata-quorum", "metadata_quorum", "the quorum of controllers"),
    Script("transactions", "kafka-transactions", "transactions", "look at transactions, end them"),
    Script("api-versions", "kafka-broker-api-versions", "api_versions", "what each broker serves"),
    Script("storage", "kafka-storage", "storage", "a random cluster id; nothing is formatted"),
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
