"""kafka-log-dirs.sh: print partition sizes in the brokers' log directories (LogDirsCommand)."""

from __future__ import annotations

import json
import sys
from typing import Any

from coordinator_server.client import Client, ClientError, ClientSettings, check
from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    EXECUTION,
    ToolSpec,
    connect,
    parse_integer,
    raise_wrapped,
)
from coordinator_server.kafka_tools.java import exception_name, in_hash_order
from coordinator_server.kafka_tools.options import Option, Options
from protocol.errors import ErrorCode

OPTIONS = (
    BOOTSTRAP_SERVER._replace(argument="The server(s) to use for bootstrapping"),
    COMMAND_CONFIG._replace(argument="Admin client property file"),
    Option("describe", "REQUIRED: describe the log directories."),
    Option("topic-list", "The topics, separated by commas (default: all).", "Topic list"),
    Option("broker-list", "The broker ids, separated by commas (default: all).", "Broker list"),
)


def run(options: Options) -> int:
    """Print the brokers' responses as one JSON document."""
    options.required("bootstrap-server", "describe")
    client = connect(options, settings=ClientSettings(client_id="log-dirs-tool"))
    try:
        topics = set(_items(options, "topic-list"))
        known = sorted(broker.node_id for broker in client.metadata([]).brokers)
        asked = {parse_integer(text) for text in _items(options, "broker-list")}
        unknown = asked.difference(known)
        if unknown:
            print(
                "ERROR: The given brokers do not exist from --broker-list: "
                f"{_joined(unknown)}. Current existent brokers: {_joined(known)}",
                file=sys.stderr,
            )
            return 1
        brokers = sorted(asked or known)
        print("Querying brokers for log directories information")
        try:
            described = [_described(client, node_id, topics) for node_id in brokers]
        except ClientError as error:
            raise_wrapped(error, EXECUTION)
    finally:
        client.close()
    print(f"Received log directory information from brokers {_joined(brokers)}")
    print(json.dumps({"brokers": described, "version": 1}, separators=(",", ":")))
    return 0


def _items(options: Options, name: str) -> list[str]:
    return [item for item in (options.value(name) or "").split(",") if item]


def _joined(node_ids: Any) -> str:
    return ",".join(map(str, sorted(node_ids)))


def _described(client: Client, node_id: int, topics: set[str]) -> dict[str, Any]:
    """Return one broker's log directories in the format of Kafka's tool."""
    from protocol.apis.describe_log_dirs import DescribeLogDirsRequest

    request = DescribeLogDirsRequest(topics=None)
    answer = client.call("describeLogDirs", lambda: client.ask(request, node_id))
    check(answer.error_code)
    directories = []
    for result in answer.results:
        sizes = {
            (topic.name, part.partition_index): part
            for topic in result.topics
            if not topics or topic.name in topics
            for part in topic.partitions
        }
        partitions = [
            {
                "partition": f"{topic}-{index}",
                "size": sizes[topic, index].partition_size,
                "offsetLag": sizes[topic, index].offset_lag,
                "isFuture": sizes[topic, index].is_future_key,
            }
            for topic, index in in_hash_order(sizes)
        ]
        error = exception_name(ErrorCode(result.error_code)) if result.error_code else None
        directories.append({"partitions": partitions, "error": error, "logDir": result.log_dir})
    return {"broker": node_id, "logDirs": directories}


TOOL = ToolSpec(
    "kafka-log-dirs",
    OPTIONS,
    run,
    "This tool helps to query log directory usage on the specified brokers.",
)
