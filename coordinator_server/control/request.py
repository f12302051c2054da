"""A request to the control server, and a route of it, as the functions that answer know them.

The table of routes is in `routes`; the functions in `clock`, `data` and `groups` know requests, not
the table.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster


_INT64 = 1 << 63
_INT64_DIGITS = 19


class ControlError(Exception):
    """A request that cannot be answered with 200: `status` is HTTP's, the text says what and why.

    `headers` go with the answer.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class ControlRequest(NamedTuple):
    """One request: `parameters` by their names in the route's path, `query` after the `?`."""

    cluster: Cluster
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as a JSON object, {} if there is none. Raises ControlError."""
        try:
            value = json.loads(self.body or b"{}")
        except (ValueError, RecursionError) as error:
            raise ControlError(400, f"the body is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise ControlError(400, "the body is not a JSON object")
        return value


def natural_number(text: str) -> int | None:
    """The number that a text of decimal digits is; None for any other text, or from 2^63 on."""
    if not (text.isascii() and text.isdigit() and len(text) <= _INT64_DIGITS):
        return None
    return number if (number := int(text)) < _INT64 else None


Answer = Callable[[ControlRequest], Awaitable[dict[str, Any]]]


class ControlRoute(NamedTuple):
    """A method and a path, whose words in capitals are parameters, and the function that answers.

    `answer(request)` returns what is sent as JSON, or raises ControlError.
    """

    method: str
    path: str
    answer: Answer
