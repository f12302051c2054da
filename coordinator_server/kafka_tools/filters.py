"""Topic selection by name or pattern, for the option `--topic` of Kafka's tools."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinator_server.kafka_tools.frame import ToolError

if TYPE_CHECKING:
    from coordinator_server.client.client import Client

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")

# This project's broker creates this topic; Kafka has no such topic.
_UNLISTED_TOPIC = "__group_events"


def topic_filter(expression: str) -> Callable[[str], bool]:
    """Return a predicate for topic names (Kafka's IncludeList).

    The whole name must match. A comma means "or"; blanks and surrounding quotes are ignored. Raises
    ToolError for an invalid regular expression.
    """
    pattern = expression.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        regex = re.compile(pattern)
    except re.error as error:
        message = f"{pattern} is an invalid regex."
        raise ToolError("java.lang.RuntimeException", message) from error
    return lambda name: regex.fullmatch(name) is not None


def known_topics(client: Client, name: str | None) -> list[Any]:
    """Return the listed topics, and also the topic `name` if this project's broker hides it."""
    topics = list(client.call("listTopics", lambda: client.metadata(None)).topics)
    if name == _UNLISTED_TOPIC and all(topic.name != name for topic in topics):
        answer = client.call("listTopics", lambda: client.metadata([name]))
        topics += [topic for topic in answer.topics if not topic.error_code]
    return topics
