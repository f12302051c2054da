"""Errors that a user can fix, reported in one line without a traceback."""

from __future__ import annotations

import re

_OF_KAFKA = re.compile(r"org\.apache\.kafka\.common\.\w+\.(\w+Exception: [^\n]+)")


class InputError(Exception):
    """An input is missing or cannot be read. The text names the input and what to do."""


def refused_by_kafka(text: str) -> str | None:
    """Return the error of a Kafka client from the text of a Spark error, else None.

    The text of a Spark error includes the Java stack trace of the failed task.
    """
    reason = _OF_KAFKA.search(text)
    return None if reason is None else reason[1]
