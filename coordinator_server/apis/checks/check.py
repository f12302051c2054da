"""The parts of a row of the table."""

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
    """A request, and what its client may do."""

    __slots__ = ("access", "broker", "call")

    def __init__(self, broker: Broker, call: Call, access: Access) -> None:
        self.broker = broker
        self.call = call
        self.access = access


Serve = Callable[[Asking, Any], Generator[None, None, bool]]
"""`serve(asking, request)` asks for the entries of a request, in steps, and arranges the answer.
It returns whether the handler is to serve what is left; if not, the request is answered."""


class AccessCheck(NamedTuple):
    """One question, for readers: about what, and what a refusal looks like."""

    operation: Operation
    resource_type: ResourceType
    resource: str
    refused: str = ""

    @property
    def answer(self) -> str:
        """What comes of a refusal."""
        return self.refused or AUTHORIZATION_FAILED[self.resource_type].name


class Whole(NamedTuple):
    """A question about the request as a whole, which fails when refused.

    `field` of the request has the name of the resource; None is the cluster. A null name is left to
    the handler. `message` goes with the error where there is room.
    """

    operation: Operation
    resource_type: ResourceType
    field: str | None = None
    message: str | None = None

    @property
    def check(self) -> AccessCheck:
        """For readers."""
        return AccessCheck(self.operation, self.resource_type, self.field or CLUSTER_NAME)

    @property
    def error(self) -> ErrorCode:
        """What a refusal is answered."""
        return AUTHORIZATION_FAILED[self.resource_type]

    def name(self, request: Any) -> str | None:
        """The name of the resource."""
        if self.field is None:
            return CLUSTER_NAME
        name: str | None = getattr(request, self.field)
        return name


Refuse = Callable[["Call", Any, "ErrorCode", "str | None"], "Generator[None, None, Message]"]
"""`refuse(call, request, error, message)` makes, in steps, the answer of a refused request."""


class Row(NamedTuple):
    """What an API asks: first `wholes`, then by `serve` what `checks` say.

    `refuse` makes the answer when one of `wholes` is refused, if it is not of the general form.
    `in_handler` says that the handler itself asks for what `checks` say.
    """

    wholes: tuple[Whole, ...] = ()
    checks: tuple[AccessCheck, ...] = ()
    serve: Serve | None = None
    refuse: Refuse | None = None
    in_handler: bool = False

    @property
    def all_checks(self) -> tuple[AccessCheck, ...]:
        """Everything, in the order in which it is asked."""
        return (*(whole.check for whole in self.wholes), *self.checks)
