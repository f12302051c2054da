"""Topics by name or pattern, as the option `--topic` of Kafka's tools selects them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinator_server.kafka_tools.frame import ToolError

if TYPE_CHECKING:
    from coordinator_server.client.client import Client

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")

_UNLISTED_TOPIC = "__group_events"  # of our broker


def topic_filter(expression: str) -> Callable[[str], bool]:
    """Whether a whole name matches: a comma means "or", blanks and quotes around it do not count.

    Kafka's IncludeList. Raises ToolError when it is no regular expression.
    """
    pattern = expression.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        regex = re.compile(pattern)
    except re.error as error:
        message = f"{pattern} is an invalid regex."
        raise ToolError("java.lang.RuntimeException", message) from error
    return lambda name: regex.fullmatch(name) is not None


def known_topics(client: Client, name: str | None) -> list[Any]:
    """Return the topics that the broker lists, and the topic `name` if our broker hides it."""
    topics = list(client.call("listTopics", lambda: client.metadata(None)).topics)
    if name == _UNLISTED_TOPIC and all(one.name != name for one in topics):
        answer = client.call("listTopics", lambda: client.metadata([name]))
        topics += [one for one in answer.topics if not one.error_code]
    return topics
