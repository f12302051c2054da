"""The client attributes that a coordinator's response can depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

MayDescribe = Callable[[str], bool]
"""Return whether the principal may describe the topic with this name."""


class Caller(NamedTuple):
    """The sender of a request: client id (None if null), host as Kafka prints it, API version.

    `may_describe(topic)` returns whether the caller may see a topic; None allows every topic.
    """

    client_id: str | None
    client_host: str
    api_version: int
    may_describe: MayDescribe | None = None
