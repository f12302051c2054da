"""Who sends a request, as far as its answer depends on that."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

MayDescribe = Callable[[str], bool]
"""Whether the principal may describe the topic of this name."""


class Caller(NamedTuple):
    """Who sent a request: client id (None when null), host as Kafka prints it, API version.

    `may_describe(topic)` says which topics it may see; None if all of them.
    """

    client_id: str | None
    client_host: str
    api_version: int
    may_describe: MayDescribe | None = None
