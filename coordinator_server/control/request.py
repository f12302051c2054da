"""What an order to the control server is, and what a route of it is.

The routes stand in `control`; what answers them may live in modules of its own, which know orders
but not the table.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster


class ControlError(Exception):
    """Something that cannot be done; `status` is that of HTTP, the text names what and why."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class Order(NamedTuple):
    """What is asked: `parameters` stand in the path, `query` behind it."""

    cluster: Cluster
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as a JSON object, {} if there is none. Raises ControlError."""
        try:
            found = json.loads(self.body or b"{}")
        except ValueError as error:
            raise ControlError(400, f"the body is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise ControlError(400, "the body is not a JSON object")
        return found


Answer = Callable[[Order], Awaitable[dict[str, Any]]]


class Route(NamedTuple):
    """A method and a path, whose words in capitals are parameters, and what answers there.

    `answer(order)` gives what becomes JSON, or raises ControlError.
    """

    method: str
    path: str
    answer: Answer
