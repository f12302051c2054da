"""What a user can put right: said in one line, without a trace."""

from __future__ import annotations

import re

_OF_KAFKA = re.compile(r"org\.apache\.kafka\.common\.\w+\.(\w+Exception: [^\n]+)")


class InputError(Exception):
    """An input that is not there or cannot be read; the text says which and what to do."""


def refused_by_kafka(text: str) -> str | None:
    """Kafka's own reason in an error of Spark's, whose text has the stack of the task that failed.

    None where Kafka had no part in it.
    """
    reason = _OF_KAFKA.search(text)
    return None if reason is None else reason[1]
