"""The control server: HTTP/1.1 with JSON responses, imported only with `--http`.

Off loopback the server requires a token: `Authorization: Bearer TOKEN`. Requests may also log in as
users of the broker, and then get what the ACLs of the user allow (see `login`). Web pages must not
control the server through a browser, so requests from other origins are refused, and without a
token also requests for foreign host names (DNS rebinding). h11 implements HTTP (framing,
keep-alive, pipelining, 100-continue); the table of routes is in `routes`.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from coordinator_server.config.config import format_address
from coordinator_server.config.hosts import is_address
from coordinator_server.control.json_steps import written
from coordinator_server.control.pace import in_steps
from coordinator_server.control.request import (
    Content,
    ControlError,
    ControlRequest,
    EventStream,
    refuse_others,
)
from coordinator_server.control.routes import ROUTES
from coordinator_server.control.state import ControlOptions, ControlState
from coordinator_server.events.log import LOG
from coordinator_server.net.acceptor import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coordinator_server.cluster import Cluster
    from coordinator_server.control.route import Answer, ControlRoute

HEAD_BYTES = 16 * 1024
BODY_BYTES = 16 * 1024 * 1024
"""Size limits of the head and the body of a request."""

SHORT_BODY_BYTES = 1024 * 1024
"""Size limit of a body that is not read in steps: all but records."""

_LONG_BODY = "records:NewRecords"

IDLE_SECONDS = 60.0
"""Time limit for an idle connection, for receiving a request and for sending a response."""

_READ_BYTES = 64 * 1024
_WRITE_BYTES = 256 * 1024
_LINGER_SECONDS = 2.0
_REASON_CHARACTERS = 200

_NAMES = {"TOPIC": "TOPIC", "GROUP": "GROUP", "TRANSACTIONAL_ID": "TRANSACTION", "CLUSTER": ""}
"""The parameter of a path that has the name of a resource, by type of the resource."""


class _Message(NamedTuple):
    """A received request; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class ControlServer:
    """The control server of one cluster. Call `start` first and `stop` at the end.

    If `token` is set, requests must send the token or log in as a user of the broker.
    """

    def __init__(
        self,
        cluster: Cluster,
        routes: Sequence[ControlRoute] = ROUTES,
        *,
        token: str | None = None,
        options: ControlOptions | None = None,
    ) -> None:
        self._cluster = cluster
        self._state = ControlState(cluster, options or ControlOptions(), token)
        self._routes = routes
        self._answers: dict[str, Answer] = {}
        self._host = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> str:
        """Listen on `host` (empty: loopback) and return the address. Raises StartError."""
        self._host = host = host or "127.0.0.1"
        try:
            self._server = await asyncio.start_server(self._on_connection, host, port)
        except OSError as error:
            address = format_address(host, port)
            raise StartError(f"cannot listen on --http {address}: {error.strerror}") from error
        address = format_address(host, self._server.sockets[0].getsockname()[1])
        LOG.emit("control.listening", address=address)
        return address

    async def stop(self) -> None:
        """Close the socket and the connections."""
        if self._server is not None:
            self._server.close()
        self._state.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(_report_bug)
        connection = _Connection(reader, writer)
        try:
            while await self._serve_one(connection):
                pass
            await connection.linger()
        except TimeoutError:
            writer.transport.abort()  # the client does not read its response
        except OSError:
            pass  # the client has disconnected
        except asyncio.CancelledError:
            pass  # the process is ending
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_one(self, connection: _Connection) -> bool:
        """Answer one request; return whether another request may follow."""
        headers: Mapping[str, str] = {}
        answer: object
        try:
            message = await connection.receive()
            if message is None:
                return False
            status, answer = 200, await self._answer(message)
        except ControlError as error:
            status, answer, headers = error.status, {"error": str(error)}, error.headers
        if isinstance(answer, EventStream):
            await connection.stream(answer)
            return False
        if not isinstance(answer, Content):
            answer = Content(await in_steps(written(answer)), "application/json", headers)
        return await connection.send(status, answer)

    async def _answer(self, message: _Message) -> object:
        """Return the response of the request's route. Raises ControlError."""
        self._check_origin(message)
        try:
            split = urlsplit(message.target)
        except ValueError as error:
            raise ControlError(400, f"{message.target!r} is not an address: {error}") from error
        # Split before decoding, because a group id may contain a slash.
        path = [unquote(segment) for segment in split.path.strip("/").split("/")]
        route, parameters = await self._find(message, path)
        user = None
        if not route.is_public:
            user = await self._state.user_of(message.headers.get("authorization", ""))
        if self._state.options.is_read_only and route.method != "GET" and not route.is_public:
            text = f"{message.method} {message.target}: this server is read-only (--http-read-only)"
            raise ControlError(403, text)
        if len(message.body) > SHORT_BODY_BYTES and route.body != _LONG_BODY:
            raise ControlError(413, f"the body is longer than {SHORT_BODY_BYTES} bytes")
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        refuse_others("query parameter", query, [parameter.name for parameter in route.query])
        request = ControlRequest(
            self._cluster,
            parameters,
            query,
            message.body,
            message.headers,
            route.values(query),
            route,
            user,
            self._state,
        )
        _check_access(request, route)
        return await self._answer_of(route)(request)

    def _check_origin(self, message: _Message) -> None:
        """Check the headers Host and Origin of a request. Raises ControlError."""
        host, origin = message.headers.get("host"), message.headers.get("origin")
        if not self._state.is_protected and host is not None and not self._is_own(host):
            text = f"Host: {host}: this is {self._host}; other names need --http-token-file"
            raise ControlError(403, text)
        if origin is not None and _is_foreign(origin, host):
            raise ControlError(403, f"a page of {origin} may not do that")

    async def _find(
        self, message: _Message, path: list[str]
    ) -> tuple[ControlRoute, dict[str, str]]:
        """Return the route of a request and the parameters in its path. Raises ControlError.

        Without a token, the answer does not tell which paths exist.
        """
        method = "GET" if message.method == "HEAD" else message.method
        allowed: list[str] = []
        for route in self._routes:
            parameters = _match(route.path, path)
            if parameters is None:
                continue
            if route.method == method:
                return route, parameters
            allowed += ["GET", "HEAD"] if route.method == "GET" else [route.method]
        await self._state.user_of(message.headers.get("authorization", ""))
        if allowed:
            methods = ", ".join(allowed)
            text = f"{message.target}: {message.method} is not served, but {methods}"
            raise ControlError(405, text, {"Allow": methods})
        raise ControlError(404, f"{message.target}: there is nothing here")

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


class _Connection:
    """A client's connection: receives whole requests and sends JSON responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._request: h11.Request | None = None
        self._is_whole = False  # whether the request was received completely

    async def receive(self) -> _Message | None:
        """Return the next request; None if the client closes the connection or stays idle.

        Raises ControlError for a malformed, too long or too slow request.
        """
        self._request, self._is_whole = None, False
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                return await self._receive()
        except TimeoutError as error:
            if self._request is None and not self._http.trailing_data[0]:
                return None  # the connection was idle between two requests
            raise ControlError(408, f"no whole request within {IDLE_SECONDS:g} s") from error
        except h11.RemoteProtocolError as error:
            reason = str(error)[:_REASON_CHARACTERS]
            if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                reason = f"the head, or a line between chunks, is longer than {HEAD_BYTES} bytes"
            raise ControlError(error.error_status_hint, reason) from error

    async def _receive(self) -> _Message | None:
        body = bytearray()
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Request):
                self._request = event
                _check_head(event)
            elif isinstance(event, h11.Data):
                body += event.data
                _check_length(len(body))
            elif isinstance(event, h11.EndOfMessage):
                assert self._request is not None, "h11 begins with the request"
                self._is_whole = True
                return _message(self._request, bytes(body))
            else:
                return None

    async def _next_event(self) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._http.they_are_waiting_for_100_continue:
                going_on = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
                self._writer.write(self._http.send(going_on))
            self._http.receive_data(await self._reader.read(_READ_BYTES))

    async def send(self, status: int, answer: Content) -> bool:
        """Send a response; return whether another request may follow.

        Raises TimeoutError if the client does not read the response.
        """
        fields = {
            "Content-Type": answer.content_type,
            "Content-Length": str(len(answer.body)),
            **answer.headers,
        }
        if not self._is_whole:
            fields["Connection"] = "close"
        self._send_head(status, fields)
        if not self._is_head:
            body = memoryview(answer.body)
            for start in range(0, len(body), _WRITE_BYTES):
                part = bytes(body[start : start + _WRITE_BYTES])
                self._writer.write(self._http.send(h11.Data(data=part)))
                await self._drain()
                await asyncio.sleep(0)  # a fast client does not keep other connections waiting
        self._writer.write(self._http.send(h11.EndOfMessage()))
        await self._drain()
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def stream(self, answer: EventStream) -> None:
        """Send a response without an end, until it ends or the client disconnects.

        Raises TimeoutError if the client does not read the response.
        """
        fields = {
            "Content-Type": answer.content_type,
            "Cache-Control": "no-store",
            "Connection": "close",
        }
        self._send_head(200, fields)
        if not self._is_head:
            async with aclosing(answer.parts) as parts:
                async for part in parts:
                    self._writer.write(self._http.send(h11.Data(data=part)))
                    await self._drain()
        self._writer.write(self._http.send(h11.EndOfMessage()))

    @property
    def _is_head(self) -> bool:
        return self._request is not None and self._request.method == b"HEAD"

    def _send_head(self, status: int, fields: Mapping[str, str]) -> None:
        head = h11.Response(
            status_code=status, headers=list(fields.items()), reason=HTTPStatus(status).phrase
        )
        self._writer.write(self._http.send(head))

    async def _drain(self) -> None:
        async with asyncio.timeout(IDLE_SECONDS):
            await self._writer.drain()

    async def linger(self) -> None:
        """Stop sending, and discard input for a moment before the connection is closed.

        Closing a socket with unread bytes makes the kernel reset the connection, and the client may
        lose the response (RFC 9112, section 9.6).
        """
        if self._writer.is_closing():
            return
        self._writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while await self._reader.read(_READ_BYTES):
                    pass


def _check_head(request: h11.Request) -> None:
    """Check a request's head before its body is read.

    Raises ControlError if the request is not HTTP/1.x, or if its head or body is too long. The head
    is checked because h11 limits only incomplete heads.
    """
    if not request.http_version.startswith(b"1."):
        raise ControlError(505, f"HTTP/{request.http_version.decode()} is not served")
    size_bytes = len(request.target) + sum(
        len(name) + len(value) for name, value in request.headers
    )
    if size_bytes > HEAD_BYTES:
        raise ControlError(431, f"the head is longer than {HEAD_BYTES} bytes")
    for name, value in request.headers:
        if name == b"content-length":
            _check_length(int(value))


def _check_length(body_bytes: int) -> None:
    if body_bytes > BODY_BYTES:
        raise ControlError(413, f"the body is longer than {BODY_BYTES} bytes")


def _message(request: h11.Request, body: bytes) -> _Message:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    return _Message(request.method.decode("ascii"), request.target.decode("ascii"), headers, body)


def _is_foreign(origin: str, host: str | None) -> bool:
    """Return whether an Origin header differs from the Host header."""
    try:
        return urlsplit(origin).netloc != host
    except ValueError:
        return True


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


def _report_bug(task: asyncio.Task[None]) -> None:
    """Log an unexpected exception of a connection's task. The connection is closed."""
    if not task.cancelled() and task.exception() is not None:
        LOG.emit("control.failed", exc_info=task.exception())
