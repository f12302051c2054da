"""The elements of a row of the authorization table."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.security.acl import (
    AUTHORIZATION_FAILED,
    CLUSTER_NAME,
    Operation,
    ResourceType,
)

if TYPE_CHECKING:
    from coordinator_server.security.access import Access
    from coordinator_server.security.checks.ports import CheckedBroker, CheckedCall
    from coordinator_server.security.rights import GrantedRights
    from protocol.errors import ErrorCode
    from protocol.schema import Message


class Asking:
    """A request with the access rights of its client; the handler gets `rights`."""

    __slots__ = ("access", "broker", "call", "rights")

    def __init__(
        self, broker: CheckedBroker, call: CheckedCall, access: Access, rights: GrantedRights
    ) -> None:
        self.broker = broker
        self.call = call
        self.access = access
        self.rights = rights


Serve = Callable[[Asking, Any], Generator[None, None, bool]]
"""`serve(asking, request)` checks the entries of a request, in steps: it removes refused entries
from the request and notes them in `asking.rights`, from which the handler builds the response.
Returns whether the handler must serve the rest; if not, the response has been sent."""


def allows_everything(*names: str | None) -> bool:
    """Return True for every resource; see `GrantedRights.allowed`."""
    return True


def each_topic(operation: Operation) -> Serve:
    """Return a check that lets the handler ask about single topics with `rights.allows`."""

    def serve(asking: Asking, request: Any) -> Generator[None, None, bool]:
        asking.rights.allowed = partial(asking.access.topic, operation)
        yield
        return True

    return serve


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


Refuse = Callable[["CheckedCall", Any, "ErrorCode", "str | None"], "Generator[None, None, Message]"]
"""`refuse(call, request, error, message)` builds the response to a refused request, in steps."""


class Row(NamedTuple):
    """The checks of an API: first `wholes`, then `checks`. `serve` does the checks in `checks`.

    `refuse` builds the response if one of `wholes` is refused and the general form does not fit.
    """

    wholes: tuple[Whole, ...] = ()
    checks: tuple[AccessCheck, ...] = ()
    serve: Serve | None = None
    refuse: Refuse | None = None

    @property
    def all_checks(self) -> tuple[AccessCheck, ...]:
        """All checks, in the order in which they are done."""
        return (*(whole.check for whole in self.wholes), *self.checks)
