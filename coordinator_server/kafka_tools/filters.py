"""Topics by name or pattern, as the option `--topic` of Kafka's tools selects them."""

from __future__ import annotations

import re
from collections.abc import Callable

from coordinator_server.kafka_tools.frame import ToolError

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


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
