"""The control server: HTTP/1.1 with JSON responses, imported only with `--http`.

The server is for tests and people on the same machine and has no users. Off loopback it requires a
token: `Authorization: Bearer TOKEN`. Web pages must not control the server through a browser, so
requests from other origins are refused, and without a token also requests for foreign host names
(DNS rebinding). h11 implements HTTP (framing, keep-alive, pipelining, 100-continue); the table of
routes is in `routes`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from coordinator_server.config.config import format_address
from coordinator_server.config.hosts import is_address
from coordinator_server.control.request import ControlError, ControlRequest, refuse_others
from coordinator_server.control.routes import ROUTES
from coordinator_server.events.log import LOG
from coordinator_server.net.acceptor import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coordinator_server.cluster import Cluster
    from coordinator_server.control.request import ControlRoute

HEAD_BYTES = 16 * 1024
BODY_BYTES = 16 * 1024 * 1024
"""Size limits of the head and the body of a request."""

IDLE_SECONDS = 60.0
"""Time limit for an idle connection, for receiving a request and for sending a response."""

_READ_BYTES = 64 * 1024
_LINGER_SECONDS = 2.0
_REASON_CHARACTERS = 200


class _Message(NamedTuple):
    """A received request; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class ControlServer:
    """The control server of one cluster. Call `start` first and `stop` at the end.

    If `token` is set, requests must send the token.
    """

    def __init__(
        self,
        cluster: Cluster,
        routes: Sequence[ControlRoute] = ROUTES,
        *,
        token: str | None = None,
    ) -> None:
        self._cluster = cluster
        self._authorization = None if token is None else f"Bearer {token}".encode()
        self._routes = routes
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
        return await connection.send(status, answer, headers)

    async def _answer(self, message: _Message) -> object:
        """Return the response of the request's route. Raises ControlError."""
        self._check_token(message.headers.get("authorization", ""))
        host, origin = message.headers.get("host"), message.headers.get("origin")
        if self._authorization is None and host is not None and not self._is_own(host):
            text = f"Host: {host}: this is {self._host}; other names need --http-token-file"
            raise ControlError(403, text)
        if origin is not None and _is_foreign(origin, host):
            raise ControlError(403, f"a page of {origin} may not do that")
        try:
            split = urlsplit(message.target)
        except ValueError as error:
            raise ControlError(400, f"{message.target!r} is not an address: {error}") from error
        # Split before decoding, because a group id may contain a slash.
        path = [unquote(segment) for segment in split.path.strip("/").split("/")]
        method = "GET" if message.method == "HEAD" else message.method
        allowed: list[str] = []
        for route in self._routes:
            parameters = _match(route.path, path)
            if parameters is None:
                continue
            if route.method == method:
                query = dict(parse_qsl(split.query, keep_blank_values=True))
                refuse_others("query parameter", query, route.query)
                request = ControlRequest(self._cluster, parameters, query, message.body)
                return await route.answer(request)
            allowed += ["GET", "HEAD"] if route.method == "GET" else [route.method]
        if allowed:
            methods = ", ".join(allowed)
            text = f"{message.target}: {message.method} is not served, but {methods}"
            raise ControlError(405, text, {"Allow": methods})
        raise ControlError(404, f"{message.target}: there is nothing here")

    def _is_own(self, host: str) -> bool:
        """Return whether a Host header is an IP address, localhost or this server's host name."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in ("localhost", self._host.lower()) or is_address(name)

    def _check_token(self, given: str) -> None:
        if self._authorization is None:
            return
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._authorization):
            text = "the token of --http-token-file is missing or wrong: Authorization: Bearer TOKEN"
            raise ControlError(401, text, {"WWW-Authenticate": "Bearer"})


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

    async def send(self, status: int, answer: object, headers: Mapping[str, str]) -> bool:
        """Send a response as JSON; return whether another request may follow.

        Raises TimeoutError if the client does not read the response.
        """
        body = json.dumps(answer).encode() + b"\n"
        fields = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }
        if not self._is_whole:
            fields["Connection"] = "close"
        head = h11.Response(
            status_code=status, headers=list(fields.items()), reason=HTTPStatus(status).phrase
        )
        self._writer.write(self._http.send(head))
        if self._request is None or self._request.method != b"HEAD":
            self._writer.write(self._http.send(h11.Data(data=body)))
        self._writer.write(self._http.send(h11.EndOfMessage()))
        async with asyncio.timeout(IDLE_SECONDS):
            await self._writer.drain()
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

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


def _report_bug(task: asyncio.Task[None]) -> None:
    """Log an unexpected exception of a connection's task. The connection is closed."""
    if not task.cancelled() and task.exception() is not None:
        LOG.emit("control.failed", exc_info=task.exception())
