"""The control server: a very small HTTP/1.1 server with JSON answers, imported only when asked for.

It serves whoever tests with this broker, on the machine itself; it knows no users. So that no web
page can give orders through a browser, a request that a page of another origin sent is refused.
What it can do stands in one table of routes in `control`; here are only bytes.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from coordinator_server.config.config import format_address
from coordinator_server.control.request import ControlError, Order
from coordinator_server.control.routes import ROUTES
from coordinator_server.events.log import LOG
from coordinator_server.server import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinator_server.cluster import Cluster

_HEAD_BYTES = 16 * 1024
_BODY_BYTES = 16 * 1024 * 1024
_IDLE_SECONDS = 60.0
_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
}


class ControlServer:
    """The control server of one cluster: `start`, and `stop` at the end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> str:
        """Listen, on loopback if no host is given; the address. Raises StartError."""
        host = host or "127.0.0.1"
        try:
            self._server = await asyncio.start_server(
                self._on_connection, host, port, limit=_HEAD_BYTES
            )
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
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client has gone
        except asyncio.CancelledError:
            pass  # the process ends
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection goes on."""
        goes_on = False
        headers: Mapping[str, str] = {}
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                request = await _read_request(reader)
            goes_on = request.headers.get("connection", "").lower() != "close"
            status, answer = 200, await self._answer(request)
        except ControlError as error:
            status, answer, headers = error.status, {"error": str(error)}, error.headers
        except asyncio.LimitOverrunError:
            status, answer = 400, {"error": f"the head is longer than {_HEAD_BYTES} bytes"}
        body = json.dumps(answer).encode() + b"\n"
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "keep-alive" if goes_on else "close",
            **headers,
        }
        lines = [f"HTTP/1.1 {status} {_REASONS[status]}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        return goes_on

    async def _answer(self, request: Request) -> object:
        """Find the route of a request and have it answer. Raises ControlError."""
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise ControlError(403, f"a page of {origin} may not do that")
        there = []
        for route in ROUTES:
            parameters = _match(route.path, request.path)
            if parameters is None:
                continue
            if route.method == request.method:
                order = Order(self._cluster, parameters, request.query, request.body)
                return await route.answer(order)
            there.append(route.method)
        if there:
            allowed = ", ".join(there)
            message = f"{request.target}: {request.method} is not served, but {allowed}"
            raise ControlError(405, message, {"Allow": allowed})
        raise ControlError(404, f"{request.target}: there is nothing here")


class Request:
    """One request: method, target as it came, path in decoded segments, query, headers, body."""

    __slots__ = ("body", "headers", "method", "path", "query", "target")

    def __init__(self, method: str, target: str, headers: dict[str, str]) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body = b""
        try:
            split = urlsplit(target)
        except ValueError as error:
            raise ControlError(400, f"{target!r} is not an address: {error}") from error
        # Split before decoding: the name of a group may have a slash in it.
        self.path = [unquote(segment) for segment in split.path.strip("/").split("/")]
        self.query = dict(parse_qsl(split.query, keep_blank_values=True))


async def _read_request(reader: asyncio.StreamReader) -> Request:
    """Read one request. Raises ControlError."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise ControlError(400, f"{first!r} is not a request line of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ControlError(400, f"{line!r} is not a header")
        headers[name.strip().lower()] = value.strip()
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
        raise ControlError(400, "a body needs a content-length")
    if int(length) > _BODY_BYTES:
        raise ControlError(400, f"a body of {length} bytes is too long, {_BODY_BYTES} are allowed")
    request = Request(words[0], words[1], headers)
    request.body = await reader.readexactly(int(length))
    return request


def _match(pattern: str, path: list[str]) -> dict[str, str] | None:
    """The values of a pattern's words in capitals; None if the path is not of this pattern."""
    words = pattern.strip("/").split("/")
    if len(words) != len(path):
        return None
    found: dict[str, str] = {}
    for word, segment in zip(words, path, strict=True):
        if word.isupper():
            found[word] = segment
        elif word != segment:
            return None
    return found


def _report_bug(task: asyncio.Task[None]) -> None:
    """A bug costs its connection; say so once."""
    if not task.cancelled() and task.exception() is not None:
        LOG.emit("control.failed", exc_info=task.exception())
