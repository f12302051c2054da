"""Requests and routes of the control server.

The table of routes is in `routes`. Handlers, such as the functions in `clock`, `data` and `groups`,
depend on this module only, not on the table.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from coordinator_server.cluster import Cluster


_INT64 = 1 << 63
_INT64_DIGITS = 19


class ControlError(Exception):
    """A failed request: `status` is the HTTP status, the message states the problem.

    `headers` are sent with the response.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class ControlRequest(NamedTuple):
    """One request: `parameters` from the path, by name, and the `query` parameters."""

    cluster: Cluster
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes

    def json(self, *fields: str) -> dict[str, Any]:
        """Return the body as a JSON object with no other fields, {} if the body is empty.

        Raises ControlError.
        """
        try:
            value = json.loads(self.body or b"{}")
        except (ValueError, RecursionError) as error:
            raise ControlError(400, f"the body is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise ControlError(400, "the body is not a JSON object")
        refuse_others("field of the body", value, fields)
        return value


def refuse_others(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise ControlError if a name is not known, with the known names."""
    for name in given:
        if name not in known:
            names = f"the names are {', '.join(known)}" if known else "there is none"
            raise ControlError(400, f"{name!r} is no {what}: {names}")


def natural_number(text: str) -> int | None:
    """Parse decimal digits; return None for other text and for numbers of 2^63 or more."""
    if not (text.isascii() and text.isdigit() and len(text) <= _INT64_DIGITS):
        return None
    return number if (number := int(text)) < _INT64 else None


Answer = Callable[[ControlRequest], Awaitable[dict[str, Any]]]


class ControlRoute(NamedTuple):
    """A method, a path and a handler. Upper-case words of the path are parameters.

    `answer(request)` returns the response, which is sent as JSON, or raises ControlError. `query`
    has the names of the query parameters.
    """

    method: str
    path: str
    answer: Answer
    query: tuple[str, ...] = ()
