"""The elements of a row of the authorization table."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.security.access import Access
from coordinator_server.security.acl import (
    AUTHORIZATION_FAILED,
    CLUSTER_NAME,
    Operation,
    ResourceType,
)

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from protocol.errors import ErrorCode
    from protocol.schema import Message


class Asking:
    """A request with the access rights of its client."""

    __slots__ = ("access", "broker", "call")

    def __init__(self, broker: Broker, call: Call, access: Access) -> None:
        self.broker = broker
        self.call = call
        self.access = access


Serve = Callable[[Asking, Any], Generator[None, None, bool]]
"""`serve(asking, request)` checks the entries of a request, in steps, and prepares the response.
Returns whether the handler must serve the rest; if not, the response has been sent."""


class AccessCheck(NamedTuple):
    """One check, for documentation: operation, resource, and the response to a refusal."""

    operation: Operation
    resource_type: ResourceType
    resource: str
    refused: str = ""

    @property
    def answer(self) -> str:
        """The response to a refusal."""
        return self.refused or AUTHORIZATION_FAILED[self.resource_type].name


class Whole(NamedTuple):
    """A check of the whole request, which fails if refused.

    `field` is the request field with the resource name; None means the cluster. Requests with a
    null name are left to the handler. `message` is sent with the error if there is a field.
    """

    operation: Operation
    resource_type: ResourceType
    field: str | None = None
    message: str | None = None

    @property
    def check(self) -> AccessCheck:
        """The check in documentation form."""
        return AccessCheck(self.operation, self.resource_type, self.field or CLUSTER_NAME)

    @property
    def error(self) -> ErrorCode:
        """The error code of a refusal."""
        return AUTHORIZATION_FAILED[self.resource_type]

    def name(self, request: Any) -> str | None:
        """Return the name of the resource, or None."""
        if self.field is None:
            return CLUSTER_NAME
        name: str | None = getattr(request, self.field)
        return name


Refuse = Callable[["Call", Any, "ErrorCode", "str | None"], "Generator[None, None, Message]"]
"""`refuse(call, request, error, message)` builds the response to a refused request, in steps."""


class Row(NamedTuple):
    """The checks of an API: first `wholes`, then `checks`, which `serve` makes.

    `refuse` builds the response if one of `wholes` is refused and the general form does not fit.
    `in_handler` means that the handler itself makes the `checks`.
    """

    wholes: tuple[Whole, ...] = ()
    checks: tuple[AccessCheck, ...] = ()
    serve: Serve | None = None
    refuse: Refuse | None = None
    in_handler: bool = False

    @property
    def all_checks(self) -> tuple[AccessCheck, ...]:
        """All checks, in the order in which they are made."""
        return (*(whole.check for whole in self.wholes), *self.checks)
