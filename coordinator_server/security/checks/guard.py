"""Wraps the handlers of all APIs in access checks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from coordinator_server.security.access import Access, log_denial
from coordinator_server.security.checks.check import Asking, Row, Serve, Whole
from coordinator_server.security.checks.ports import CheckedBroker, CheckedCall
from coordinator_server.security.checks.table import TABLE
from coordinator_server.security.rights import GrantedRights
from coordinator_server.steps import run_all

if TYPE_CHECKING:
    from coordinator_server.security.authorizer import Authorizer
    from coordinator_server.steps import Steps
    from protocol.errors import ErrorCode
    from protocol.registry import ApiSpec

B = TypeVar("B", bound=CheckedBroker)
C = TypeVar("C", bound=CheckedCall)
Handler = Callable[[B, C, Any], "Steps | None"]


def guarded(authorizer: Authorizer, spec: ApiSpec, handle: Handler[B, C]) -> Handler[B, C]:
    """Return the handler wrapped in the checks of the API's row in the table."""
    row = TABLE[spec.name]
    if row.serve is not None:
        handle = _with_entries(authorizer, row.serve, handle)
    for whole in reversed(row.wholes):
        handle = _with_whole(authorizer, row, whole, handle)
    return handle


def _with_whole(
    authorizer: Authorizer, row: Row, whole: Whole, handle: Handler[B, C]
) -> Handler[B, C]:
    allows = authorizer.allows
    operation, resource_type, name_of = whole.operation, whole.resource_type, whole.name

    def guarded(broker: B, call: C, request: Any) -> Steps | None:
        connection = call.connection
        name = name_of(request)
        if name is None or allows(
            connection.principal, connection.client_host, operation, resource_type, name
        ):
            return handle(broker, call, request)
        log_denial(connection, operation, resource_type, name, call.api_name)
        refuse(call, row, request, whole.error, whole.message)
        return None

    return guarded


def _with_entries(authorizer: Authorizer, serve: Serve, handle: Handler[B, C]) -> Handler[B, C]:
    def guarded(broker: B, call: C, request: Any) -> Steps | None:
        access = Access(authorizer, call.connection, call.api_name)
        call.rights = rights = GrantedRights(access)
        asked = serve(Asking(broker, call, access, rights), request)
        if call.is_large:
            return _in_steps(asked, handle, broker, call, request)
        return handle(broker, call, request) if run_all(asked) else None

    return guarded


def _in_steps(
    asked: Generator[None, None, bool], handle: Handler[B, C], broker: B, call: C, request: Any
) -> Steps:
    if (yield from asked):
        steps = handle(broker, call, request)
        if steps is not None:
            yield from steps


def refuse(
    call: CheckedCall, row: Row, request: Any, error: ErrorCode, message: str | None
) -> None:
    """Send the response to a request that is refused as a whole."""
    if row.refuse is None:
        call.refuse(error, message)
    else:
        call.reply_with(row.refuse(call, request, error, message))
