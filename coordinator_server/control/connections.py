"""Control requests about client connections."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from coordinator_server.control.brokers import broker_id
from coordinator_server.control.errors import ControlError, natural_number
from coordinator_server.control.pace import in_steps
from coordinator_server.control.pages import first
from coordinator_server.counting.connections import ClosedConnection, CountedConnection
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coordinator_server.control.request import ControlRequest
    from coordinator_server.steps import Computation

    AnyConnection = CountedConnection | ClosedConnection


async def connections(request: ControlRequest) -> dict[str, Any]:
    """GET /connections: list a page of client connections. Raises ControlError."""
    values = request.values
    after = _number(values["after"] or "0", "after")
    broker = None if values["broker"] is None else broker_id(request.cluster, values["broker"])
    now_ms = time.time_ns() // 1_000_000
    wanted = (
        (connection.number, node_id, connection)
        if connection.number > after and broker in (None, node_id) and _matches(request, connection)
        else None
        for node_id, connection in _listed(request)
    )
    page = await in_steps(first(wanted, values["limit"] + 1))
    has_more = len(page) > values["limit"]
    del page[values["limit"] :]
    return {
        "connections": await in_steps(_described(request, page, now_ms)),
        "next": str(page[-1][0]) if has_more else None,
    }


def _described(
    request: ControlRequest, page: list[tuple[int, int, AnyConnection]], now_ms: int
) -> Computation[list[dict[str, Any]]]:
    described = []
    for _, node_id, connection in page:
        described.append(_connection(request, node_id, connection, now_ms))
        yield
    return described


def _listed(request: ControlRequest) -> Iterator[tuple[int, AnyConnection]]:
    """Yield the open connections, and with `closed` those that were closed recently."""
    yield from _all(request)
    counts = request.cluster.shared.counts
    if request.values["closed"] and counts is not None:
        for broker in counts.brokers():
            for connection in tuple(broker.recently_closed):
                yield broker.node_id, connection


def _all(request: ControlRequest) -> Iterator[tuple[int, CountedConnection]]:
    for node_id, server in tuple(request.cluster.servers.by_id.items()):
        for connection in server.connections.open_connections():
            if isinstance(connection, CountedConnection):
                yield node_id, connection


def _matches(request: ControlRequest, connection: AnyConnection) -> bool:
    text, topic = request.values["filter"], request.values["topic"]
    if topic is not None and not (
        (topic in connection.topics_read or topic in connection.topics_written)
        and request.sees_topic(topic)
    ):
        return False
    return text is None or any(
        text in field
        for field in (
            connection.caller.client_id or "",
            connection.remote,
            str(connection.principal),
        )
    )


def _connection(
    request: ControlRequest, node_id: int, connection: AnyConnection, now_ms: int
) -> dict[str, Any]:
    """Describe a connection, with the topics that the user may see."""
    name, version = connection.software
    end_ms = now_ms if connection.closed_at_ms is None else connection.closed_at_ms
    connection.settle()
    in_progress = connection.use_in_progress
    uses = sorted(
        connection.uses.values(), key=lambda use: (use.traffic.spec.key, use.traffic.version)
    )
    return {
        "id": connection.number,
        "broker": node_id,
        "listener": connection.listener_name,
        "remote": connection.remote,
        "client_id": connection.caller.client_id,
        "software_name": name,
        "software_version": version,
        "principal": str(connection.principal),
        "connected_at_ms": connection.opened_at_ms,
        "closed_at_ms": connection.closed_at_ms,
        "age_ms": max(0, end_ms - connection.opened_at_ms),
        "last_request_at_ms": connection.last_request_at_ms,
        "requests": sum(use.requests for use in uses) + (in_progress is not None),
        "errors": sum(use.error_count for use in uses),
        "bytes_in": sum(use.received_bytes for use in uses),
        "bytes_out": sum(use.sent_bytes for use in uses),
        "apis": [
            {
                "api": use.traffic.spec.name,
                "version": use.traffic.version,
                "requests": use.requests + (use is in_progress),
                "errors": use.error_count,
                "last_error": _error(use.last_error),
            }
            for use in uses
        ],
        "topics_written": sorted(filter(request.sees_topic, connection.topics_written)),
        "topics_read": sorted(filter(request.sees_topic, connection.topics_read)),
    }


def _error(code: int) -> str | None:
    return ErrorCode(code).name if code else None


async def close(request: ControlRequest) -> dict[str, Any]:
    """DELETE /connections/ID: close a client connection. Raises ControlError."""
    number = _number(request.parameters["ID"], "the number of a connection")
    for _, connection in _all(request):
        if connection.number == number:
            connection.close()
            return {"id": number, "remote": connection.remote}
    raise ControlError(404, f"there is no connection {number}")


def _number(text: str, what: str) -> int:
    number = natural_number(text)
    if number is None:
        raise ControlError(400, f"{text[:100]!r} is not {what}")
    return number
