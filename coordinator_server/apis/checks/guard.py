"""Wraps the handlers of all APIs in access checks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from coordinator_server.apis.checks.check import Asking, Row, Serve, Whole
from coordinator_server.apis.checks.table import TABLE
from coordinator_server.security.access import Access, log_denial
from coordinator_server.steps import run_all
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.security.authorizer import Authorizer
    from coordinator_server.steps import Steps
    from protocol.registry import ApiSpec

    Handler = Callable[[Broker, Call, Any], Steps | None]


def guarded(authorizer: Authorizer, spec: ApiSpec, handle: Handler) -> Handler:
    """Return the handler wrapped in the checks of the API's row in the table."""
    row = TABLE[spec.name]
    if row.serve is not None:
        handle = _with_entries(authorizer, row.serve, handle)
    for whole in reversed(row.wholes):
        handle = _with_whole(authorizer, row, whole, handle)
    return handle


def _with_whole(authorizer: Authorizer, row: Row, whole: Whole, handle: Handler) -> Handler:
    allows = authorizer.allows
    operation, resource_type, name_of = whole.operation, whole.resource_type, whole.name

    def guarded(broker: Broker, call: Call, request: Any) -> Steps | None:
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


def _with_entries(authorizer: Authorizer, serve: Serve, handle: Handler) -> Handler:
    def guarded(broker: Broker, call: Call, request: Any) -> Steps | None:
        asked = serve(
            Asking(broker, call, Access(authorizer, call.connection, call.api_name)), request
        )
        if call.is_large:
            return _in_steps(asked, handle, broker, call, request)
        return handle(broker, call, request) if run_all(asked) else None

    return guarded


def _in_steps(
    asked: Generator[None, None, bool], handle: Handler, broker: Broker, call: Call, request: Any
) -> Steps:
    if (yield from asked):
        steps = handle(broker, call, request)
        if steps is not None:
            yield from steps


def refuse(call: Call, row: Row, request: Any, error: ErrorCode, message: str | None) -> None:
    """Send the response to a request that is refused as a whole."""
    if row.refuse is None:
        call.refuse(error, message)
    else:
        call.reply_with(row.refuse(call, request, error, message))
