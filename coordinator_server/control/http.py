"""The control server: HTTP/1.1 with JSON responses, imported only with `--http`.

Off loopback the server requires a token: `Authorization: Bearer TOKEN`. Requests may also log in as
users of the broker, and then get what the ACLs of the user allow (see `login`). Web pages must not
control the server through a browser, so requests from other origins are refused, and without a
token also requests for foreign host names (DNS rebinding). A request is refused by its head, before
its body is read, if its token, route or rights are wrong. `http_connection` has HTTP itself, the
table of routes is in `routes`.
"""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from coordinator_server.config.config import format_address
from coordinator_server.config.hosts import is_address
from coordinator_server.control.errors import shown
from coordinator_server.control.http_connection import Head, HeldBytes, HttpConnection
from coordinator_server.control.json_steps import written
from coordinator_server.control.lag_history import LagHistory
from coordinator_server.control.pace import in_steps
from coordinator_server.control.request import (
    Content,
    ControlError,
    ControlRequest,
    EventStream,
    check_running,
    check_size,
    refuse_others,
)
from coordinator_server.control.route import BODY_BYTES
from coordinator_server.control.routes import PATH_PARAMETERS, ROUTES
from coordinator_server.control.state import ControlOptions, ControlState
from coordinator_server.events.log import LOG
from coordinator_server.net.acceptor import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator_server.cluster import Cluster
    from coordinator_server.cluster_restore import ServedCluster
    from coordinator_server.control.route import Answer, ControlRoute

MOST_CONNECTIONS = 256
"""Limit of open connections, including listeners to events."""

_LEAVING_SECONDS = 0.1
"""How long a restore waits for the end of cancelled requests."""

_MOST_CHARACTERS = 10_000
"""Limit of the text of an error."""

_NAMES = {"TOPIC": "TOPIC", "GROUP": "GROUP", "TRANSACTIONAL_ID": "TRANSACTION", "CLUSTER": ""}
"""The parameter of a path that has the name of a resource, by type of the resource."""


class ControlServer:
    """The control server of one cluster. Call `start` first and `stop` at the end.

    If `token` is set, requests must send the token or log in as a user of the broker. `served` can
    replace the cluster while the server runs.
    """

    def __init__(
        self,
        cluster: Cluster,
        routes: Sequence[ControlRoute] = ROUTES,
        *,
        token: str | None = None,
        options: ControlOptions | None = None,
        served: ServedCluster | None = None,
    ) -> None:
        self._cluster = cluster
        self._state = ControlState(cluster, options or ControlOptions(), token, served)
        if served is not None:
            served.prepare, served.use = self._leave, self._use
        self._lag_history = LagHistory(cluster)
        self._state.lag_samples = self._lag_history.of_group
        self._routes = routes
        self._answers: dict[str, Answer] = {}
        self._host = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[None]] = set()
        """The tasks that answer a request or send events."""
        self._is_between_clusters = False
        self._held = HeldBytes()

    async def start(self, host: str, port: int) -> str:
        """Listen on `host` (empty: loopback) and return the address. Raises StartError."""
        self._host = host = host or "127.0.0.1"
        try:
            self._server = await asyncio.start_server(self._on_connection, host, port)
        except OSError as error:
            address = format_address(host, port)
            raise StartError(f"cannot listen on --http {address}: {error.strerror}") from error
        self._lag_history.start()
        address = format_address(host, self._server.sockets[0].getsockname()[1])
        LOG.emit("control.listening", address=address)
        return address

    async def stop(self) -> None:
        """Close the socket and the connections."""
        if self._server is not None:
            self._server.close()
        self._is_between_clusters = False
        self._lag_history.stop()
        self._state.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _leave(self) -> None:
        """Answer no more requests from the cluster: requests in progress get 503, events end.

        Returns when these requests have ended, at the latest after _LEAVING_SECONDS.
        """
        self._is_between_clusters = True
        self._lag_history.stop()
        leaving = self._busy - {self._state.restoring}
        for task in leaving:
            task.cancel()
        end_s = monotonic() + _LEAVING_SECONDS
        while leaving & self._busy and monotonic() < end_s:
            await asyncio.sleep(0)

    def _use(self, cluster: Cluster) -> None:
        """Serve another cluster, unless this server has been stopped."""
        if self._server is None or not self._server.is_serving():
            return
        self._cluster = cluster
        self._state.use(cluster)
        self._lag_history = LagHistory(cluster)
        self._state.lag_samples = self._lag_history.of_group
        self._lag_history.start()
        self._is_between_clusters = False

    async def _on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = HttpConnection(reader, writer, self._held)
        try:
            if len(self._tasks) > MOST_CONNECTIONS:
                text = f"this server has {MOST_CONNECTIONS} connections already"
                await connection.send(503, _error(ControlError(503, text)))
            else:
                while await self._serve_one(connection):
                    pass
            await connection.linger()
        except TimeoutError:
            writer.transport.abort()  # the client does not read its response
        except OSError:
            pass  # the client has disconnected
        except asyncio.CancelledError:
            pass  # the process is ending
        except Exception:
            LOG.emit("control.failed", exc_info=True)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_one(self, connection: HttpConnection) -> bool:
        """Answer one request; return whether another request may follow."""
        answer: Content | EventStream
        task = asyncio.current_task()
        assert task is not None
        try:
            head = await connection.head()
            if head is None:
                return False
            self._check_cluster()
            self._busy.add(task)
            status, answer = 200, await self._answer_safely(connection, head)
        except ControlError as error:
            status, answer = error.status, _error(error)
        except asyncio.CancelledError:
            if not self._is_between_clusters:
                raise
            task.uncancel()
            status, answer = 503, _error(_between_clusters())
        finally:
            connection.release()
            self._busy.discard(task)
        if isinstance(answer, EventStream):
            self._busy.add(task)
            try:
                await connection.stream(answer)
            finally:
                self._busy.discard(task)
            return False
        return await connection.send(status, answer)

    def _check_cluster(self) -> None:
        """Raise ControlError while the cluster is being replaced."""
        if self._is_between_clusters:
            raise _between_clusters()

    async def _answer_safely(self, connection: HttpConnection, head: Head) -> Content | EventStream:
        """Return the response of the request's route. Raises ControlError, also for a bug.

        Raises OSError if the client disconnects before its body has arrived.
        """
        try:
            route, request = await self._admitted(head, connection.client_host)
        except ControlError:
            raise
        except Exception as error:
            raise _failed(head, error) from error
        body = await connection.body(route.body_bytes)
        try:
            if len(body) > BODY_BYTES:
                await in_steps(check_size(body))
            answer = await self._answer_of(route)(request._replace(body=body))
            if isinstance(answer, Content | EventStream):
                return answer
            return Content(await in_steps(written(answer)), "application/json")
        except ControlError:
            raise
        except Exception as error:
            raise _failed(head, error) from error

    async def _admitted(self, head: Head, client_host: str) -> tuple[ControlRoute, ControlRequest]:
        """Return the route of a request, and the request without body, if the user may send it.

        Raises ControlError.
        """
        self._check_origin(head)
        path, query_text = _split(head.target)
        route, parameters = await self._find(head, path, client_host)
        user = None
        if not route.is_public:
            user = await self._state.user_of(head.headers.get("authorization", ""), client_host)
        if self._state.options.is_read_only and route.method != "GET" and not route.is_public:
            text = f"{head.method} {head.target}: this server is read-only (--http-read-only)"
            raise ControlError(403, text)
        query = _query_of(route, query_text)
        request = ControlRequest(
            self._cluster,
            parameters,
            query,
            b"",
            head.headers,
            route.values(query),
            route,
            user,
            self._state,
            client_host,
        )
        _check_access(request, route)
        _check_encoding(head)
        if route.needs_broker:
            check_running(self._cluster)
        return route, request

    def _check_origin(self, head: Head) -> None:
        """Check the headers Host and Origin of a request. Raises ControlError."""
        host, origin = head.headers.get("host"), head.headers.get("origin")
        if not self._state.is_protected and host is not None and not self._is_own(host):
            text = f"Host: {host}: this is {self._host}; other names need --http-token-file"
            raise ControlError(403, text)
        if origin is not None and _is_foreign(origin, host):
            raise ControlError(403, f"a page of {origin} may not do that")

    async def _find(
        self, head: Head, path: list[str], client_host: str
    ) -> tuple[ControlRoute, dict[str, str]]:
        """Return the route of a request and the parameters in its path. Raises ControlError.

        Without a token, the answer does not tell which paths exist.
        """
        method = "GET" if head.method == "HEAD" else head.method
        allowed: list[str] = []
        matching = None
        for route in self._routes:
            parameters = _match(route.path, path)
            if parameters is None:
                continue
            if route.method == method:
                matching = route, parameters
                break
            allowed += ["GET", "HEAD"] if route.method == "GET" else [route.method]
        if matching is not None and all(matching[1].values()):
            return matching
        await self._state.user_of(head.headers.get("authorization", ""), client_host)
        if matching is not None:
            word = next(word for word, text in matching[1].items() if not text)
            raise ControlError(400, f"{word} is empty in {head.target}: {PATH_PARAMETERS[word][1]}")
        if allowed:
            methods = ", ".join(allowed)
            text = f"{head.target}: {head.method} is not served, but {methods}"
            raise ControlError(405, text, {"Allow": methods})
        raise ControlError(404, f"{head.target}: there is nothing here")

    def _answer_of(self, route: ControlRoute) -> Answer:
        """Return the handler of a route, which is imported with the first request."""
        if not isinstance(route.answer, str):
            return route.answer
        answer = self._answers.get(route.answer)
        if answer is None:
            module, _, name = route.answer.partition(":")
            answer = getattr(import_module(f"coordinator_server.control.{module}"), name)
            self._answers[route.answer] = answer
        return answer

    def _is_own(self, host: str) -> bool:
        """Return whether a Host header is an IP address, localhost or this server's host name."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in ("localhost", self._host.lower()) or is_address(name)


def _error(error: ControlError) -> Content:
    """Return the response of a failed request."""
    body = json.dumps({"error": str(error)[:_MOST_CHARACTERS]}).encode() + b"\n"
    return Content(body, "application/json", error.headers)


def _between_clusters() -> ControlError:
    return ControlError(503, "a snapshot is being restored: try again", {"Retry-After": "1"})


def _failed(head: Head, error: Exception) -> ControlError:
    """Log the exception being handled, and return the error for the client."""
    path = head.target.partition("?")[0]
    LOG.emit("control.failed", method=head.method, path=path, exc_info=True)
    text = f"{head.method} {path} failed: {type(error).__name__}, see the broker's log"
    return ControlError(500, text)


def _is_foreign(origin: str, host: str | None) -> bool:
    """Return whether an Origin header differs from the Host header."""
    try:
        return urlsplit(origin).netloc != host
    except ValueError:
        return True


def _split(target: str) -> tuple[list[str], str]:
    """Return the segments of the path of a target, unquoted, and its query. Raises ControlError.

    The path is split before it is decoded, because a group id may contain a slash. Empty segments
    stay: `//topics` is not `/topics`, and `/topics/` has an empty name.
    """
    target = target.partition("#")[0]
    path, _, query = target.partition("?")
    if not target.startswith("/"):  # the absolute form, which clients send to proxies
        try:
            _, _, path, query, _ = urlsplit(target)
        except ValueError as error:
            raise ControlError(400, f"{target!r} is not an address: {error}") from error
    return [_unquoted(segment) for segment in path.removeprefix("/").split("/")], query


def _query_of(route: ControlRoute, text: str) -> dict[str, str]:
    """Return the query parameters. Raises ControlError for unknown or repeated ones."""
    query: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name in query:
            values = f"{shown(query[name])} and {shown(value)}"
            raise ControlError(400, f"{shown(name)} is given twice: {values}")
        query[name] = value
    refuse_others("query parameter", query, [parameter.name for parameter in route.query])
    return query


def _unquoted(segment: str) -> str:
    """Return the text of a quoted segment of a path. Raises ControlError."""
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise ControlError(400, f"{segment[:200]} is not quoted UTF-8") from error


def _match(pattern: str, path: list[str]) -> dict[str, str] | None:
    """Return the parameters of a path, by the pattern's upper-case words; None if no match."""
    words = pattern.strip("/").split("/")
    if len(words) != len(path):
        return None
    parameters: dict[str, str] = {}
    for word, segment in zip(words, path, strict=True):
        if word.isupper():
            parameters[word] = segment
        elif word != segment:
            return None
    return parameters


def _check_encoding(head: Head) -> None:
    """Raise ControlError (415) if the body of a request is compressed."""
    encoding = head.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):
        text = f"Content-Encoding: {encoding} is not served: send the body as it is"
        raise ControlError(415, text, {"Accept-Encoding": "identity"})


def _check_access(request: ControlRequest, route: ControlRoute) -> None:
    """Check that the user's ACLs allow the route. Raises ControlError.

    Handlers of lists leave out what the user may not see.
    """
    if request.user is None or route.needs is None:
        return
    operation, resource_type = route.needs
    name = request.parameters.get(_NAMES[resource_type])
    if resource_type == "CLUSTER":
        request.require(operation, resource_type, "kafka-cluster")
    elif name is not None:
        request.require(operation, resource_type, name)
