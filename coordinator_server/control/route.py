"""A row of the table of routes, and the values of its parameters."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from coordinator_server.control.errors import ControlError, natural_number

Answer = Callable[[Any], Awaitable[Any]]

BODY_BYTES = 64 * 1024
"""Size limit of the body of most requests."""

_INT64_MAX = (1 << 63) - 1
_KINDS = {"text": "string", "integer": "integer", "number": "number", "boolean": "boolean"}


_OF_COORDINATORS = ("GROUP", "TRANSACTIONAL_ID")
_WITHOUT_BROKER = ("brokers", "clock", "connections", "login", "reset", "restore", "snapshot")
"""Types of resources that only running brokers know, and changes that need no running broker."""


class Parameter(NamedTuple):
    """A query parameter. `kind` is text, integer, number, boolean or broker (a node id).

    `metavar` names the value in messages. A text with `choices` must be one of these, or with
    `is_list` some of these, separated by commas. `minimum` and `maximum` limit an integer.
    """

    name: str
    kind: str
    meaning: str
    default: object = None
    metavar: str = ""
    is_required: bool = False
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = _INT64_MAX
    is_list: bool = False

    def parse(self, text: str | None) -> Any:
        """Return the value of a parameter, the default if it is missing. Raises ControlError."""
        if text is None:
            if self.is_required:
                name = f"{self.name}={self.metavar or self.name.upper()}"
                text = f"the query parameter {name} is missing: {self.meaning}"
                raise ControlError(400, f"{text} (a field of the body is not read)")
            return self.default
        if self.kind == "integer":
            return self._integer(text)
        if self.kind == "number":
            return self._number(text)
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise ControlError(400, f"{self.name}={text} is neither true nor false")
            return text == "true"
        for part in (text.split(",") if self.is_list else (text,)) if self.choices else ():
            if part not in self.choices:
                known = ", ".join(self.choices)
                raise ControlError(400, f"{self.name}={part[:100]} is not one of {known}")
        return text

    def _integer(self, text: str) -> int:
        digits = text.removeprefix("-") if self.minimum < 0 else text
        number = natural_number(digits)
        if number is not None and digits != text:
            number = -number
        if number is None or not self.minimum <= number <= self.maximum:
            limits = f"from {self.minimum} to {self.maximum}"
            raise ControlError(400, f"{self.name}={text} is not a number {limits}")
        return number

    def _number(self, text: str) -> float:
        try:
            number = float(text)
        except ValueError as error:
            raise ControlError(400, f"{self.name}={text} is not a number") from error
        if math.isnan(number):
            raise ControlError(400, f"{self.name}={text} is not a number")
        return number

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the value."""
        schema: dict[str, Any] = {"type": _KINDS.get(self.kind, "integer")}
        if self.choices and self.is_list:
            known = "|".join(self.choices)
            schema["pattern"] = f"^({known})(,({known}))*$"
        elif self.choices:
            schema["enum"] = list(self.choices)
        if self.kind in ("integer", "broker"):
            schema |= {"minimum": self.minimum, "maximum": self.maximum}
        if self.default is not None:
            schema["default"] = self.default
        return schema


class ControlRoute(NamedTuple):
    """A row of the table of routes.

    Upper-case words of the path are parameters, see `routes.PATH_PARAMETERS`. `answer(request)`
    returns the response, which is sent as JSON, or raises ControlError; "MODULE:FUNCTION" in this
    package is imported with the first request. `verb` is the command of `coordinator-server ctl`,
    such as "topics list", and with `_` the method of the Python client. `response` and `body` are
    the shapes of the response and of the request's body: "MODULE:CLASS" in `shapes`. `needs` is the
    operation and the type of the resource that an ACL must allow a user, such as ("READ", "TOPIC");
    the resource's name is the parameter of the path. `content_type` is the type of the response. A
    route that `is_public` is served without a token or login. `body_bytes` limits the body.
    """

    method: str
    path: str
    answer: Answer | str
    query: tuple[Parameter, ...] = ()
    verb: str = ""
    meaning: str = ""
    response: str = ""
    body: str = ""
    needs: tuple[str, str] | None = None
    content_type: str = "application/json"
    is_public: bool = False
    body_bytes: int = BODY_BYTES

    @property
    def needs_broker(self) -> bool:
        """Whether the request gets 503 while no broker of the process runs.

        Only running coordinators know groups and transactions, and brokers make the changes.
        """
        if self.needs is not None and self.needs[1] in _OF_COORDINATORS:
            return True
        return self.method != "GET" and self.path.split("/")[1] not in _WITHOUT_BROKER

    def values(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of all query parameters by name. Raises ControlError."""
        return {
            parameter.name: parameter.parse(query.get(parameter.name)) for parameter in self.query
        }
