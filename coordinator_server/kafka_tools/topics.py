"""kafka-topics.sh: list, create, describe, change and delete topics (Kafka's TopicCommand)."""

from __future__ import annotations

from coordinator_server.kafka_tools.frame import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Tool,
    connect,
)
from coordinator_server.kafka_tools.options import Option, Options

OPTIONS = (BOOTSTRAP_SERVER, COMMAND_CONFIG, Option("list", "List all topics."))


def run(options: Options) -> int:
    """Do what the options say; returns the exit code."""
    client = connect(options)
    answer = client.call("listTopics", lambda: client.metadata(None))
    print("\n".join(sorted(topic.name for topic in answer.topics)))
    return 0


TOOL = Tool("kafka-topics", OPTIONS, run, "Create, delete, describe, or change a topic.")
